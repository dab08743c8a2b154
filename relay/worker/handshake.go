package worker

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/secure"
	"baton/relay/trunkproto"
)

// trunkListener is a listener for other relays' trunks.
type trunkListener struct {
	fd       int32
	slot     uint32
	at       netip.AddrPort
	sealer   *trunkproto.Sealer // nil: TLS
	identity *secure.Identity   // for TLS
}

// ListenTrunks opens this worker's listener for trunks; see Listen for the order of workers.
func (w *Worker) ListenTrunks(at netip.AddrPort, c *config.Trunks) error {
	d := &trunkListener{at: at}
	if c.Credentials.Security == config.Plaintext {
		d.sealer = trunkproto.NewSealer(c.Credentials.Secret)
	} else {
		var err error
		if d.identity, err = w.o.Identities.Of(&c.Credentials); err != nil {
			return fmt.Errorf("trunks: %w", err)
		}
	}
	return w.ask(func(w *Worker) error {
		fd, err := w.listen(at, false, func(fd int32) error {
			tuneTrunk(fd, &c.Tuning)
			keepAlive(fd, w.keepaliveIdle())
			return nil
		})
		if err != nil {
			return fmt.Errorf("trunks: %w", err)
		}
		slot, errno := w.watch(fd, unix.EPOLLIN, d)
		if errno != 0 {
			closeFD(fd)
			return fmt.Errorf("trunks: epoll_ctl: %w", errno)
		}
		d.fd, d.slot = fd, slot
		w.trunkListeners = append(w.trunkListeners, d)
		return nil
	})
}

// ready accepts trunks.
func (d *trunkListener) ready(w *Worker, _ uint32) {
	for {
		fd, from, errno := accept(d.fd)
		switch {
		case errno == unix.ECONNABORTED || errno == unix.EINTR:
			continue
		case errno != 0:
			return // the next event brings the rest
		case !w.admitTrunk(from.Addr()):
			closeFD(fd)
			continue
		}
		w.startHandshake(d, fd, from)
	}
}

// handshake is an incoming trunk up to its header.
type handshake struct {
	line
	listener *trunkListener
	from     netip.AddrPort
	slot     uint32
	hello    trunkproto.Hello
	header   []byte // the part received so far
	hangup   bool   // a FIN or an error follows what can be read
	waiter   waiter
	born     time.Duration // on the worker's clock
}

// startHandshake sends the hello at once, or after the TLS handshake: it opens the opener's send window.
func (w *Worker) startHandshake(d *trunkListener, fd int32, from netip.AddrPort) {
	a := &handshake{line: line{fd: fd}, listener: d, from: from, born: w.now}
	a.waiter.of = a
	if d.identity == nil && !w.sendHello(a) {
		closeFD(fd)
		return
	}
	slot, errno := w.watch(fd, both, a)
	if errno != 0 {
		closeFD(fd)
		return
	}
	a.slot = slot
	w.addIdle(a)
	if d.identity != nil {
		a.tls = d.identity.Accept(&w.buffers)
		w.startWait(&a.waiter, waitHeader)
	}
}

// sendHello reports whether the hello was sent.
func (w *Worker) sendHello(a *handshake) bool {
	var nonce [trunkproto.NonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails
	a.hello = trunkproto.NewHello(nonce)
	n, errno := w.write(&a.line, a.hello[:])
	return errno == 0 && n == len(a.hello)
}

// ready reads the header.
func (a *handshake) ready(w *Worker, events uint32) {
	a.hangup = a.hangup || events&over != 0
	if a.tls != nil && a.tls.Handshaking() {
		a.continueTLS(w)
		return
	}
	if a.pending() > 0 {
		_ = w.push(&a.line) // an error is returned again by the next call
	}
	if events&(unix.EPOLLIN|over) == 0 {
		return
	}
	for {
		n, errno := w.read(&a.line, w.scratch)
		if errno == unix.EAGAIN {
			return
		}
		if errno != 0 || n == 0 {
			w.abortHandshake(a, false)
			return
		}
		if len(a.header) == 0 {
			w.startWait(&a.waiter, waitHeader)
		}
		b := w.scratch[:n]
		if len(a.header) > 0 {
			a.header = append(a.header, b...)
			b = a.header
		}
		h, size, err := trunkproto.ParseHeader(b, &a.hello, a.listener.sealer)
		if err != nil {
			w.count.BadTrunkHeaders.Add(1)
			w.o.Log.Debug("trunk refused", "err", err)
			w.startFlow(a, trunkproto.Header{}, nil, err)
			return
		}
		if size > 0 {
			if err = a.checkOpener(&h); err == nil {
				err = h.Advance(w.cfg.Name)
			}
			w.startFlow(a, h, b[size:], err)
			return
		}
		if len(a.header) == 0 {
			a.header = append(a.header, b...)
		}
	}
}

func (a *handshake) expired(w *Worker, _ wait) {
	w.count.Expired[waitHeader].Add(1)
	w.abortHandshake(a, true)
}

// checkOpener refuses a header from a relay that the trunk's certificate does not name.
func (a *handshake) checkOpener(h *trunkproto.Header) error {
	if a.tls == nil {
		return nil // the seal authenticates it
	}
	if err := a.tls.Names(string(h.Passed.Last())); err != nil {
		return &trunkproto.Malformed{What: "header", Reason: err.Error()}
	}
	return nil
}

// startFlow starts a flow for a trunk whose header was received or is invalid. first is what followed the header.
func (w *Worker) startFlow(a *handshake, h trunkproto.Header, first []byte, wrong error) {
	w.endHandshake(a)
	s := w.newSplit(nil, h.Client)
	s.request = &request{probe: h.Probe, from: a.from}
	if h.Probe {
		w.count.Probes.Add(1)
	} else {
		w.enter(s, &w.trunked)
	}
	s.server = h.Server
	s.route = route{
		via: slices.Clone(h.Via), passed: slices.Clone(h.Passed), id: h.ID, shown: h.ClientAddress, congestion: strings.Clone(h.Congestion),
	}
	w.adopt(s, flow.Client, a.line, a.slot)
	s.ends[flow.Client].hangup = a.hangup
	if wrong != nil {
		w.reject(s, s.answer(trunkproto.StatusOf(wrong)))
		return
	}
	if w.count.Live.Load() > int64(w.most()) {
		w.reject(s, s.answer(trunkproto.Overloaded))
		return
	}
	if len(first) > 0 {
		w.prepend(s, flow.Client, slices.Clone(first))
		w.countClientBytes(s, len(first))
	}
	w.startOnward(s)
}

// abortHandshake closes an incoming trunk.
func (w *Worker) abortHandshake(a *handshake, reset bool) {
	w.endHandshake(a)
	w.forget(a.slot)
	a.end(reset)
}

// endHandshake ends the handshake state. The connection and its slot remain.
func (w *Worker) endHandshake(a *handshake) {
	w.stopWait(&a.waiter)
	w.removeTLS(a)
	w.removeIdle(a)
}
