package worker

import (
	"net/netip"

	"baton/relay/flow"
)

// SYN is one that has come to an entry, and that the kernel has told of before it is accepted.
type SYN struct {
	Client, Server netip.AddrPort // as in the packet
	ISN            uint32
	Entry          string
	Held           bool // it waits to be released or refused
	Handle         any  // whoever tells of it knows it by this
}

// Settlement is what becomes of a SYN.
type Settlement uint8

// A SYN that is held is released or refused first. Every SYN is taken at last.
const (
	Release Settlement = iota // the server is there: its handshake goes on
	Refuse                    // the server is not: the client is refused
	Done                      // its flow was accepted, or is over
)

// early is a flow that is on its way to its server before its client was accepted.
type early struct {
	syn  SYN
	held bool // and the client has had no answer
}

type synKey struct{ client, server netip.AddrPort }

func (s *SYN) key() synKey { return synKey{s.Client, s.Server} }

// SYNs is where the kernel tells of those that come to this worker's listeners: see Listen.
type SYNs struct {
	FD int // becomes readable when there are some; the caller's
	// Take gives what is there to each, in the order in which it came. cancelled: the client has given its SYN up. It is called by the
	// worker's thread, and must not wait.
	Take func(each func(syn SYN, cancelled bool)) error
}

func (s *SYNs) ready(w *Worker, _ uint32) { w.readSYNs() }

// readSYNs begins the flows of the SYNs that there are. The kernel tells of a SYN before its client can be accepted: who looks for it
// behind accept(2) finds it.
func (w *Worker) readSYNs() {
	if w.o.SYNs == nil {
		return
	}
	if err := w.o.SYNs.Take(w.handleSYN); err != nil {
		w.o.Log.Error("SYNs are not heard of any more", "err", err)
		w.o.SYNs = nil
	}
}

func (w *Worker) handleSYN(syn SYN, cancelled bool) {
	s := w.early[syn.key()]
	if cancelled {
		if s != nil && s.early.syn.ISN == syn.ISN {
			w.drop(s)
		}
		return
	}
	if s != nil { // the client has begun anew
		w.drop(s)
	}
	e := w.entryOf(syn.Entry)
	if e == nil || w.count.Live.Load() >= int64(w.most()) {
		w.passSYN(syn)
		return
	}
	s = w.newFlow(e, syn.Client, syn.Server)
	s.early = &early{syn: syn, held: syn.Held}
	w.early[syn.key()] = s
	w.count.Early.Add(1)
	w.startOnward(s)
	if s.early != nil && !s.early.held {
		w.startWait(&s.waiter, waitAccept)
	}
}

// passSYN has the client come in as if nobody had told of its SYN.
func (w *Worker) passSYN(syn SYN) {
	if syn.Held {
		w.o.Settle(syn, Release)
	}
	w.o.Settle(syn, Done)
}

func (w *Worker) entryOf(name string) *entry {
	for _, e := range w.entries {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// matchEarly gives a flow that was begun early the client that was accepted now. False: there is none.
func (w *Worker) matchEarly(client, server netip.AddrPort, fd int32) bool {
	s := w.early[synKey{client, server}]
	if s == nil {
		return false
	}
	w.settle(s)
	if errno := w.attach(s, flow.Client, fd); errno != 0 {
		closeFD(fd)
		w.drop(s)
		return true
	}
	switch {
	case !s.answered:
		w.startWait(&s.waiter, waitConnect)
	case s.ends[flow.Server].failed:
		w.startWait(&s.waiter, waitEnd)
	default:
		w.startWait(&s.waiter, waitYoung)
	}
	return true
}

// settle has nobody expect the client of an early flow any more.
func (w *Worker) settle(s *split) {
	delete(w.early, s.early.syn.key())
	w.o.Settle(s.early.syn, Done)
	s.early = nil
}

// earlyConnected is called when the server of a flow without a client is there.
func (w *Worker) earlyConnected(s *split) {
	if s.early.held {
		s.early.held = false
		w.o.Settle(s.early.syn, Release)
	}
	w.startWait(&s.waiter, waitAccept)
}

// refuseEarly is called when the server of a flow without a client cannot be had. A client that was answered already is reset when
// it comes, as its flow fails the same way.
func (w *Worker) refuseEarly(s *split) {
	if s.early.held {
		s.early.held = false
		w.o.Settle(s.early.syn, Refuse)
	}
	w.drop(s)
}
