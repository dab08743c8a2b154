package worker

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/flow"
)

// stage is how far a flow has come.
type stage uint8

const (
	stageHeader     stage = iota // what the client begins with is awaited
	stageConnecting              // the server is
	stageMoving
	stageEnding // a reset is to be passed on when what is in front of it is acknowledged
)

// split is one flow: two connections, and what is between them.
type split struct {
	state    flow.Flow
	stage    stage
	queued   bool // among the runnable
	released bool
	wait     wait
	ends     [2]end
	dirs     [2]direction // by the end that the bytes come from
	entry    *entry
	to       netip.AddrPort // the server, however far away
	links    links
	begun    time.Duration // on the worker's clock, as the next
	moved    time.Duration // when bytes last did
}

// end is one of a flow's connections.
type end struct {
	of       *split
	which    flow.End
	fd       int32 // -1: none
	slot     uint32
	readable bool // as far as is known
	writable bool
	hangup   bool // a FIN or an error is due behind what can be read
	shut     bool // our FIN was said
	aborted  bool // it gets an RST when all is acknowledged
	peer     netip.AddrPort
}

func (w *Worker) newSplit(e *entry) *split {
	s := &split{entry: e, begun: w.now, moved: w.now}
	for i := range s.ends {
		s.ends[i] = end{of: s, which: flow.End(i), fd: -1}
	}
	w.flows[s] = struct{}{}
	w.count.Flows.Add(1)
	w.count.Live.Add(1)
	return s
}

// attach gives a flow the connection of one of its ends, and has the kernel tell of it.
func (w *Worker) attach(s *split, which flow.End, fd int32, peer netip.AddrPort) unix.Errno {
	e := &s.ends[which]
	slot, errno := w.watch(fd, both, e)
	if errno != 0 {
		return errno
	}
	e.fd, e.slot, e.peer = fd, slot, peer
	return 0
}

// ready is what the kernel tells of an end.
func (e *end) ready(w *Worker, events uint32) {
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if events&(unix.EPOLLIN|over) != 0 {
		e.readable = true
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		e.writable = true
	}
	if events&over != 0 {
		e.hangup = true
	}
	if !e.of.queued {
		w.step(e.of)
	}
}

// step takes a flow as far as it goes.
func (w *Worker) step(s *split) {
	switch s.stage {
	case stageConnecting:
		w.connecting(s)
	case stageMoving:
		w.move(s)
	case stageEnding:
		w.drained(s)
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
			shutdownWrite(e.fd)
			e.shut = true
		}
		switch {
		case act&(flow.AbortClient<<i) != 0:
			if unsent(e.fd) == 0 {
				w.hangUp(e, true)
			} else {
				e.aborted = true
			}
		case act&(flow.CloseClient<<i) != 0:
			w.hangUp(e, !e.shut || !s.state.Ended(e.which))
		}
	}
	if !s.state.Over() {
		return
	}
	if s.ends[flow.Client].fd < 0 && s.ends[flow.Server].fd < 0 {
		w.release(s)
		return
	}
	if s.stage != stageEnding {
		s.stage = stageEnding
		w.aborting = append(w.aborting, s)
		w.await(s, waitAbort)
	}
}

// hangUp closes an end.
func (w *Worker) hangUp(e *end, reset bool) {
	w.forget(e.slot)
	if reset {
		resetFD(e.fd)
	} else {
		closeFD(e.fd)
	}
	e.fd = -1
}

// drained passes a reset on as soon as what is in front of it has arrived.
func (w *Worker) drained(s *split) {
	for i := range s.ends {
		e := &s.ends[i]
		if e.fd >= 0 && (unsent(e.fd) == 0 || e.hangup && lost(e.fd)) {
			w.hangUp(e, true)
		}
	}
	if s.ends[flow.Client].fd < 0 && s.ends[flow.Server].fd < 0 {
		w.release(s)
	}
}

// lost tells whether a connection is no more.
func lost(fd int32) bool {
	var b [1]byte
	n, errno := read(fd, b[:])
	return n <= 0 && errno != 0 && errno != unix.EAGAIN
}

// drain looks after flows whose resets wait: no event tells of the last acknowledgement.
func (w *Worker) drain() {
	left := w.aborting[:0]
	for _, s := range w.aborting {
		if !s.released {
			w.drained(s)
		}
		if !s.released {
			left = append(left, s)
		}
	}
	clear(w.aborting[len(left):])
	w.aborting = left
}

// expired is called when a flow has waited too long.
func (w *Worker) expired(s *split, for_ wait) {
	w.count.Expired[for_].Add(1)
	if s.stage == stageEnding {
		for i := range s.ends {
			if s.ends[i].fd >= 0 {
				w.hangUp(&s.ends[i], true)
			}
		}
		w.release(s)
		return
	}
	w.do(s, s.state.Fail())
}

// release gives back all that a flow that is over has held.
func (w *Worker) release(s *split) {
	if s.released {
		return
	}
	s.released = true
	w.ease(s)
	for i := range s.dirs {
		w.letGo(&s.dirs[i])
	}
	delete(w.flows, s)
	w.count.Live.Add(-1)
}
