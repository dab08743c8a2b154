package model

import "baton/splice/machine"

func (r router) serverPacket(leg int, p Packet) {
	l := &r.legs[leg]
	before := *l
	next := r.serverEvent(leg, p)
	r.beside().server(r, leg, &before, l, &p, next)
	switch next {
	case machine.ServerACK:
		ack := l.rcvBase
		if l.state == Idle {
			ack = l.rcvNxt
		}
		r.acknowledge(leg, ack)
	case machine.ServerInsert:
		r.insert(leg)
	case machine.ServerFailed:
		r.forget(l.client, leg) // the client will retransmit
	case machine.ServerUnsolicited:
		r.over(l.client, leg, sideReset)
	case machine.ServerOver:
		r.over(l.client, leg, sideReset)
	case machine.ServerClosed:
		r.over(l.client, leg, sideLinger)
	}
	switch next {
	case machine.ServerSend, machine.ServerOver, machine.ServerClosed:
		p.Hop, p.End = ToClient, before.client
		p.Seq -= l.toServerAck
		p.Ack = l.heard(p.Ack) - l.toServerSeq
		p.Time = 0
		r.toClient(p)
	}
}

// serverEvent returns one of machine.Server….
func (r router) serverEvent(leg int, p Packet) uint32 {
	l := &r.legs[leg]
	if l.state != Dead && !r.serverFits(l, &p) {
		return machine.ServerOutside
	}
	switch l.state {
	case Idle:
		r.noteServer(l, &p)
		return trackIdle(l, &p)
	case Dead:
		return machine.ServerReset
	}
	if p.Len() > 0 && before(p.Seq, l.rcvBase) && r.rules.RcvBase {
		return machine.ServerACK
	}
	if r.rules.Unheard && r.move.step != 0 && int(r.move.leg) == leg && (p.Len() > 0 || p.Fin != 0 || p.Rst) {
		return machine.ServerRace
	}
	r.noteServer(l, &p)
	if next := r.beforeAnswer(l, &p); next != machine.ServerSend {
		l.state = Dead
		return next
	}
	end := p.Seq + p.Len()
	if p.Rst && r.serverResets(l, p.Seq) { // the client validates any other
		l.state = Dead
		return machine.ServerOver
	}
	if !p.Rst && p.Len() > 0 && !trackResponse(l, &p, end) {
		return machine.ServerGap
	}
	trackServerFin(l, &p, end)
	if bothOver(l) {
		l.state = Dead
		return machine.ServerClosed
	}
	if l.lacksInsertion(&p) {
		if before(l.end(), l.sndNxt) {
			return machine.ServerInsert
		}
		return machine.ServerNothing
	}
	return machine.ServerSend
}

// beforeAnswer: the packet cannot belong to the response: the surrogate has closed, or sent bytes before it acknowledged any of
// the request. Such bytes may also follow part of a response.
func (r router) beforeAnswer(l *Leg, p *Packet) uint32 {
	speaks := p.Len() > 0 && r.rules.AckFloor
	// the client still holds its request; its cookie identifies it when it retransmits
	if l.clientRequests == 1 && l.first && !before(l.sndBase, l.sndUna) && l.rcvNxt == l.rcvBase && p.Seq == l.rcvBase &&
		(p.Rst || p.Fin != 0 || speaks) && !l.clientFin {
		return machine.ServerFailed
	}
	if speaks && !p.Rst && !before(l.sndBase, p.Ack) {
		return machine.ServerUnsolicited
	}
	return machine.ServerSend
}

func trackIdle(l *Leg, p *Packet) uint32 {
	switch {
	case p.Rst && p.Seq != l.rcvNxt:
		return machine.ServerNothing
	case p.Rst:
		l.state = Dead
		return machine.ServerIdleOver
	case before(p.Seq, l.rcvNxt):
		return machine.ServerACK
	case p.Len() > 0 || p.Fin != 0:
		l.state = Dead
		return machine.ServerIdleClosed
	}
	return machine.ServerNothing
}

// acknowledge answers on behalf of the clients that have had everything up to ack.
func (r router) acknowledge(leg int, ack uint32) {
	e := &r.surrogates[leg]
	if r.scenario.lacks(r.State, e.out[:min(ack-serverIss[leg], uint32(e.written))]) {
		r.breaks(LostResponse)
	}
	l := &r.legs[leg]
	if l.state == Idle && l.tsSent != 0 {
		l.tsSent = later(r.clock(), l.tsSent)
	}
	r.put(Packet{Hop: ToServer, End: uint8(leg), Seq: l.sndNxt, Ack: ack, Time: l.tsSent})
}

// trackResponse tracks new units. False: they follow a gap, and are dropped.
func trackResponse(l *Leg, p *Packet, end uint32) bool {
	if !before(l.rcvNxt, end) {
		return true // retransmission
	}
	fresh := end - l.rcvNxt
	inOrder := p.Seq == l.rcvNxt
	switch l.response {
	case Head, InChunks:
		if !inOrder && l.routed && p.Fin == 0 {
			return false
		}
		followResponse(l, p, inOrder)
	case Body:
		l.moreResponse(fresh)
	case Quiet, Done:
		l.giveUp()
	}
	l.rcvNxt = end
	return true
}

// followResponse parses a head, or chunks.
func followResponse(l *Leg, p *Packet, inOrder bool) {
	switch {
	case !inOrder || l.response == Head && p.Data[0].Kind() != ResponseHead:
		l.giveUp()
	case l.response == Head:
		l.beginResponse(p)
	default:
		l.walkChunks(p, 0)
	}
}

// trackServerFin: the client keeps a FIN after a gap until that is filled.
func trackServerFin(l *Leg, p *Packet, end uint32) {
	if p.Fin == 0 || before(end, l.rcvNxt) || l.serverFin {
		return
	}
	if end != l.rcvNxt {
		l.giveUp()
	}
	l.serverFin = true
	l.rcvNxt = end + 1
	l.state = Closing
}
