package model

// router carries one step: the state that it changes and the rules in force.
type router struct {
	*State
	rules *Rules
}

// arrive takes a packet off the wire: tcp_packet of bpf/router.bpf.c.
func (r router) arrive(p Packet) {
	if p.Hop == FromServer {
		r.serverPacket(int(p.Who), p)
		return
	}
	f := r.flows[p.Who-1]
	switch f.side {
	case sideNone:
		r.newClient(p)
	case sideClient:
		r.clientPacket(int(f.leg), p)
	case sideLinger:
		r.lingering(p)
	}
}

// forget drops the flow of a client whose leg is dead: bury.
func (r router) forget(client uint8, leg int) {
	if f := &r.flows[client-1]; f.side == sideClient && int(f.leg) == leg {
		*f = flow{}
	}
}

// over ends the session of a client.
func (r router) over(client uint8, leg int) {
	f := &r.flows[client-1]
	mine := f.side == sideClient && int(f.leg) == leg
	r.forget(client, leg)
	if mine && r.rules.Linger {
		*f = flow{side: sideLinger}
	}
}

func (r router) newClient(p Packet) {
	c := p.Who - 1
	if p.Rst || p.Seq != clientIss[c] || p.Ack != vipIss[c] {
		return // the cookie does not fit
	}
	if p.Len() > 0 {
		r.spliceClient(p, -1)
	} else if p.Fin != 0 {
		r.flows[c] = flow{side: sideLinger}
		r.reply(p, Packet{Seq: p.Ack, Ack: p.Seq + 1, Fin: newUnit(Nobody, Fin, 0, 0, 0, 0, 0)})
	}
}

func (r router) lingering(p Packet) {
	switch {
	case p.Rst:
		if !r.rules.Linger {
			r.flows[p.Who-1] = flow{}
		}
	case p.Len() > 0:
		r.reply(p, Packet{Seq: p.Ack, Rst: true})
	case p.Fin != 0:
		r.reply(p, Packet{Seq: p.Ack, Ack: p.Seq + 1, Fin: newUnit(Nobody, Fin, 0, 0, 0, 0, 0)})
	case !r.rules.Linger:
		r.flows[p.Who-1] = flow{}
	}
}

// reply sends a packet of our own to the client that p is from.
func (r router) reply(p, answer Packet) {
	answer.Hop, answer.Who = ToClient, p.Who
	if answer.Fin != 0 && before(clientIss[p.Who-1]+uint32(r.consumed[p.Who-1]), p.Seq) {
		r.breaks(FalseAck)
	}
	r.put(answer)
}

// toClient puts a packet on the client's wire, where what must never happen would be seen.
func (r router) toClient(p Packet) {
	for _, u := range p.Data[:p.Len()] {
		switch u.Owner() {
		case int(p.Who):
		case Nobody:
			r.breaks(UnaskedResponse)
		default:
			r.breaks(ForeignResponse)
		}
	}
	if before(clientIss[p.Who-1]+uint32(r.consumed[p.Who-1]), p.Ack) {
		r.breaks(FalseAck)
	}
	r.put(p)
}

// spliceClient joins the client to the leg that its request wants. There is none: the client will ask again.
func (r router) spliceClient(p Packet, movedFrom int) bool {
	head := p.Data[0]
	if head.Kind() != RequestHead || r.legs[head.Surrogate()].state != Idle {
		return false
	}
	leg := head.Surrogate()
	r.flows[p.Who-1] = flow{sideClient, uint8(leg)}
	r.attach(leg, p)
	r.legs[leg].first = movedFrom < 0
	return true
}

func (r router) attach(leg int, p Packet) {
	l := &r.legs[leg]
	l.state, l.client = Active, p.Who
	l.clientFin, l.serverFin, l.noReuse = false, false, false
	l.toServerSeq = l.sndNxt - p.Seq
	l.toServerAck = l.rcvNxt - p.Ack
	l.rcvBase, l.rcvAcked, l.sndBase = l.rcvNxt, l.rcvNxt, l.sndNxt
	l.clientRequests = 0
	l.beginRequest(r.rules, p.Data[0], p.Len())
	l.sndNxt += p.Len()
	if p.Fin != 0 {
		l.sndNxt++
		l.clientFin = true
		l.state = Closing
	}
	r.was[p.Who-1] |= 1 << leg
	r.toServer(leg, p)
}

func (r router) toServer(leg int, p Packet) {
	l := &r.legs[leg]
	p.Hop, p.Who = ToServer, uint8(leg)
	p.Seq += l.toServerSeq
	p.Ack += l.toServerAck
	r.put(p)
}

// reusable is what recycling by FIN and by RST have in common.
func (r router) reusable(l *Leg) bool {
	return (l.quiet() || !r.rules.QuietFraming) && l.state == Active && (l.sndUna == l.sndNxt || !r.rules.AllAckedByServer) && !l.noReuse
}

func bothOver(l *Leg) bool {
	return l.clientFin && l.serverFin && l.sndUna == l.sndNxt && l.rcvAcked == l.rcvNxt
}

func (r router) clientPacket(leg int, p Packet) {
	l := &r.legs[leg]
	if r.rules.TupleCheck && l.client != p.Who || l.state != Active && l.state != Closing {
		return
	}
	if r.rules.Marked && r.move.step != 0 && int(r.move.leg) == leg && r.move.packet.Who == p.Who {
		return
	}
	seq, ack := p.Seq+l.toServerSeq, p.Ack+l.toServerAck
	end := seq + p.Len()
	if p.Rst {
		if seq == l.sndNxt && p.Len() == 0 {
			if r.reusable(l) && (l.rcvAcked == l.rcvNxt || !r.rules.AllAckedByClient) {
				l.state, l.client = Idle, 0
				r.over(p.Who, leg)
				return
			}
			l.state = Dead
			r.over(l.client, leg)
		}
		r.toServer(leg, p)
		return
	}
	if l.quiet() && (r.rules.StartMissing && p.Len() > 0 && before(l.sndNxt, seq) ||
		r.rules.FinAhead && p.Fin != 0 && before(l.sndNxt, end)) {
		return // the client repeats it, behind what is missing
	}
	if before(l.rcvAcked, ack) && !before(l.rcvNxt, ack) {
		l.rcvAcked = ack
	}
	if p.Len() > 0 && r.trackRequest(l, seq, p) {
		r.nextRequest(leg, p)
		return
	}
	if p.Fin != 0 && (end == l.sndNxt || !r.rules.FinExact) && !l.clientFin {
		if p.Len() == 0 && r.reusable(l) && (ack == l.rcvNxt || !r.rules.AllAckedByClient) {
			r.recycle(leg, p)
			return
		}
		l.clientFin = true
		l.sndNxt++
		l.state = Closing
	} else if p.Fin != 0 && r.rules.FinAhead && before(l.sndNxt, end) {
		l.giveUp()
	}
	if bothOver(l) {
		l.state = Dead
		r.over(l.client, leg)
	}
	r.toServer(leg, p)
}

// recycle ends the client leg: its FIN is answered, the response acknowledged on its behalf.
func (r router) recycle(leg int, p Packet) {
	l := &r.legs[leg]
	last := Packet{Hop: p.Hop, Who: p.Who, Seq: p.Seq, Ack: p.Ack}
	r.toServer(leg, last)
	l.state, l.client = Idle, 0
	r.flows[p.Who-1] = flow{side: sideLinger}
	r.reply(p, Packet{Seq: p.Ack, Ack: p.Seq + 1, Fin: newUnit(Nobody, Fin, 0, 0, 0, 0, 0)})
}

// trackRequest takes account of new units. True: a request begins.
func (r router) trackRequest(l *Leg, seq uint32, p Packet) bool {
	end := seq + p.Len()
	again := before(seq, l.sndNxt) && before(l.sndUna, end)
	if again && r.rules.SentOnce {
		l.giveUp()
	}
	if !before(l.sndNxt, end) {
		return false
	}
	if l.quiet() {
		if seq == l.sndNxt {
			return true
		}
		if before(l.sndNxt, seq) {
			l.beginRequest(r.rules, p.Data[0], p.Len())
		} else {
			l.giveUp()
		}
	} else if l.request != Opaque {
		l.moreRequest(end - l.sndNxt)
	}
	l.sndNxt = end
	return false
}

// nextRequest lets the request stay, or has it moved.
func (r router) nextRequest(leg int, p Packet) {
	l := &r.legs[leg]
	head := p.Data[0]
	if head.Kind() != RequestHead {
		return // user space is asked, and refuses it
	}
	stay := head.Surrogate() == leg
	if stay || p.Ack+l.toServerAck != l.rcvNxt && r.rules.AllAckedByClient || l.sndUna != l.sndNxt && r.rules.AllAckedByServer {
		l.beginRequest(r.rules, head, p.Len())
		l.sndNxt += p.Len()
		if p.Fin != 0 {
			l.clientFin = true
			l.sndNxt++
			l.state = Closing
		}
		r.toServer(leg, p)
		return
	}
	if r.move.step == 0 { // one at a time
		r.move = moving{1, uint8(leg), p}
	}
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

// moveDone frees the old leg.
func (r router) moveDone() {
	m := r.move
	r.move = moving{}
	l := &r.legs[m.leg]
	if l.client != m.packet.Who || l.state != Active {
		return
	}
	l.state, l.client = Idle, 0
	if l.noReuse {
		l.state = Dead
	}
}

func (r router) serverPacket(leg int, p Packet) {
	l := &r.legs[leg]
	end := p.Seq + p.Len()
	switch l.state {
	case Idle:
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
	if p.Len() > 0 && r.rules.AckFloor && !before(l.sndBase, p.Ack) {
		l.state = Dead
		r.forget(l.client, leg)
		return
	}
	if before(l.sndUna, p.Ack) && !before(l.sndNxt, p.Ack) {
		l.sndUna = p.Ack
	}
	if (p.Rst || p.Fin != 0) && l.clientRequests == 1 && l.first && l.rcvNxt == l.rcvBase && p.Seq == l.rcvBase &&
		p.Len() == 0 && l.sndUna == l.sndBase && !l.clientFin {
		l.state = Dead // the client will ask again
		r.forget(l.client, leg)
		return
	}
	switch {
	case p.Rst:
		if p.Seq == l.rcvNxt {
			l.state = Dead
			r.over(l.client, leg)
		}
	case p.Len() > 0:
		r.trackResponse(l, p, end)
		fallthrough
	default:
		trackServerFin(l, p, end)
		if bothOver(l) {
			l.state = Dead
			r.over(l.client, leg)
		}
	}
	p.Hop, p.Who = ToClient, l.client
	p.Seq -= l.toServerAck
	p.Ack -= l.toServerSeq
	r.toClient(p)
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
	var theirs [2]uint8
	for n := serverIss[leg]; before(n, ack); n++ {
		if c := r.surrogates[leg].out[n-serverIss[leg]].Owner(); c != Nobody {
			theirs[c-1]++
		}
	}
	for c := range theirs {
		if theirs[c] > r.clients[c].got && !r.clients[c].closed {
			r.breaks(LostResponse)
		}
	}
	r.put(Packet{Hop: ToServer, Who: uint8(leg), Seq: r.legs[leg].sndNxt, Ack: ack})
}

func (r router) trackResponse(l *Leg, p Packet, end uint32) {
	if !before(l.rcvNxt, end) {
		return
	}
	fresh := end - l.rcvNxt
	inOrder := p.Seq == l.rcvNxt
	l.rcvNxt = end
	switch l.response {
	case Head:
		if !inOrder || p.Data[0].Kind() != ResponseHead {
			l.giveUp()
			return
		}
		l.beginResponse(&p)
	case Body:
		l.moreResponse(fresh)
	case InChunks:
		if !inOrder {
			l.giveUp()
			return
		}
		l.walkChunks(&p, 0)
	case Quiet, Done:
		l.giveUp()
	}
}

func trackServerFin(l *Leg, p Packet, end uint32) {
	if p.Fin != 0 && end == l.rcvNxt && !l.serverFin {
		l.serverFin = true
		l.rcvNxt++
		l.state = Closing
	}
}
