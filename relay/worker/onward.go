package worker

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// startOnward begins the way to a flow's server.
func (w *Worker) startOnward(s *split) {
	s.stage = stageConnecting
	w.startWait(&s.waiter, waitConnect)
	if s.entry != nil && s.entry.Auto {
		w.chooseRoutes(s)
	}
	w.followRoute(s)
}

// followRoute takes the way that a flow has.
func (w *Worker) followRoute(s *split) {
	first, _ := s.route.via.Cut()
	switch {
	case first == nil && s.isProbe():
		w.startProbe(s)
	case first == nil:
		w.dial(s)
	case w.pools[string(first)] == nil:
		w.reject(s, s.answer(trunkproto.NoSuchRelay))
	default:
		s.trunk = &onTrunk{pool: w.pools[string(first)]}
		if s.state.Connected() { // by another way before
			s.trunk.replay = s.dirs[flow.Client].buffer
		}
		w.takeTrunk(s)
	}
}

// route is how a flow goes on from here.
type route struct {
	via        trunkproto.Names // relays still to pass, the next first
	passed     trunkproto.Names // relays passed, without this one
	tried      uint8            // of the flow's ways, of those that can be chosen among
	id         [trunkproto.IDSize]byte
	shown      trunkproto.ClientAddress
	congestion string
}

// answer is an answer of this relay.
func (s *split) answer(status trunkproto.Status) trunkproto.Answer {
	return trunkproto.Answer{Status: status, Hop: uint8(s.route.passed.Len())}
}

// dial begins the connection to a flow's server.
func (w *Worker) dial(s *split) {
	if !w.allowed(s) {
		w.reject(s, s.answer(trunkproto.NotAllowed))
		return
	}
	if s.route.shown == trunkproto.Spoofed && len(w.cfg.Return) == 0 {
		w.reject(s, s.answer(trunkproto.NotAllowed)) // what the server says would not come back here
		return
	}
	fd, errno := w.connect(s)
	if errno != 0 {
		w.reject(s, s.answer(trunkproto.StatusOf(errno)))
		return
	}
	if errno := w.attach(s, flow.Server, fd); errno != 0 {
		closeFD(fd)
		w.reject(s, s.answer(trunkproto.StatusOf(errno)))
	}
}

// connect returns a socket that connects to the flow's server.
func (w *Worker) connect(s *split) (fd int32, errno unix.Errno) {
	fd, errno = newSocket(s.server.Addr())
	if errno != 0 {
		return -1, errno
	}
	tune(fd)
	if s.route.congestion != "" {
		errno = setText(fd, unix.SOL_TCP, unix.TCP_CONGESTION, s.route.congestion)
	}
	if errno == 0 && s.route.shown == trunkproto.Spoofed {
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
				w.probeMeasured(s, time.Since(s.request.since))
				return
			}
			w.reject(s, s.answer(trunkproto.StatusOf(unix.Errno(errno))))
			return
		}
	}
	if s.isProbe() {
		w.probeMeasured(s, roundTrip(server.fd))
		return
	}
	if s.route.shown == trunkproto.ProxyHeader {
		w.prepend(s, flow.Client, trunkproto.AppendProxy(nil, s.client, s.server))
	}
	a := s.answer(trunkproto.Connected)
	if s.request != nil {
		a.RTT = roundTrip(server.fd)
	}
	w.confirm(s, a)
	w.startMoving(s)
}

// prepend puts bytes of the relay's own in front of all that came from an end.
func (w *Worker) prepend(s *split, from flow.End, b []byte) {
	d := &s.dirs[from]
	d.buffer = append(b, d.buffer...)
	s.state.Read(from, len(b))
}

// startMoving has bytes move.
func (w *Worker) startMoving(s *split) {
	s.stage = stageMoving
	w.do(s, s.state.Connect())
	w.move(s)
}

// confirm tells the client that its server is there, if it is to be told.
func (w *Worker) confirm(s *split, a trunkproto.Answer) {
	s.answered = true
	if s.early != nil {
		w.earlyConnected(s)
		return
	}
	w.startWait(&s.waiter, waitYoung)
	if s.ends[flow.Client].failed {
		w.startWait(&s.waiter, waitEnd)
	}
	if s.request != nil {
		if s.request.answers != nil {
			w.finishProbe(s, a)
			return
		}
		if b := s.request.connectedReply(a); len(b) > 0 {
			w.prepend(s, flow.Server, b)
		}
	}
}

// reject ends a flow whose server cannot be had: who asked for it in words is told so, any other client reset.
func (w *Worker) reject(s *split, a trunkproto.Answer) {
	if s.isProbe() {
		w.finishProbe(s, a)
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
	if s.request == nil || s.answered || client.fd < 0 {
		w.drop(s)
		return
	}
	w.sendRefusal(s, s.request.refusedReply(a))
}

// sendRefusal says the last words to a client that gets no server; without any it is reset.
func (w *Worker) sendRefusal(s *split, words []byte) {
	if len(words) > 0 {
		_, _ = w.write(&s.ends[flow.Client].line, words) // fits: hardly anything was written
	}
	w.closeRefused(s, len(words) > 0)
}

// closeRefused ends a flow that has no server end: with a FIN behind what the client was told, or a reset.
func (w *Worker) closeRefused(s *split, replied bool) {
	if !replied {
		w.drop(s)
		return
	}
	client := &s.ends[flow.Client]
	w.finish(&client.line, false)
	s.stage = stageRefused
	w.startWait(&s.waiter, waitEnd)
	w.drainRefused(s)
}

// drainRefused waits for the FIN of a client that was refused: a close before it would be a reset, which may overtake the refusal.
func (w *Worker) drainRefused(s *split) {
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
