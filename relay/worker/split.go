package worker

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// stage is a flow's progress.
type stage uint8

const (
	stageHeader     stage = iota // waits for its header
	stageConnecting              // waits for the server or a trunk
	stageMoving
	stageEnding  // forwards a reset once the bytes in front of it are acknowledged
	stageRefused // the client got a refusal; waits for its FIN
	stageOver
)

// split is one flow: two connections and the bytes between them.
type split struct {
	state    flow.Flow
	stage    stage
	queued   bool // in runnable
	answered bool // the server is connected, and the client was told if need be
	ends     [2]end
	dirs     [2]direction // by source
	entry    *entry       // nil: it came by a trunk
	tally    *tally       // that counts it; nil: a probe
	waiter   waiter
	client   netip.AddrPort // who opened the flow, possibly at another relay
	server   netip.AddrPort // of the whole flow, possibly behind other relays
	trunk    *onTrunk       // the server end is a trunk; nil: a connection to the server
	route    route
	routes   []trunkproto.Names // candidates, best first; nil: the entry has a fixed route
	early    *early             // the client is not accepted yet
	request  *request           // how the server was requested; nil: by the connection itself
	begun    time.Duration      // on the worker's clock, as the next
	moved    time.Duration      // last time that bytes moved
}

// end is one of a flow's connections.
type end struct {
	line
	of      *split
	which   flow.End
	slot    uint32
	hangup  bool // a FIN or an error follows what can be read
	failed  bool // an error does
	closing bool // close when the kernel has accepted what is pending
	muted   bool // read events are disabled
	patient bool // its window is zero: no user timeout
}

func (w *Worker) newSplit(e *entry, client netip.AddrPort) *split {
	s := &split{entry: e, client: client, begun: w.now, moved: w.now}
	s.waiter.of = s
	for i := range s.ends {
		s.ends[i] = end{of: s, which: flow.End(i), line: line{fd: -1}}
	}
	w.flows[s] = struct{}{}
	w.count.Live.Add(1)
	return s
}

// attach adds a connection as one of a flow's ends and watches it. Without an error the flow owns it.
func (w *Worker) attach(s *split, which flow.End, fd int32) unix.Errno {
	e := &s.ends[which]
	slot, errno := w.watch(fd, both, e)
	if errno != 0 {
		return errno
	}
	e.fd, e.slot = fd, slot
	return 0
}

// adopt adds a connection that is already watched.
func (w *Worker) adopt(s *split, which flow.End, l line, slot uint32) {
	e := &s.ends[which]
	e.line, e.slot = l, slot
	e.readable, e.writable = true, true
	w.slots[slot].source = e
}

// ready handles the events of an end.
func (e *end) ready(w *Worker, events uint32) {
	if events&(unix.EPOLLIN|over) != 0 {
		e.readable = true
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		e.writable = true
	}
	if events&over != 0 {
		e.hangup, e.failed = true, e.failed || events&unix.EPOLLERR != 0
	}
	s := e.of
	if !s.queued {
		w.step(s)
	}
	if events&unix.EPOLLERR != 0 && s.stage == stageMoving && s.answered && s.early == nil {
		w.startWait(&s.waiter, waitEnd) // the other end does not accept what this one sent
	}
}

// step advances a flow as far as possible.
func (w *Worker) step(s *split) {
	switch s.stage {
	case stageHeader:
		w.readProxyHeader(s)
	case stageConnecting:
		w.connecting(s)
	case stageMoving:
		w.move(s)
	case stageEnding:
		w.drained(s)
	case stageRefused:
		w.drainRefused(s)
	}
}

// do carries out an action of the flow's state machine.
func (w *Worker) do(s *split, act flow.Act) {
	if act == 0 {
		return
	}
	for i := range s.ends {
		e := &s.ends[i]
		if e.fd < 0 {
			continue
		}
		if act&(flow.ShutClient<<i) != 0 {
			w.finish(&e.line, act&(flow.CloseClient<<i) != 0)
		}
		switch {
		case act&(flow.AbortClient<<i) != 0:
			if e.unsent() == 0 {
				w.hangUp(e, true)
			}
		case act&(flow.CloseClient<<i) != 0:
			whole := e.fin && s.state.Ended(e.which)
			if e.closing = whole && w.push(&e.line) == unix.EAGAIN; !e.closing {
				w.hangUp(e, !whole || e.pending() > 0)
			}
		}
	}
	if !s.state.Over() {
		return
	}
	if s.gone() {
		w.release(s)
		return
	}
	if s.stage == stageEnding {
		return
	}
	s.stage = stageEnding
	for i := range s.ends {
		if e := &s.ends[i]; e.fd >= 0 && !e.closing {
			w.aborting = append(w.aborting, s)
			w.startWait(&s.waiter, waitEnd)
			return
		}
	}
}

func (s *split) gone() bool { return s.ends[flow.Client].fd < 0 && s.ends[flow.Server].fd < 0 }

// hangUp closes an end.
func (w *Worker) hangUp(e *end, reset bool) {
	w.measure(e)
	w.forget(e.slot)
	e.line.end(reset)
}

// drained closes an end once the kernel has accepted what is pending, and forwards a reset once the bytes in front of it are acknowledged.
func (w *Worker) drained(s *split) {
	for i := range s.ends {
		e := &s.ends[i]
		if e.fd < 0 {
			continue
		}
		switch errno := w.pushEnd(e); {
		case errno != 0 && errno != unix.EAGAIN:
			w.hangUp(e, true)
		case e.closing && errno == 0:
			w.hangUp(e, false)
		case !e.closing && (e.unsent() == 0 || e.hangup && failed(e.fd)):
			w.hangUp(e, true)
		}
	}
	if s.gone() {
		w.release(s)
	}
}

// failed reports whether a connection has failed. Received bytes stay readable.
func failed(fd int32) bool {
	errno, _ := getInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return errno != 0
}

// drain checks flows with waiting resets: the last acknowledgement causes no event.
func (w *Worker) drain() {
	left := w.aborting[:0]
	for _, s := range w.aborting {
		if s.stage != stageOver {
			w.drained(s)
		}
		if s.stage != stageOver {
			left = append(left, s)
		}
	}
	clear(w.aborting[len(left):])
	w.aborting = left
}

// expired is called when a wait of the flow expires.
func (s *split) expired(w *Worker, for_ wait) {
	switch for_ {
	case waitEnd:
		if s.stage == stageMoving && s.moved+w.waits[waitEnd].after > w.now {
			w.startWait(&s.waiter, waitEnd)
			return
		}
	case waitYoung:
		w.startKeepalive(s)
		return
	case waitLook:
		w.checkIdle(s)
		return
	}
	w.count.Expired[for_].Add(1)
	if for_ == waitConnect {
		w.reject(s, s.answer(trunkproto.TimedOut))
	} else {
		w.drop(s)
	}
}

// drop ends a flow at once.
func (w *Worker) drop(s *split) {
	w.do(s, s.state.Fail())
	for i := range s.ends {
		if s.ends[i].fd >= 0 {
			w.hangUp(&s.ends[i], true)
		}
	}
	w.release(s)
}

// release frees the resources of a flow that is over.
func (w *Worker) release(s *split) {
	if s.stage == stageOver {
		return
	}
	s.stage = stageOver
	if s.early != nil {
		if s.early.held {
			w.o.Settle(s.early.syn, Refuse)
		}
		w.settle(s)
	}
	w.stopWait(&s.waiter)
	for i := range s.dirs {
		w.freeHeld(&s.dirs[i])
	}
	if s.request != nil && s.request.answers != nil {
		close(s.request.answers)
	}
	if s.request != nil && s.request.stopLookup != nil {
		s.request.stopLookup()
	}
	delete(w.flows, s)
	w.leave(s)
	w.count.Live.Add(-1)
}
