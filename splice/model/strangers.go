package model

// far is outside of any window. An off-path attacker hits a window once in so many packets.
const far = 0x40000000

// strangers are packets of an off-path attacker, in the name of a client or a surrogate. They arrive at once: delay is covered by
// sending later. Either number may be right, but not both.
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
		strange(Packet{Hop: FromServer, End: uint8(leg), Seq: l.rcvNxt, Ack: l.sndNxt}, send)
		if l.state == Idle || st.flows[l.client-1] != (flow{sideClient, uint8(leg)}) {
			continue
		}
		p := Packet{Hop: FromClient, End: l.client, Seq: l.sndNxt - l.toServerSeq, Ack: l.rcvNxt - l.toServerAck}
		strange(p, send)
		p.Rst = true
		if p.Seq++; p.Seq+l.toServerSeq != l.sndUna {
			send(p) // within the window, but not the expected number
		}
	}
}

// strange derives packets from one with the expected numbers.
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
		send(q) // acknowledges unsent or very old bytes
		q.Data[0] = data
		send(q)
		q.Data[0], q.Fin = 0, fin
		send(q)
	}
}

// sessions is the state without packets in flight and the adversary's budget.
func (s *State) sessions() State {
	out := *s
	out.bag, out.left, out.broken = [bagSize]Packet{}, budget{}, None
	return out
}

// lies are jumps of client A's clock, shown in a packet that the surrogate drops.
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
	p := Packet{Hop: FromClient, End: 1, Seq: clientIss[0] + uint32(e.sent), Ack: vipIss[0] + uint32(e.got), Bad: true, Time: e.time}
	try(step{what: "an ACK", p: p}, func(n *State) {
		n.left.lies--
		s.router(n, rules).arrive(p)
	})
}
