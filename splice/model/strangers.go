package model

// far is further away than any window. Whoever does not see a session hits its windows once in so many packets.
const far = 0x40000000

// strangers are packets of somebody who sees no session, in a client's name or in a surrogate's. They come at once: what is late
// is a stranger who waits. One of two numbers may be right: only both together let a packet in.
func (s *Scenario) strangers(st *State, rules *Rules, try func(step, func(*State))) {
	send := func(p Packet) {
		try(step{what: "a stranger's packet", p: p}, func(n *State) {
			n.left.strangers--
			was := *n
			r := s.router(n, rules)
			r.stranger = true
			r.arrive(p)
			if was.sessions() != n.sessions() {
				n.breaks(Bent)
			}
		})
	}
	for leg := range st.legs {
		l := &st.legs[leg]
		if l.state == Dead {
			continue
		}
		strange(Packet{Hop: FromServer, Who: uint8(leg), Seq: l.rcvNxt, Ack: l.sndNxt}, send)
		if l.state == Idle || st.flows[l.client-1] != (flow{sideClient, uint8(leg)}) {
			continue
		}
		p := Packet{Hop: FromClient, Who: l.client, Seq: l.sndNxt - l.toServerSeq, Ack: l.rcvNxt - l.toServerAck}
		strange(p, send)
		p.Rst = true
		if p.Seq++; p.Seq+l.toServerSeq != l.sndUna {
			send(p) // within the window, but not what is expected
		}
	}
}

// strange makes packets out of one whose numbers are the next.
func strange(p Packet, send func(Packet)) {
	data, fin := newUnit(Stranger, ResponseBody, 0, 0, 0, 0, 0), newUnit(Stranger, Fin, 0, 0, 0, 0, 0)
	if p.Hop == FromClient {
		data = newUnit(Stranger, RequestBody, 0, 0, 0, 0, 0)
	}
	for _, by := range []uint32{far, -far & 0xffffffff} {
		q := p
		q.Seq += by
		q.Data[0] = data
		send(q)
		q.Data[0], q.Fin = 0, fin
		send(q)
		q.Fin, q.Rst = 0, true
		send(q)
	}
	for _, by := range []uint32{1, far, -far & 0xffffffff} {
		q := p
		q.Ack += by
		send(q) // acknowledges what was never sent, or a session of long ago
		q.Data[0] = data
		send(q)
		q.Data[0], q.Fin = 0, fin
		send(q)
	}
}

// sessions is the state without what is under way, and without the adversary's budget.
func (s *State) sessions() State {
	out := *s
	out.bag, out.left, out.broken = [bagSize]Packet{}, budget{}, None
	return out
}

// lies are those of client A's clock. It jumps, and shows itself in a packet that the surrogate discards.
func (s *Scenario) lies(st *State, rules *Rules, try func(step, func(*State))) {
	e := &st.clients[0]
	if e.closed || st.flows[0].side != sideClient {
		return
	}
	for place := range uint8(ring) {
		if t := at(place); t != e.time {
			try(step{what: "the clock of client A jumps to", n: t.shown()}, func(n *State) {
				n.left.lies--
				n.clients[0].time = t
			})
		}
	}
	p := Packet{Hop: FromClient, Who: 1, Seq: clientIss[0] + uint32(e.sent), Ack: vipIss[0] + uint32(e.got), Bad: true, Time: e.time}
	try(step{what: "an ACK", p: p}, func(n *State) {
		n.left.lies--
		s.router(n, rules).arrive(p)
	})
}
