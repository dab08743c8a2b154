package worker

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// startOnward opens the onward connection of a flow.
func (w *Worker) startOnward(s *split) {
	s.stage = stageConnecting
	w.startWait(&s.waiter, waitConnect)
	if s.entry != nil && s.entry.Auto {
		w.chooseRoutes(s)
	}
	w.followRoute(s)
}

// followRoute sends a flow along its route.
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
		if s.state.Connected() { // by another route before
			s.trunk.replay = s.dirs[flow.Client].buffer
		}
		w.takeTrunk(s)
	}
}

// route is how a flow continues from here.
type route struct {
	via        trunkproto.Names // relays still to pass, the next one first
	passed     trunkproto.Names // relays passed, without this one
	tried      uint8            // number of the candidate routes tried
	id         [trunkproto.IDSize]byte
	shown      trunkproto.ClientAddress
	congestion string
}

// answer is an answer of this relay.
func (s *split) answer(status trunkproto.Status) trunkproto.Answer {
	return trunkproto.Answer{Status: status, Hop: uint8(s.route.passed.Len())}
}

// dial opens the connection to a flow's server.
func (w *Worker) dial(s *split) {
	if !w.allowed(s) {
		w.reject(s, s.answer(trunkproto.NotAllowed))
		return
	}
	if s.route.shown == trunkproto.Spoofed && len(w.cfg.Return) == 0 {
		w.reject(s, s.answer(trunkproto.NotAllowed)) // the server's packets would not come back here
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

// connect returns a socket that is connecting to the flow's server.
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

// bindTo binds a socket to another host's address.
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

// connecting checks whether the server has answered, and whether the client is still connected.
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

// prepend sends bytes of the relay itself in front of what came from an end.
func (w *Worker) prepend(s *split, from flow.End, b []byte) {
	d := &s.dirs[from]
	d.buffer = append(b, d.buffer...)
	s.state.Read(from, len(b))
}

// startMoving starts to move bytes.
func (w *Worker) startMoving(s *split) {
	s.stage = stageMoving
	w.do(s, s.state.Connect())
	w.move(s)
}

// confirm tells the client that its server is connected, if its protocol has a reply.
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

// reject ends a flow whose server is unavailable. A client whose protocol has a reply gets one, any other is reset.
func (w *Worker) reject(s *split, a trunkproto.Answer) {
	if s.isProbe() {
		w.finishProbe(s, a)
		return
	}
	if w.reroute(s, a) || w.nextAddress(s) {
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

// sendRefusal sends a reply to a client that gets no server; without one the client is reset.
func (w *Worker) sendRefusal(s *split, words []byte) {
	if len(words) > 0 {
		_, _ = w.write(&s.ends[flow.Client].line, words) // fits: hardly anything was written
	}
	w.closeRefused(s, len(words) > 0)
}

// closeRefused ends a flow without a server end: by a FIN after a reply, otherwise by a reset.
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

// drainRefused waits for the FIN of a refused client: closing before would send a reset, which may overtake the reply.
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

// allowed reports whether a flow may connect to its server from here. A configured destination need not be in allow.
func (w *Worker) allowed(s *split) bool {
	return s.entry != nil && s.entry.Mode == config.Plain || w.cfg.Allowed(s.server) || s.isProbe() && w.isPeer(s.server)
}
