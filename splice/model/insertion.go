package model

// Units of the router's own among a client's: bpf/session/splice.h. One is inserted before the client's first on a leg, or into
// the head of each request, which is then one unit longer.

// insertion is of units to go with a request: struct insertion.
type insertion struct {
	len, head uint8
	sum       Unit // the head
}

// insertion is what the scenario inserts with a request.
func (r router) insertion(p *Packet) insertion {
	switch {
	case r.scenario.Insert:
		return insertion{len: 1}
	case r.scenario.Edit:
		return insertion{len: 1, head: uint8(r.scenario.headUnits()), sum: p.Data[0]}
	}
	return insertion{}
}

// headUnits is how many units a head has.
func (s *Scenario) headUnits() uint32 {
	if s.Long {
		return 2
	}
	return 1
}

// wholeHead: the packet begins with a head, and has all of it.
func (r router) wholeHead(p *Packet) bool {
	return p.Data[0].Kind() == RequestHead && p.Len() >= r.scenario.headUnits()
}

// open is open_insertion.
func (l *Leg) open(i insertion, seq uint32) {
	l.insAt, l.insertion = l.sndNxt, i
	l.sndNxt += uint32(i.len)
	l.toServerSeq = l.sndNxt - seq
}

// end is insertion_end.
func (l *Leg) end() uint32 { return l.insAt + uint32(l.insertion.head+l.insertion.len) }

// headStart is head_start.
func (l *Leg) headStart() uint32 { return l.insAt + uint32(l.insertion.len) }

// start is client_start.
func (r router) start(l *Leg, behind uint32) uint32 {
	if r.rules.InFront && l.insertion.len > 0 && before(behind, l.end()) {
		return behind - uint32(l.insertion.len)
	}
	return behind
}

// clientSeq is client_seq.
func (r router) clientSeq(l *Leg, p *Packet) uint32 {
	behind := p.Seq + l.toServerSeq
	if p.Rst && behind == l.heard(l.sndUna) {
		return l.sndUna
	}
	return r.start(l, behind)
}

// straddles: n units stand on both sides of the place where the insertion begins, or begin within its head.
func (r router) straddles(l *Leg, behind, n uint32) bool {
	if l.insertion.len == 0 || n == 0 {
		return false
	}
	start := l.headStart()
	if before(behind, start) {
		return r.rules.InFront && before(start, behind+n)
	}
	return r.rules.HeadWhole && before(behind, l.end())
}

// heard is what a number of the surrogate means to the client.
func (l *Leg) heard(seq uint32) uint32 {
	switch {
	case l.insertion.len == 0 || !before(seq, l.end()):
		return seq
	case before(seq, l.insAt):
		return seq + uint32(l.insertion.len)
	}
	return l.headStart()
}

// beginsHead is begins_head.
func (l *Leg) beginsHead(p *Packet) bool {
	return l.insertion.len > 0 && l.insertion.head > 0 && p.Len() > 0 && p.Seq+l.toServerSeq == l.headStart()
}

// requestLength is request_length.
func (l *Leg) requestLength() uint32 {
	sent := l.sndNxt - l.end()
	if l.clientFin {
		sent--
	}
	left := uint32(0)
	if l.request == Body {
		left = uint32(l.requestLeft)
	}
	return uint32(l.insertion.head) + sent + left
}

// repeatsInsertion: the client sends the packet again that the inserted unit goes in front of, or in. l is as before the packet.
func (r router) repeatsInsertion(l *Leg, p *Packet) bool {
	seq := p.Seq + l.toServerSeq
	if l.insertion.head == 0 {
		return l.insertion.len > 0 && p.Len() > 0 && seq == l.end() && before(seq, l.sndNxt)
	}
	if !l.beginsHead(p) || !r.wholeHead(p) {
		return false
	}
	return !r.rules.SameHead || p.Data[0] == l.insertion.sum && uint32(1+p.Data[0].N()) == l.requestLength()
}

func (l *Leg) lacksInsertion(p *Packet) bool {
	return l.insertion.len > 0 && l.insertion.head == 0 && p.Len() == 0 && p.Fin == 0 && !p.Rst && before(p.Ack, l.end())
}

func (l *Leg) closeInsertion() {
	if l.insertion.len > 0 && !before(l.sndUna, l.end()) {
		l.insertion.len = 0
	}
}

// insert sends the unit that goes before the client's first.
func (r router) insert(leg int) {
	l := &r.legs[leg]
	p := Packet{Hop: ToServer, End: uint8(leg), Seq: l.insAt, Ack: l.rcvAcked, Time: l.tsSent}
	p.Data[0] = newUnit(int(l.client), Inserted, 0, 0, 0, 0, leg)
	r.put(p)
}

// sendHead sends a translated packet that begins with a head, edited: the packet has one unit more, or where it cannot grow, the first is in
// one of the router's own, which meets nothing that the client has prepared for its packet.
func (r router) sendHead(p Packet) {
	first := insertedFor(p.Data[0])
	for i := range r.scenario.headUnits() {
		p.Data[i] |= Edited
	}
	if n := p.Len(); !r.scenario.Apart && n < mostUnits {
		copy(p.Data[1:], p.Data[:n])
		p.Data[0] = first
		r.put(p)
		return
	}
	front := Packet{Hop: p.Hop, End: p.End, Seq: p.Seq, Ack: p.Ack, Time: p.Time}
	front.Data[0] = first
	p.Seq++
	r.put(p)
	r.put(front)
}

// insertedFor is the first unit of an edited head: it has all that the head has.
func insertedFor(head Unit) Unit {
	return newUnit(head.Owner(), Inserted, head.Request(), head.N(), head.Body(), head.Coding(), head.Surrogate())
}

// restOf is the second unit of a head, which counts as the first of its body.
func restOf(head Unit) Unit {
	return newUnit(head.Owner(), RequestBody, head.Request(), 0, head.Body(), head.Coding(), head.Surrogate())
}
