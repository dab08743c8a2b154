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
	identity *secure.Identity   // of TLS
}

// ListenTrunks opens this worker's listener for trunks; see Listen for the order of the workers.
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
			keepAlive(fd, w.silence())
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
			return // what waits comes with the next event
		case !w.room(from.Addr()):
			closeFD(fd)
			continue
		}
		w.greet(d, fd, from)
	}
}

// arrival is a trunk of another relay that has not said for what it is.
type arrival struct {
	line
	listener *trunkListener
	from     netip.AddrPort
	slot     uint32
	hello    trunkproto.Hello
	header   []byte // as far as it is here
	hangup   bool   // a FIN or an error is due behind what can be read
	waiter   waiter
	born     time.Duration // on the worker's clock
}

// greet says hello at once, or as soon as it can be said in secret: the opener's window opens with it.
func (w *Worker) greet(d *trunkListener, fd int32, from netip.AddrPort) {
	a := &arrival{line: line{fd: fd}, listener: d, from: from, born: w.now}
	a.waiter.of = a
	if d.identity == nil && !w.sayHello(a) {
		closeFD(fd)
		return
	}
	slot, errno := w.watch(fd, both, a)
	if errno != 0 {
		closeFD(fd)
		return
	}
	a.slot = slot
	w.enlist(a)
	if d.identity != nil {
		a.tls = d.identity.Accept(&w.buffers)
		w.await(&a.waiter, waitHeader)
	}
}

// sayHello tells whether the hello could be said.
func (w *Worker) sayHello(a *arrival) bool {
	var nonce [trunkproto.NonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails
	a.hello = trunkproto.NewHello(nonce)
	n, errno := w.write(&a.line, a.hello[:])
	return errno == 0 && n == len(a.hello)
}

// ready reads the header.
func (a *arrival) ready(w *Worker, events uint32) {
	a.hangup = a.hangup || events&over != 0
	if a.tls != nil && a.tls.Handshaking() {
		a.shake(w)
		return
	}
	if a.pending() > 0 {
		_ = w.push(&a.line) // a fault will be met again
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
			w.sendAway(a, false)
			return
		}
		if len(a.header) == 0 {
			w.await(&a.waiter, waitHeader)
		}
		b := w.scratch[:n]
		if len(a.header) > 0 {
			a.header = append(a.header, b...)
			b = a.header
		}
		h, size, err := trunkproto.ParseHeader(b, &a.hello, a.listener.sealer)
		if err != nil {
			w.count.BadHeaders.Add(1)
			w.o.Log.Debug("trunk refused", "err", err)
			w.carry(a, trunkproto.Header{}, nil, err)
			return
		}
		if size > 0 {
			if err = a.isFrom(&h); err == nil {
				err = h.Arrive(w.cfg.Name)
			}
			w.carry(a, h, b[size:], err)
			return
		}
		if len(a.header) == 0 {
			a.header = append(a.header, b...)
		}
	}
}

func (a *arrival) expired(w *Worker, _ wait) {
	w.count.Expired[waitHeader].Add(1)
	w.sendAway(a, true)
}

// isFrom refuses a header of a relay that is none of those whose certificate the trunk has.
func (a *arrival) isFrom(h *trunkproto.Header) error {
	if a.tls == nil {
		return nil // the seal says it
	}
	if err := a.tls.Names(string(h.Passed.Last())); err != nil {
		return &trunkproto.Malformed{What: "header", Reason: err.Error()}
	}
	return nil
}

// carry makes a flow of a trunk whose header is here, or is wrong. first is what came behind the header.
func (w *Worker) carry(a *arrival, h trunkproto.Header, first []byte, wrong error) {
	w.dismiss(a)
	s := w.newSplit(nil, h.Client)
	s.guest = &guest{probe: h.Probe, from: a.from}
	if h.Probe {
		w.count.Probes.Add(1)
	} else {
		w.enter(s, &w.trunked)
	}
	s.server = h.Server
	s.way = way{
		via: slices.Clone(h.Via), passed: slices.Clone(h.Passed), id: h.ID, shown: h.ClientAddress, congestion: strings.Clone(h.Congestion),
	}
	w.adopt(s, flow.Client, a.line, a.slot)
	s.ends[flow.Client].hangup = a.hangup
	if wrong != nil {
		w.turnAway(s, s.own(trunkproto.StatusOf(wrong)))
		return
	}
	if w.count.Live.Load() > int64(w.most()) {
		w.turnAway(s, s.own(trunkproto.Overloaded))
		return
	}
	if len(first) > 0 {
		w.say(s, flow.Client, slices.Clone(first))
		w.came(s, len(first))
	}
	w.onward(s)
}

// sendAway closes an arrival.
func (w *Worker) sendAway(a *arrival, reset bool) {
	w.dismiss(a)
	w.forget(a.slot)
	a.end(reset)
}

// dismiss ends an arrival as such. Its connection and slot stay.
func (w *Worker) dismiss(a *arrival) {
	w.ease(&a.waiter)
	w.unlist(a)
	w.strike(a)
}
