package worker

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/prologue"
)

// dock is a listener for other relays' trunks.
type dock struct {
	fd     int32
	slot   uint32
	at     netip.AddrPort
	sealer *prologue.Sealer // nil: TLS
}

// Dock opens this worker's listener for trunks; see Listen for the order of the workers.
func (w *Worker) Dock(at netip.AddrPort, c *config.Trunks) error {
	return w.ask(func(w *Worker) error {
		d := &dock{at: at}
		if c.Credentials.Security == config.Plaintext {
			d.sealer = prologue.NewSealer(c.Credentials.Secret)
		}
		fd, err := w.listen(at, false, func(fd int32) error {
			tuneTrunk(fd, &c.Tuning)
			w.guard(fd)
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
		w.docks = append(w.docks, d)
		return nil
	})
}

// ready accepts trunks.
func (d *dock) ready(w *Worker, _ uint32) {
	for {
		fd, from, errno := accept(d.fd)
		switch {
		case errno == unix.ECONNABORTED || errno == unix.EINTR:
			continue
		case errno != 0:
			return // what waits comes with the next event
		case len(w.guests) >= max(1, w.cfg.Trunks.Waiting/w.o.Of):
			w.count.Full.Add(1)
			closeFD(fd)
			continue
		}
		w.greet(d, fd, from)
	}
}

// arrival is a trunk of another relay that has not said for what it is.
type arrival struct {
	dock   *dock
	fd     int32
	from   netip.AddrPort
	slot   uint32
	hello  prologue.Hello
	header []byte // as far as it is here
	hangup bool   // a FIN or an error is due behind what can be read
	waiter waiter
}

// greet says hello at once: the opener's window opens with it.
func (w *Worker) greet(d *dock, fd int32, from netip.AddrPort) {
	a := &arrival{dock: d, fd: fd, from: from}
	a.waiter.of = a
	var nonce [prologue.NonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails
	a.hello = prologue.NewHello(nonce)
	if n, errno := write(fd, a.hello[:]); errno != 0 || n < len(a.hello) {
		resetFD(fd)
		return
	}
	slot, errno := w.watch(fd, both, a)
	if errno != 0 {
		resetFD(fd)
		return
	}
	a.slot = slot
	w.guests[a] = struct{}{}
	w.count.Waiting.Add(1)
}

// ready reads the header.
func (a *arrival) ready(w *Worker, events uint32) {
	if events&(unix.EPOLLIN|over) == 0 {
		return
	}
	a.hangup = a.hangup || events&over != 0
	for {
		n, errno := read(a.fd, w.scratch)
		if errno == unix.EAGAIN {
			return
		}
		if errno != 0 || n == 0 {
			w.dismiss(a)
			w.forget(a.slot)
			closeFD(a.fd)
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
		h, size, err := prologue.ParseHeader(b, &a.hello, a.dock.sealer)
		if err != nil {
			w.count.BadHeaders.Add(1)
			w.o.Log.Debug("trunk refused", "err", err)
			w.carry(a, prologue.Header{}, nil, err)
			return
		}
		if size > 0 {
			err := h.Arrive(w.cfg.Name)
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
	w.dismiss(a)
	w.forget(a.slot)
	resetFD(a.fd)
}

// carry makes a flow of a trunk whose header is here, or is wrong. first is what came behind the header.
func (w *Worker) carry(a *arrival, h prologue.Header, first []byte, wrong error) {
	w.dismiss(a)
	s := w.newSplit(nil, h.Client)
	s.guest = &guest{probe: h.Probe, from: a.from}
	if !h.Probe {
		w.enter(s, &w.trunked)
	}
	s.server = h.Server
	s.way = way{
		via: slices.Clone(h.Via), passed: slices.Clone(h.Passed), id: h.ID, shown: h.ClientAddress, congestion: strings.Clone(h.Congestion),
	}
	w.adopt(s, flow.Client, a.fd, a.slot)
	s.ends[flow.Client].hangup = a.hangup
	if wrong != nil {
		w.turnAway(s, s.own(prologue.StatusOf(wrong)))
		return
	}
	if w.count.Live.Load() > int64(w.most()) {
		w.turnAway(s, s.own(prologue.Overloaded))
		return
	}
	if len(first) > 0 {
		w.say(s, flow.Client, slices.Clone(first))
		w.came(s, len(first))
	}
	w.onward(s)
}

// dismiss ends an arrival as such. Its descriptor and slot stay.
func (w *Worker) dismiss(a *arrival) {
	w.ease(&a.waiter)
	delete(w.guests, a)
	w.count.Waiting.Add(-1)
}
