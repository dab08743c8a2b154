package worker

import (
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// trunk is a connection to a peer without a flow.
type trunk struct {
	line
	pool     *pool
	slot     uint32
	got      [trunkproto.HelloSize]byte
	n        int // received bytes of it
	hello    trunkproto.Hello
	hasHello bool
	waiter   waiter
	begun    time.Duration // on the worker's clock
	born     time.Duration // when the hello was received, on the worker's clock
}

// ready handles the events of a trunk.
func (t *trunk) ready(w *Worker, events uint32) {
	if t.tls != nil && t.tls.Handshaking() {
		if !t.tls.Begun() && events&(unix.EPOLLHUP|unix.EPOLLERR) == 0 {
			w.startTLS(&t.line, t)
		}
		w.continueTLS(&t.line, t)
		return
	}
	if t.pending() > 0 {
		_ = w.push(&t.line) // an error is returned again by the next call
	}
	if events&(unix.EPOLLIN|over) == 0 {
		return
	}
	if t.hasHello {
		t.checkReady(w)
		return
	}
	t.readHello(w)
}

// checkReady checks that a ready trunk is still open. A peer sends nothing before a header, but TLS itself may.
func (t *trunk) checkReady(w *Worker) {
	if n, errno := w.read(&t.line, w.scratch); n > 0 || errno != unix.EAGAIN {
		w.loseTrunk(t, errStale)
	}
}

func (t *trunk) tlsDone(w *Worker, err error) {
	if err != nil {
		w.loseTrunk(t, err)
		return
	}
	t.readHello(w)
}

// readHello reads the hello.
func (t *trunk) readHello(w *Worker) {
	for {
		n, errno := w.read(&t.line, t.got[t.n:])
		switch {
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			w.loseTrunk(t, errno)
			return
		case n == 0:
			w.loseTrunk(t, errStale)
			return
		}
		t.n += n
		hello, size, err := trunkproto.ParseHello(t.got[:t.n])
		if err != nil {
			w.loseTrunk(t, err)
			return
		}
		if size > 0 {
			t.hello, t.hasHello = hello, true
			w.stopWait(&t.waiter)
			t.pool.trunkReady(w, t)
			if w.slots[t.slot].source == t {
				t.checkReady(w) // what came with the hello causes no further event
			}
			return
		}
	}
}

func (t *trunk) expired(w *Worker, _ wait) { w.loseTrunk(t, unix.ETIMEDOUT) }

// loseTrunk closes a trunk that has no flow.
func (w *Worker) loseTrunk(t *trunk, why error) {
	w.stopWait(&t.waiter)
	w.forget(t.slot)
	t.end(false)
	t.pool.lost(w, t, why)
}

// onTrunk is the state of a flow whose server end is a trunk.
type onTrunk struct {
	pool         *pool
	answer       [trunkproto.AnswerSize]byte
	n            int    // received bytes of it
	replay       []byte // the client's first bytes, for a replay
	unreplayable bool   // replay is incomplete
	before       uint64 // bytes that this relay sent on the trunk before the flow's
	tries        int
}

// mostTries limits the trunks that a flow is put on.
const mostTries = 3

// keepReplay keeps bytes of the client, in case the trunk breaks.
func (o *onTrunk) keepReplay(b []byte) {
	if !o.unreplayable {
		o.replay = append(o.replay, b...)
	}
}

// dropReplay makes a replay impossible.
func (o *onTrunk) dropReplay() { o.replay, o.unreplayable = nil, true }

// takeTrunk puts a flow on a ready trunk, or makes it wait for one.
func (w *Worker) takeTrunk(s *split) {
	t := s.trunk.pool.take(w)
	if t == nil {
		s.trunk.pool.queue(s)
		return
	}
	w.onto(s, t)
}

// onto puts a flow on a trunk.
func (w *Worker) onto(s *split, t *trunk) {
	h := trunkproto.Header{
		Probe: s.request != nil && s.request.probe, Client: s.client, Server: s.server, ID: s.route.id,
		Via: s.route.via, Passed: s.route.passed, ClientAddress: s.route.shown, Congestion: s.route.congestion,
	}
	header, err := h.Append(make([]byte, 0, 256), w.cfg.Name, &t.hello, t.pool.sealer)
	if err != nil {
		w.loseTrunk(t, errUnused)
		w.reject(s, s.answer(trunkproto.StatusOf(err)))
		return
	}
	w.adopt(s, flow.Server, t.line, t.slot)
	s.trunk.tries++
	s.trunk.n, s.trunk.before = 0, 0
	if t.tls != nil {
		s.trunk.before = t.tls.TotalOutput()
	}
	d := &s.dirs[flow.Client]
	if !s.state.Connected() {
		s.trunk.keepReplay(d.buffer)
		w.prepend(s, flow.Client, header)
		w.startMoving(s)
		return
	}
	d.buffer = append(header, s.trunk.replay...)
	s.state.Again(len(d.buffer))
	s.stage = stageMoving
	w.move(s)
}

// readAnswer reads the next relay's answer. It returns true when that is complete.
func (w *Worker) readAnswer(s *split) bool {
	server, o := &s.ends[flow.Server], s.trunk
	if !server.readable {
		return false
	}
	n, errno := w.read(&server.line, o.answer[o.n:])
	switch {
	case errno == unix.EAGAIN:
		server.readable = false
		return false
	case errno != 0 || n == 0:
		w.trunkBroke(s)
		return true
	}
	o.n += n
	a, size, err := trunkproto.ParseAnswer(o.answer[:o.n])
	switch {
	case err != nil:
		o.dropReplay() // the peer may have done anything
		w.reject(s, s.answer(trunkproto.NoTrunk))
	case size > 0 && a.Status == trunkproto.Connected:
		o.dropReplay()
		w.confirm(s, a)
	case size > 0:
		w.reject(s, a)
	}
	return true
}

// trunkBroke moves a flow to another trunk if the peer cannot have acted on what it was sent.
func (w *Worker) trunkBroke(s *split) {
	server, o := &s.ends[flow.Server], s.trunk
	o.pool.count.Broken.Add(1)
	if acknowledged(server.fd, o.before) {
		o.dropReplay()
	}
	if o.unreplayable || o.tries >= mostTries {
		w.reject(s, s.answer(trunkproto.NoTrunk))
		return
	}
	o.pool.count.Replayed.Add(1)
	w.hangUp(server, true)
	*server = end{of: s, which: flow.Server, line: line{fd: -1}}
	w.freeHeld(&s.dirs[flow.Client])
	s.stage = stageConnecting
	w.takeTrunk(s)
}
