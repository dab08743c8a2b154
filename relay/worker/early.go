package worker

import (
	"net/netip"
	"time"

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
	Taken                     // its flow was accepted, or is over
)

// early is a flow that is on its way to its server before its client was accepted.
type early struct {
	syn  SYN
	held bool // and the client has had no answer
}

// late is how long after its client was accepted a SYN may be told of.
const late = time.Second

type synKey struct{ client, server netip.AddrPort }

func (s *SYN) key() synKey { return synKey{s.Client, s.Server} }

// Early begins a flow for a SYN. The worker is the one whose listener its client will come to: see Listen.
func (w *Worker) Early(syn SYN) error {
	return w.post(func(w *Worker) { w.anticipate(syn) })
}

// Cancel ends the flow of a SYN whose client has given up.
func (w *Worker) Cancel(syn SYN) error {
	return w.post(func(w *Worker) {
		if s := w.early[syn.key()]; s != nil && s.early.syn.ISN == syn.ISN {
			w.drop(s)
		}
	})
}

func (w *Worker) anticipate(syn SYN) {
	if a := w.ahead[syn.key()]; a != nil {
		w.forgetAhead(a)
		w.letIn(syn)
		return
	}
	if s := w.early[syn.key()]; s != nil { // the client has begun anew
		w.drop(s)
	}
	e := w.entryOf(syn.Entry)
	if e == nil || w.count.Live.Load() >= int64(w.most()) {
		w.letIn(syn)
		return
	}
	s := w.newFlow(e, syn.Client, syn.Server)
	s.early = &early{syn: syn, held: syn.Held}
	w.early[syn.key()] = s
	w.count.Early.Add(1)
	w.onward(s)
	if s.early != nil && !s.early.held {
		w.await(&s.waiter, waitAccept)
	}
}

// letIn has the client come in as if nobody had told of its SYN.
func (w *Worker) letIn(syn SYN) {
	if syn.Held {
		w.o.Settle(syn, Release)
	}
	w.o.Settle(syn, Taken)
}

func (w *Worker) entryOf(name string) *entry {
	for _, e := range w.entries {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// meet gives a flow that was begun early the client that was accepted now. False: there is none.
func (w *Worker) meet(client, server netip.AddrPort, fd int32) bool {
	s := w.early[synKey{client, server}]
	if s == nil {
		return false
	}
	w.settled(s)
	if errno := w.attach(s, flow.Client, fd); errno != 0 {
		closeFD(fd)
		w.drop(s)
		return true
	}
	switch {
	case !s.answered:
		w.await(&s.waiter, waitConnect)
	case s.ends[flow.Server].failed:
		w.await(&s.waiter, waitEnd)
	default:
		w.await(&s.waiter, waitYoung)
	}
	return true
}

// ahead is a client that was accepted before anybody told of its SYN, which happens over a short way or on a busy host: its flow began
// then, and is perhaps over when the SYN is told of.
type ahead struct {
	key    synKey
	waiter waiter
}

func (w *Worker) note(key synKey) {
	if a := w.ahead[key]; a != nil {
		w.forgetAhead(a)
	}
	a := &ahead{key: key}
	a.waiter.of = a
	w.ahead[key] = a
	w.await(&a.waiter, waitTold)
}

func (a *ahead) expired(w *Worker, _ wait) { w.forgetAhead(a) }

func (w *Worker) forgetAhead(a *ahead) {
	w.ease(&a.waiter)
	delete(w.ahead, a.key)
}

// settled has nobody expect the client of an early flow any more.
func (w *Worker) settled(s *split) {
	delete(w.early, s.early.syn.key())
	w.o.Settle(s.early.syn, Taken)
	s.early = nil
}

// heardEarly is called when the server of a flow without a client is there.
func (w *Worker) heardEarly(s *split) {
	if s.early.held {
		s.early.held = false
		w.o.Settle(s.early.syn, Release)
	}
	w.await(&s.waiter, waitAccept)
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
