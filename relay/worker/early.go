package worker

import (
	"net/netip"

	"baton/relay/flow"
)

// SYN is a SYN to an entry that the kernel has reported before it is accepted.
type SYN struct {
	Client, Server netip.AddrPort // of the packet
	ISN            uint32
	Entry          string
	Held           bool // until it is released or refused
	Handle         any  // identifies it to its source
}

// Settlement is a decision about a SYN.
type Settlement uint8

// A held SYN is released or refused first. Every SYN is done in the end.
const (
	Release Settlement = iota // the server has answered: the client's handshake goes on
	Refuse                    // the server has not: the client is refused
	Done                      // the client was accepted, or its flow is over
)

// early is the state of a flow whose client is not accepted yet.
type early struct {
	syn  SYN
	held bool // the client has no answer yet
}

type synKey struct{ client, server netip.AddrPort }

func (s *SYN) key() synKey { return synKey{s.Client, s.Server} }

// SYNs is the source of the SYNs to this worker's listeners: see Listen.
type SYNs struct {
	FD int // readable when there are some; owned by the caller
	// Take calls each for every SYN, in order. cancelled: the client gave up. The worker's thread calls it, and it must not block.
	Take func(each func(syn SYN, cancelled bool)) error
}

func (s *SYNs) ready(w *Worker, _ uint32) { w.readSYNs() }

// readSYNs starts flows for the reported SYNs. The kernel reports a SYN before its client can be accepted, so a call after accept(2) finds
// it.
func (w *Worker) readSYNs() {
	if w.o.SYNs == nil {
		return
	}
	if err := w.o.SYNs.Take(w.handleSYN); err != nil {
		w.o.Log.Error("read SYNs: early SYN is off until a restart", "err", err)
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
	if s != nil { // the client opened a new connection from the same port
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

// passSYN lets the client be accepted like any other.
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

// matchEarly attaches an accepted client to the flow that its SYN has started. It returns false if there is none.
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

// settle ends the early state of a flow.
func (w *Worker) settle(s *split) {
	delete(w.early, s.early.syn.key())
	w.o.Settle(s.early.syn, Done)
	s.early = nil
}

// earlyConnected is called when the server of a flow without a client is connected.
func (w *Worker) earlyConnected(s *split) {
	if s.early.held {
		s.early.held = false
		w.o.Settle(s.early.syn, Release)
	}
	w.startWait(&s.waiter, waitAccept)
}

// refuseEarly is called when the server of a flow without a client is unavailable. A client that was answered already is reset when it is
// accepted, as its flow fails in the same way.
func (w *Worker) refuseEarly(s *split) {
	if s.early.held {
		s.early.held = false
		w.o.Settle(s.early.syn, Refuse)
	}
	w.drop(s)
}
