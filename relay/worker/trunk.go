package worker

import (
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// trunk is a connection to a peer that has no flow yet.
type trunk struct {
	line
	pool     *pool
	slot     uint32
	got      [trunkproto.HelloSize]byte
	n        int // bytes of it that are here
	hello    trunkproto.Hello
	hasHello bool
	waiter   waiter
	begun    time.Duration // on the worker's clock
	born     time.Duration // when the hello came, on the worker's clock
}

// ready is what the kernel tells of a trunk: that it is connected, that the hello is here, that it is no more.
func (t *trunk) ready(w *Worker, events uint32) {
	if t.tls != nil && t.tls.Handshaking() {
		if !t.tls.Begun() && events&(unix.EPOLLHUP|unix.EPOLLERR) == 0 {
			w.startTLS(&t.line, t)
		}
		w.continueTLS(&t.line, t)
		return
	}
	if t.pending() > 0 {
		_ = w.push(&t.line) // a fault will be met again
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

// checkReady tells of a ready trunk whether it still is. A peer says nothing before it has a header; TLS may, by itself.
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
				t.checkReady(w) // no event tells again of what came with the hello
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

// onTrunk is the part of a flow's state that is about the trunk which its server end is.
type onTrunk struct {
	pool         *pool
	answer       [trunkproto.AnswerSize]byte
	n            int    // bytes of it that are here
	replay       []byte // the client's first bytes, as long as they could be sent again
	unreplayable bool   // they are not all here any more
	before       uint64 // bytes that this relay had said on the trunk before the flow's
	tries        int
}

// mostTries bounds how many trunks a flow is put on.
const mostTries = 3

// keepReplay remembers bytes of the client's, in case that the trunk breaks.
func (o *onTrunk) keepReplay(b []byte) {
	if !o.unreplayable {
		o.replay = append(o.replay, b...)
	}
}

// dropReplay ends that.
func (o *onTrunk) dropReplay() { o.replay, o.unreplayable = nil, true }

// takeTrunk puts a flow on a trunk, or has it wait for one.
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

// readAnswer reads what the next relay says of the server. Progress: it has said it.
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
		o.dropReplay() // who knows what the peer has done
		w.reject(s, s.answer(trunkproto.NoTrunk))
	case size > 0 && a.Status == trunkproto.Connected:
		o.dropReplay()
		w.confirm(s, a)
	case size > 0:
		w.reject(s, a)
	}
	return true
}

// trunkBroke puts a flow whose trunk is no more on another one, unless the peer may have acted upon what it was sent.
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
