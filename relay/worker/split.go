package worker

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// stage is how far a flow has come.
type stage uint8

const (
	stageHeader     stage = iota // where the flow is to go
	stageConnecting              // the server, or a trunk, is awaited
	stageMoving
	stageEnding  // a reset is to be passed on when what is in front of it is acknowledged
	stageRefused // the client was told why, and its FIN is awaited
	stageOver
)

// split is one flow: two connections, and what is between them.
type split struct {
	state    flow.Flow
	stage    stage
	queued   bool // among the runnable
	answered bool // the server is there: the client was told, or need not be
	ends     [2]end
	dirs     [2]direction // by the end that the bytes come from
	entry    *entry       // where it came in; nil: by a trunk
	tally    *tally       // that it is counted in; nil: a probe
	waiter   waiter
	client   netip.AddrPort // who opened the flow, however far away
	server   netip.AddrPort // who is to answer it, however far away
	trunk    *onTrunk       // the server end is one; nil: it is the server's own connection
	route    route
	routes   []trunkproto.Names // that are chosen among, the best first; nil: the entry has one
	early    *early             // the client was not accepted yet
	request  *request           // the client end is a trunk, or asked for the server in words; nil: it is the client's own connection
	begun    time.Duration      // on the worker's clock, as the next
	moved    time.Duration      // when bytes last did
}

// end is one of a flow's connections.
type end struct {
	line
	of      *split
	which   flow.End
	slot    uint32
	hangup  bool // a FIN or an error is due behind what can be read
	failed  bool // an error is
	closing bool // it is closed when the kernel has taken all that is to be sent
	muted   bool // the kernel does not tell of what has come
	patient bool // its peer takes nothing: the kernel is not to give it up for that
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

// attach gives a flow the connection of one of its ends, and has the kernel tell of it. Unless there is an error the flow owns it.
func (w *Worker) attach(s *split, which flow.End, fd int32) unix.Errno {
	e := &s.ends[which]
	slot, errno := w.watch(fd, both, e)
	if errno != 0 {
		return errno
	}
	e.fd, e.slot = fd, slot
	return 0
}

// adopt gives a flow a connection that the kernel tells of already.
func (w *Worker) adopt(s *split, which flow.End, l line, slot uint32) {
	e := &s.ends[which]
	e.line, e.slot = l, slot
	e.readable, e.writable = true, true
	w.slots[slot].source = e
}

// ready is what the kernel tells of an end.
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
		w.startWait(&s.waiter, waitEnd) // the other end does not take what this one has said
	}
}

// step takes a flow as far as it goes.
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

// do carries out what the flow's state machine asks for.
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

// drained closes an end as soon as the kernel has what is to be sent, and passes a reset on as soon as what is in front of it has arrived.
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

// failed tells whether a connection is no more. What it has still to say stays where it is.
func failed(fd int32) bool {
	errno, _ := getInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return errno != 0
}

// drain looks after flows whose resets wait: no event tells of the last acknowledgement.
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

// expired is called when a flow has waited too long.
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

// drop ends a flow without regard to what is under way.
func (w *Worker) drop(s *split) {
	w.do(s, s.state.Fail())
	for i := range s.ends {
		if s.ends[i].fd >= 0 {
			w.hangUp(&s.ends[i], true)
		}
	}
	w.release(s)
}

// release gives back all that a flow that is over has held.
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
	delete(w.flows, s)
	w.leave(s)
	w.count.Live.Add(-1)
}
