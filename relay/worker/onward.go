package worker

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// onward begins the way to a flow's server.
func (w *Worker) onward(s *split) {
	s.stage = stageConnecting
	w.await(&s.waiter, waitConnect)
	if s.entry != nil && s.entry.Auto {
		w.choose(s)
	}
	w.goOn(s)
}

// goOn takes the way that a flow has.
func (w *Worker) goOn(s *split) {
	first, _ := s.way.via.Cut()
	switch {
	case first == nil && s.isProbe():
		w.sound(s)
	case first == nil:
		w.dial(s)
	case w.pools[string(first)] == nil:
		w.turnAway(s, s.own(trunkproto.NoSuchRelay))
	default:
		s.trunk = &onTrunk{pool: w.pools[string(first)]}
		if s.state.Connected() { // by another way before
			s.trunk.sent = s.dirs[flow.Client].buffer
		}
		w.takeTrunk(s)
	}
}

// way is how a flow goes on from here.
type way struct {
	via        trunkproto.Names // relays still to pass, the next first
	passed     trunkproto.Names // relays passed, without this one
	tried      uint8            // of the flow's ways, of those that can be chosen among
	id         [trunkproto.IDSize]byte
	shown      trunkproto.ClientAddress
	congestion string
}

// own is an answer of this relay.
func (s *split) own(status trunkproto.Status) trunkproto.Answer {
	return trunkproto.Answer{Status: status, Hop: uint8(s.way.passed.Len())}
}

// dial begins the connection to a flow's server.
func (w *Worker) dial(s *split) {
	if !w.allowed(s) {
		w.turnAway(s, s.own(trunkproto.NotAllowed))
		return
	}
	if s.way.shown == trunkproto.Spoofed && len(w.cfg.Return) == 0 {
		w.turnAway(s, s.own(trunkproto.NotAllowed)) // what the server says would not come back here
		return
	}
	fd, errno := w.connect(s)
	if errno != 0 {
		w.turnAway(s, s.own(trunkproto.StatusOf(errno)))
		return
	}
	if errno := w.attach(s, flow.Server, fd); errno != 0 {
		closeFD(fd)
		w.turnAway(s, s.own(trunkproto.StatusOf(errno)))
	}
}

// connect returns a socket that connects to the flow's server.
func (w *Worker) connect(s *split) (fd int32, errno unix.Errno) {
	fd, errno = newSocket(s.server.Addr())
	if errno != 0 {
		return -1, errno
	}
	tune(fd)
	if s.way.congestion != "" {
		errno = setText(fd, unix.SOL_TCP, unix.TCP_CONGESTION, s.way.congestion)
	}
	if errno == 0 && s.way.shown == trunkproto.Spoofed {
		errno = bindTo(fd, s.client, w.o.Mark)
	}
	if errno == 0 {
		errno = connect(fd, s.server)
	}
	if errno != 0 && errno != unix.EINPROGRESS {
		closeFD(fd)
		return -1, errno
	}
	return fd, 0
}

// bindTo gives a socket the address of someone else.
func bindTo(fd int32, a netip.AddrPort, mark uint32) unix.Errno {
	if errno := transparent(fd, a.Addr()); errno != 0 {
		return errno
	}
	if errno := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); errno != 0 {
		return errno
	}
	if mark != 0 {
		if errno := setInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); errno != 0 {
			return errno
		}
	}
	return bind(fd, a)
}

// connecting looks whether the server is there, and whether the client still is.
func (w *Worker) connecting(s *split) {
	client, server := &s.ends[flow.Client], &s.ends[flow.Server]
	if client.fd >= 0 && client.hangup && failed(client.fd) {
		w.drop(s)
		return
	}
	if server.fd < 0 || !server.writable {
		return
	}
	if server.hangup {
		if errno, _ := getInt(server.fd, unix.SOL_SOCKET, unix.SO_ERROR); errno != 0 {
			if s.isProbe() && unix.Errno(errno) == unix.ECONNREFUSED {
				w.sounded(s, time.Since(s.guest.since))
				return
			}
			w.turnAway(s, s.own(trunkproto.StatusOf(unix.Errno(errno))))
			return
		}
	}
	if s.isProbe() {
		w.sounded(s, roundTrip(server.fd))
		return
	}
	if s.way.shown == trunkproto.ProxyHeader {
		w.say(s, flow.Client, trunkproto.AppendProxy(nil, s.client, s.server))
	}
	a := s.own(trunkproto.Connected)
	if s.guest != nil {
		a.RTT = roundTrip(server.fd)
	}
	w.grant(s, a)
	w.begins(s)
}

// say puts bytes of the relay's own in front of all that came from an end.
func (w *Worker) say(s *split, from flow.End, b []byte) {
	d := &s.dirs[from]
	d.buffer = append(b, d.buffer...)
	s.state.Read(from, len(b))
}

// begins has bytes move.
func (w *Worker) begins(s *split) {
	s.stage = stageMoving
	w.do(s, s.state.Connect())
	w.move(s)
}

// grant tells the client that its server is there, if it is to be told.
func (w *Worker) grant(s *split, a trunkproto.Answer) {
	s.answered = true
	if s.early != nil {
		w.heardEarly(s)
		return
	}
	w.await(&s.waiter, waitYoung)
	if s.ends[flow.Client].failed {
		w.await(&s.waiter, waitEnd)
	}
	if s.guest != nil {
		if s.guest.asked != nil {
			w.found(s, a)
			return
		}
		if b := s.guest.granted(a); len(b) > 0 {
			w.say(s, flow.Server, b)
		}
	}
}

// turnAway ends a flow whose server cannot be had: who asked for it in words is told so, any other client reset.
func (w *Worker) turnAway(s *split, a trunkproto.Answer) {
	if s.isProbe() {
		w.found(s, a)
		return
	}
	if w.reroute(s, a) {
		return
	}
	w.count.Refused[min(int(a.Status), len(w.count.Refused)-1)].Add(1)
	if s.early != nil {
		w.refuseEarly(s)
		return
	}
	client, server := &s.ends[flow.Client], &s.ends[flow.Server]
	if server.fd >= 0 {
		w.hangUp(server, true)
	}
	if s.guest == nil || s.answered || client.fd < 0 {
		w.drop(s)
		return
	}
	w.conclude(s, s.guest.refused(a))
}

// conclude says the last words to a client that gets no server; without any it is reset.
func (w *Worker) conclude(s *split, words []byte) {
	if len(words) > 0 {
		_, _ = w.write(&s.ends[flow.Client].line, words) // fits: hardly anything was written
	}
	w.sayGoodbye(s, len(words) > 0)
}

// sayGoodbye ends a flow that has no server end: with a FIN behind what the client was told, or a reset.
func (w *Worker) sayGoodbye(s *split, told bool) {
	if !told {
		w.drop(s)
		return
	}
	client := &s.ends[flow.Client]
	w.finish(&client.line, false)
	s.stage = stageRefused
	w.await(&s.waiter, waitEnd)
	w.heardOut(s)
}

// heardOut waits for the FIN of a client that was refused: a close before it would be a reset, which may overtake the refusal.
func (w *Worker) heardOut(s *split) {
	client := &s.ends[flow.Client]
	if errno := w.push(&client.line); errno != 0 && errno != unix.EAGAIN {
		w.drop(s)
		return
	}
	for {
		n, errno := w.read(&client.line, w.scratch)
		if errno == unix.EAGAIN {
			return
		}
		if n <= 0 {
			w.hangUp(client, errno != 0)
			w.drop(s)
			return
		}
	}
}

// allowed tells whether a flow may leave for its server here. A destination of the configuration's own need not be named twice.
func (w *Worker) allowed(s *split) bool {
	return s.entry != nil && s.entry.Mode == config.Plain || w.cfg.Allowed(s.server) || s.isProbe() && w.isPeer(s.server)
}
