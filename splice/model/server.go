package model

func (r router) serverPacket(leg int, p Packet) {
	l := &r.legs[leg]
	end := p.Seq + p.Len()
	if l.state != Dead && !r.serverFits(l, &p) {
		return
	}
	switch l.state {
	case Idle:
		r.noteServer(l, &p)
		r.trackIdle(leg, p)
		return
	case Dead:
		return
	}
	if p.Len() > 0 && before(p.Seq, l.rcvBase) && r.rules.RcvBase {
		r.acknowledge(leg, l.rcvBase)
		return
	}
	if r.rules.Unheard && r.move.step != 0 && int(r.move.leg) == leg && (p.Len() > 0 || p.Fin != 0 || p.Rst) {
		return
	}
	r.noteServer(l, &p)
	switch r.beforeAnswer(l, &p) {
	case notAnswered:
		l.state = Dead // the client will ask again
		r.forget(l.client, leg)
		return
	case unasked:
		r.cut(leg)
		return
	}
	if p.Rst {
		if r.serverResets(l, p.Seq) { // any other, the client judges
			l.state = Dead
			r.over(l.client, leg, sideReset)
		}
	} else {
		if p.Len() > 0 && !trackResponse(l, &p, end) {
			return // a gap
		}
		trackServerFin(l, &p, end)
		if bothOver(l) {
			l.state = Dead
			r.over(l.client, leg, sideLinger)
		}
	}
	p.Hop, p.Who = ToClient, l.client
	p.Seq -= l.toServerAck
	p.Ack -= l.toServerSeq
	p.Time = 0
	r.toClient(p)
}

// answers says whether what comes before any of the response answers the request.
type answers uint8

const (
	mayAnswer answers = iota
	notAnswered
	unasked
)

// beforeAnswer: the packet does not answer the request: the surrogate has closed, or said something before it took a unit of
// it, which may come behind what answers.
func (r router) beforeAnswer(l *Leg, p *Packet) answers {
	speaks := p.Len() > 0 && r.rules.AckFloor
	// the client still holds its request, and is known by its cookie when it repeats it
	if l.clientRequests == 1 && l.first && l.sndUna == l.sndBase && l.rcvNxt == l.rcvBase && p.Seq == l.rcvBase &&
		(p.Rst || p.Fin != 0 || speaks) && !l.clientFin {
		return notAnswered
	}
	if speaks && !p.Rst && !before(l.sndBase, p.Ack) {
		return unasked
	}
	return mayAnswer
}

func (r router) trackIdle(leg int, p Packet) {
	l := &r.legs[leg]
	switch {
	case p.Rst:
		if p.Seq == l.rcvNxt {
			l.state = Dead
		}
	case before(p.Seq, l.rcvNxt):
		r.acknowledge(leg, l.rcvNxt)
	case p.Len() > 0 || p.Fin != 0:
		l.state = Dead
	}
}

// acknowledge answers on behalf of the clients that have had everything up to ack.
func (r router) acknowledge(leg int, ack uint32) {
	e := &r.surrogates[leg]
	if r.scenario.lacks(r.State, e.out[:min(ack-serverIss[leg], uint32(e.written))]) {
		r.breaks(LostResponse)
	}
	l := &r.legs[leg]
	if l.state == Idle && l.tsTold != 0 {
		l.tsTold = later(r.clock(), l.tsTold)
	}
	r.put(Packet{Hop: ToServer, Who: uint8(leg), Seq: l.sndNxt, Ack: ack, Time: l.tsTold})
}

// trackResponse takes account of new units. False: they come behind a gap, and are dropped.
func trackResponse(l *Leg, p *Packet, end uint32) bool {
	if !before(l.rcvNxt, end) {
		return true // seen before
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

// followResponse reads a head, or chunks.
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

// trackServerFin: a FIN behind a gap is kept by the client until that is filled.
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
