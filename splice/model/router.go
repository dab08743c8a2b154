package model

import "baton/splice/machine"

// router executes one step on a state under a set of rules.
type router struct {
	*State
	rules    *Rules
	scenario *Scenario
	stranger bool // the packet is a stranger's
}

// arrive receives a packet: tcp_packet of bpf/router/router.bpf.c.
func (r router) arrive(p Packet) {
	if r.rules.NoUrgent {
		p.calm()
	}
	if p.Hop == FromServer {
		r.serverPacket(int(p.End), p)
		return
	}
	f := r.flows[p.End-1]
	switch f.side {
	case sideNone:
		r.newClient(p)
	case sideClient:
		r.clientPacket(int(f.leg), p)
	case sideLinger, sideReset:
		r.lingering(f.side, p)
	}
}

// forget drops the flow of a client whose leg is dead: end_session.
func (r router) forget(client uint8, leg int) {
	if f := &r.flows[client-1]; f.side == sideClient && int(f.leg) == leg {
		*f = flow{}
	}
}

// over ends the session of a client: end_session.
func (r router) over(client uint8, leg int, remembered side) {
	f := &r.flows[client-1]
	mine := f.side == sideClient && int(f.leg) == leg
	r.forget(client, leg)
	if mine && r.rules.Linger {
		*f = flow{side: remembered}
	}
}

func (r router) newClient(p Packet) {
	c := p.End - 1
	if p.Rst || p.Seq != clientIss[c] || p.Ack != vipIss[c] {
		return // wrong cookie
	}
	if p.Len() > 0 {
		r.spliceClient(p, -1)
	} else if p.Fin != 0 {
		r.flows[c] = flow{side: sideLinger}
		r.reply(p, Packet{Seq: p.Ack, Ack: p.Seq + 1, Fin: newUnit(Nobody, Fin, 0, 0, 0, 0, 0)})
	}
}

func (r router) lingering(s side, p Packet) {
	switch {
	case s == sideReset && !p.Rst:
		r.reply(p, Packet{Seq: p.Ack, Rst: true})
	case p.Rst:
		if !r.rules.Linger {
			r.flows[p.End-1] = flow{}
		}
	case p.Len() > 0:
		r.reply(p, Packet{Seq: p.Ack, Rst: true})
	case p.Fin != 0:
		r.reply(p, Packet{Seq: p.Ack, Ack: p.Seq + 1, Fin: newUnit(Nobody, Fin, 0, 0, 0, 0, 0)})
	case !r.rules.Linger:
		r.flows[p.End-1] = flow{}
	}
}

// reply sends a packet of our own to the client that p is from.
func (r router) reply(p, answer Packet) {
	answer.Hop, answer.End = ToClient, p.End
	if answer.Fin != 0 && before(clientIss[p.End-1]+uint32(r.consumed[p.End-1]), p.Seq) {
		r.breaks(FalseAck)
	}
	r.put(answer)
}

// toClient sends a packet to the client, and checks the invariant.
func (r router) toClient(p Packet) {
	for _, u := range p.Data[:p.Len()] {
		switch u.Owner() {
		case int(p.End):
		case Nobody:
			r.breaks(UnsolicitedResponse)
		default:
			r.breaks(ForeignResponse)
		}
	}
	if before(clientIss[p.End-1]+uint32(r.consumed[p.End-1]), p.Ack) {
		r.breaks(FalseAck)
	}
	r.put(p)
}

// spliceClient joins the client to the leg for its request. Without one, the client retransmits.
func (r router) spliceClient(p Packet, movedFrom int) bool {
	head := p.Data[0]
	if !r.wholeHead(&p) || r.legs[head.Surrogate()].state != Idle {
		return false
	}
	leg := head.Surrogate()
	if r.holds() && !r.scenario.Insert {
		holdFirst(&p)
	}
	r.flows[p.End-1] = flow{sideClient, uint8(leg)}
	before := r.legs[leg]
	r.joinEvent(leg, p, movedFrom < 0)
	r.beside().join(r, leg, &before, &r.legs[leg], &p)
	r.was[p.End-1] |= 1 << leg
	if r.scenario.Insert {
		r.insert(leg)
		p.Hop = FromClient
		r.put(p) // it is received again
		return true
	}
	r.toServer(leg, p)
	return true
}

// holds reports whether requests are routed separately, and held.
func (r router) holds() bool { return r.scenario.Hold && r.rules.Hold }

func (r router) joinEvent(leg int, p Packet, first bool) {
	l := &r.legs[leg]
	l.state, l.client = Active, p.End
	l.clientFin, l.serverFin, l.noReuse, l.spoilt, l.first = false, false, false, false, first
	l.hold, l.routed = r.holds(), r.scenario.Hold || r.scenario.Routed
	l.spoilt = r.scenario.Insert
	l.open(r.insertion(&p), p.Seq)
	l.toServerAck = l.rcvNxt - p.Ack
	l.rcvBase, l.rcvAcked, l.sndBase = l.rcvNxt, l.rcvNxt, l.sndNxt
	if p.Time != 0 {
		l.tsToServer = later(r.clock(), l.tsSent).ahead(p.Time)
	}
	r.noteSent(l, p.Time.shift(l.tsToServer))
	l.clientRequests = 0
	if r.scenario.Insert {
		l.beginRequest(r.rules, p.Data[0], 0)
		return
	}
	l.beginRequest(r.rules, p.Data[0], p.Len())
	l.sndNxt += p.Len()
	if p.Fin != 0 {
		l.sndNxt++
		l.clientFin = true
		l.state = Closing
	}
}

func (r router) toServer(leg int, p Packet) {
	l := &r.legs[leg]
	head := l.insertion.head > 0 && r.repeatsInsertion(l, &p)
	p.Hop, p.End = ToServer, uint8(leg)
	p.Seq = r.clientSeq(l, &p)
	p.Ack += l.toServerAck
	p.Time = p.Time.shift(l.tsToServer)
	if head {
		p.Seq = l.insAt
		r.sendHead(p)
		return
	}
	r.put(p)
}

// reusable is the common part of recycling by FIN and by RST.
func (r router) reusable(l *Leg) bool {
	return (l.quiet() || !r.rules.QuietFraming) && l.state == Active && (l.sndUna == l.sndNxt || !r.rules.AllAckedByServer) &&
		!l.noReuse && !l.spoilt
}

func bothOver(l *Leg) bool {
	return l.clientFin && l.serverFin && l.sndUna == l.sndNxt && l.rcvAcked == l.rcvNxt
}

func (r router) clientPacket(leg int, p Packet) {
	l := &r.legs[leg]
	if l.hold && p.Len() > 0 && l.client == p.End && (l.state == Active || l.state == Closing) {
		whole := p
		l.holdMore(p.Seq+l.toServerSeq, &p)
		r.beside().cut(r, l, &whole, &p)
	}
	before := *l
	next := r.clientEvent(leg, p)
	r.beside().client(r, leg, &before, l, &p, next)
	if before.insertion.head == 0 && r.repeatsInsertion(&before, &p) && (next == machine.NextSend || next == machine.NextOver) {
		r.insert(leg)
	}
	switch next {
	case machine.NextRequest:
		r.nextRequest(leg, p)
	case machine.NextCut:
		r.over(l.client, leg, sideReset)
		r.reply(p, Packet{Seq: p.Ack, Rst: true})
	case machine.NextChallenge:
		r.challenge(l, p)
	case machine.NextRecycle:
		r.toServer(leg, Packet{Hop: p.Hop, End: p.End, Seq: p.Seq, Ack: p.Ack, Time: p.Time})
		r.flows[p.End-1] = flow{side: sideLinger}
		r.reply(p, Packet{Seq: p.Ack, Ack: p.Seq + 1, Fin: newUnit(Nobody, Fin, 0, 0, 0, 0, 0)})
	case machine.NextRecycleReset:
		r.over(p.End, leg, sideLinger)
	case machine.NextReset, machine.NextOver:
		r.over(l.client, leg, sideLinger)
		r.toServer(leg, p)
	case machine.NextSend:
		r.toServer(leg, p)
	}
}

// clientEvent returns one of machine.Next….
func (r router) clientEvent(leg int, p Packet) uint32 {
	l := &r.legs[leg]
	if r.rules.TupleCheck && l.client != p.End || l.state != Active && l.state != Closing {
		return machine.NextStale
	}
	if r.rules.Marked && r.move.step != 0 && int(r.move.leg) == leg && r.move.packet.End == p.End {
		return machine.NextRace
	}
	behind, ack := p.Seq+l.toServerSeq, p.Ack+l.toServerAck
	seq, again := r.clientSeq(l, &p), r.repeatsInsertion(l, &p)
	if again {
		seq = behind
	}
	if !again && r.straddles(l, behind, p.Len()) || !r.clientFits(l, &p, seq, ack) {
		if l.beginsHead(&p) && r.clientFits(l, &p, seq, ack) {
			l.state = Dead
			return machine.NextCut
		}
		return machine.NextOutside
	}
	if p.Rst {
		return r.clientReset(l, seq)
	}
	if p.Len() > 0 {
		next := r.trackRequest(l, seq, ack, &p)
		if next == machine.NextCut {
			l.state = Dead
		}
		if next != machine.NextSend {
			return next
		}
	}
	return r.clientFin(l, &p, seq+p.Len(), ack)
}

// clientFin is the rest of a client's packet: its ACK and FIN, and what they end.
func (r router) clientFin(l *Leg, p *Packet, end, ack uint32) uint32 {
	finAhead := p.Fin != 0 && r.rules.FinAhead && before(l.sndNxt, end)
	if finAhead && (l.quiet() || l.hold) {
		return machine.NextEarly // a request is missing
	}
	noteAck(l, ack)
	r.noteSent(l, p.Time.shift(l.tsToServer)) // before the decision whether to reuse the leg
	if finAhead {
		l.giveUp()
		l.clientFin = true
		l.sndNxt = end + 1 // the surrogate keeps the FIN, and acknowledges it once the gap is filled
		l.state = Closing
	} else if p.Fin != 0 && (end == l.sndNxt || !r.rules.FinExact) && !l.clientFin {
		if p.Len() == 0 && r.reusable(l) && (ack == l.rcvNxt || !r.rules.AllAckedByClient) {
			l.state, l.client = Idle, 0
			return machine.NextRecycle
		}
		l.clientFin = true
		l.sndNxt++
		l.state = Closing
	}
	if bothOver(l) {
		l.state = Dead
		return machine.NextOver
	}
	return machine.NextSend
}

func noteAck(l *Leg, ack uint32) {
	if before(l.rcvAcked, ack) && !before(l.rcvNxt, ack) {
		l.rcvAcked = ack
	}
}

// clientReset: the leg becomes idle if it may be reused, or ends with its client.
func (r router) clientReset(l *Leg, seq uint32) uint32 {
	if !r.clientResets(l, seq) {
		return machine.NextChallenge
	}
	if r.reusable(l) && (l.rcvAcked == l.rcvNxt || !r.rules.AllAckedByClient) {
		l.state, l.client = Idle, 0
		return machine.NextRecycleReset
	}
	l.state = Dead
	return machine.NextReset
}

// trackRequest tracks new units.
func (r router) trackRequest(l *Leg, seq, ack uint32, p *Packet) uint32 {
	end := seq + p.Len()
	if before(seq, l.sndNxt) && before(l.sndUna, end) && r.rules.SentOnce {
		l.spoilt = true
	}
	if !before(l.sndNxt, end) {
		return machine.NextSend // retransmission
	}
	if l.serverFin && !l.hold {
		l.giveUp() // the surrogate has closed: it will refuse the request
	}
	if l.quiet() && seq == l.sndNxt && !l.serverFin {
		return machine.NextRequest
	}
	if l.hold {
		if next := l.holdRequest(seq, ack, p); next != machine.NextSend {
			return next
		}
	}
	switch {
	case l.quiet() && before(l.sndNxt, seq):
		if r.rules.StartMissing {
			return machine.NextEarly
		}
		l.beginRequest(r.rules, p.Data[0], p.Len())
	case l.quiet():
		l.giveUp()
	case l.request != Opaque:
		l.moreRequest(end - l.sndNxt)
	}
	l.sndNxt = end
	return machine.NextSend
}

// nextRequest keeps the request on its leg, or moves it.
func (r router) nextRequest(leg int, p Packet) {
	l := &r.legs[leg]
	if !r.wholeHead(&p) {
		return // an upcall, which refuses it
	}
	if l.hold {
		holdFirst(&p)
	}
	before := *l
	next := r.requestEvent(leg, p)
	r.beside().request(r, leg, &before, l, &p, next)
	switch next {
	case machine.RequestStays:
		r.toServer(leg, p)
	case machine.RequestMoves:
		r.move = moving{1, uint8(leg), p}
	}
}

// requestEvent returns one of machine.Request….
func (r router) requestEvent(leg int, p Packet) uint32 {
	l := &r.legs[leg]
	if l.state != Active || r.move.step != 0 && int(r.move.leg) == leg {
		return machine.RequestRace // after its FIN; or one at a time
	}
	stay := p.Data[0].Surrogate() == leg
	busy := p.Ack+l.toServerAck != l.rcvNxt && r.rules.AllAckedByClient || l.sndUna != l.sndNxt && r.rules.AllAckedByServer
	if busy && l.hold && !stay || r.insertion(&p).len > 0 && l.insertion.len > 0 {
		return machine.RequestEarly // the client retransmits it, and acknowledges more then
	}
	if !stay && !busy {
		if r.move.step != 0 {
			return machine.RequestRace // another client is moving: the model has only one move
		}
		return machine.RequestMoves
	}
	noteAck(l, p.Ack+l.toServerAck)
	r.noteSent(l, p.Time.shift(l.tsToServer))
	if i := r.insertion(&p); i.len > 0 {
		l.open(i, p.Seq)
	}
	l.beginRequest(r.rules, p.Data[0], p.Len())
	l.sndNxt += p.Len()
	if p.Fin != 0 {
		l.clientFin = true
		l.sndNxt++
		l.state = Closing
	}
	return machine.RequestStays
}

// moveOut joins the client to its new leg.
func (r router) moveOut() {
	m := &r.move
	if !r.spliceClient(m.packet, int(m.leg)) {
		r.move = moving{}
		return
	}
	m.step = 2
}

// moveDone frees the old leg and acknowledges to its surrogate what the client acknowledged with its request.
func (r router) moveDone() {
	m := r.move
	l := &r.legs[m.leg]
	before := *l
	next, owed := r.leaveEvent(l, &m.packet)
	r.beside().leave(r, int(m.leg), &before, l, &m.packet, next, owed)
	r.move = moving{}
	if owed {
		r.acknowledge(int(m.leg), l.rcvNxt)
	}
}

// leaveEvent returns one of machine.Leave…, and whether its surrogate is owed an acknowledgement.
func (r router) leaveEvent(l *Leg, p *Packet) (next uint32, owed bool) {
	if l.client != p.End || l.state != Active {
		return machine.LeaveNot, false
	}
	worn := l.spoilt || l.noReuse || r.rules.LeftQuiet && (!l.quiet() || l.sndUna != l.sndNxt)
	owed = l.rcvAcked != l.rcvNxt
	l.rcvAcked = l.rcvNxt
	l.state, l.client = Idle, 0
	if worn {
		l.state = Dead
	}
	if l.noReuse {
		return machine.LeaveClosed, owed
	}
	return machine.LeaveLeft, owed
}
