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
	pool    *pool
	slot    uint32
	got     [trunkproto.HelloSize]byte
	n       int // bytes of it that are here
	hello   trunkproto.Hello
	greeted bool
	waiter  waiter
	begun   time.Duration // on the worker's clock
	born    time.Duration // when the hello came, on the worker's clock
}

// ready is what the kernel tells of a trunk: that it is connected, that the hello is here, that it is no more.
func (t *trunk) ready(w *Worker, events uint32) {
	if t.tls != nil && t.tls.Handshaking() {
		if !t.tls.Begun() && events&(unix.EPOLLHUP|unix.EPOLLERR) == 0 {
			w.beginShake(&t.line, t)
		}
		w.shake(&t.line, t)
		return
	}
	if t.pending() > 0 {
		_ = w.push(&t.line) // a fault will be met again
	}
	if events&(unix.EPOLLIN|over) == 0 {
		return
	}
	if t.greeted {
		t.look(w)
		return
	}
	t.hear(w)
}

// look tells of a ready trunk whether it still is. A peer says nothing before it has a header; TLS may, by itself.
func (t *trunk) look(w *Worker) {
	if n, errno := w.read(&t.line, w.scratch); n > 0 || errno != unix.EAGAIN {
		w.loseTrunk(t, errStale)
	}
}

func (t *trunk) shaken(w *Worker, err error) {
	if err != nil {
		w.loseTrunk(t, err)
		return
	}
	t.hear(w)
}

// hear reads the hello.
func (t *trunk) hear(w *Worker) {
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
			t.hello, t.greeted = hello, true
			w.ease(&t.waiter)
			t.pool.greeted(w, t)
			if w.slots[t.slot].source == t {
				t.look(w) // no event tells again of what came with the hello
			}
			return
		}
	}
}

func (t *trunk) expired(w *Worker, _ wait) { w.loseTrunk(t, unix.ETIMEDOUT) }

// loseTrunk closes a trunk that has no flow.
func (w *Worker) loseTrunk(t *trunk, why error) {
	w.ease(&t.waiter)
	w.forget(t.slot)
	t.end(false)
	t.pool.lost(w, t, why)
}

// onTrunk is the part of a flow's state that is about the trunk which its server end is.
type onTrunk struct {
	pool   *pool
	answer [trunkproto.AnswerSize]byte
	n      int    // bytes of it that are here
	sent   []byte // the client's first bytes, as long as they could be sent again
	spoilt bool   // they are not all here any more
	before uint64 // bytes that this relay had said on the trunk before the flow's
	tries  int
}

// tries bounds how many trunks a flow is put on.
const tries = 3

// keep remembers bytes of the client's, in case that the trunk breaks.
func (o *onTrunk) keep(b []byte) {
	if !o.spoilt {
		o.sent = append(o.sent, b...)
	}
}

// forgo ends that.
func (o *onTrunk) forgo() { o.sent, o.spoilt = nil, true }

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
		Probe: s.guest != nil && s.guest.probe, Client: s.client, Server: s.server, ID: s.way.id,
		Via: s.way.via, Passed: s.way.passed, ClientAddress: s.way.shown, Congestion: s.way.congestion,
	}
	header, err := h.Append(make([]byte, 0, 256), w.cfg.Name, &t.hello, t.pool.sealer)
	if err != nil {
		w.loseTrunk(t, errUnused)
		w.turnAway(s, s.own(trunkproto.StatusOf(err)))
		return
	}
	w.adopt(s, flow.Server, t.line, t.slot)
	s.trunk.tries++
	s.trunk.n, s.trunk.before = 0, 0
	if t.tls != nil {
		s.trunk.before = t.tls.Said()
	}
	d := &s.dirs[flow.Client]
	if !s.state.Connected() {
		s.trunk.keep(d.buffer)
		w.say(s, flow.Client, header)
		w.begins(s)
		return
	}
	d.buffer = append(header, s.trunk.sent...)
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
		o.forgo() // who knows what the peer has done
		w.turnAway(s, s.own(trunkproto.NoTrunk))
	case size > 0 && a.Status == trunkproto.Connected:
		o.forgo()
		w.grant(s, a)
	case size > 0:
		w.turnAway(s, a)
	}
	return true
}

// trunkBroke puts a flow whose trunk is no more on another one, unless the peer may have acted upon what it was sent.
func (w *Worker) trunkBroke(s *split) {
	server, o := &s.ends[flow.Server], s.trunk
	o.pool.count.Broken.Add(1)
	if heard(server.fd, o.before) {
		o.forgo()
	}
	if o.spoilt || o.tries >= tries {
		w.turnAway(s, s.own(trunkproto.NoTrunk))
		return
	}
	o.pool.count.Replayed.Add(1)
	w.hangUp(server, true)
	*server = end{of: s, which: flow.Server, line: line{fd: -1}}
	w.letGo(&s.dirs[flow.Client])
	s.stage = stageConnecting
	w.takeTrunk(s)
}
