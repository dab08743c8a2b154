package model

// A unit of the router's own before the client's first on a leg: bpf/session/splice.h.

// start is client_start.
func (r router) start(l *Leg, behind uint32) uint32 {
	if r.rules.InFront && l.insLen > 0 && before(behind, l.insAt+1) {
		return behind - 1
	}
	return behind
}

func (l *Leg) straddles(behind, n uint32) bool {
	return l.insLen > 0 && before(behind, l.insAt+1) && before(l.insAt+1, behind+n)
}

// heard is what a number of the surrogate means to the client.
func (l *Leg) heard(seq uint32) uint32 {
	switch {
	case l.insLen == 0 || !before(seq, l.insAt+1):
		return seq
	case before(seq, l.insAt):
		return seq + 1
	}
	return l.insAt + 1
}

// repeatsInsertion: the client sends the packet again that the inserted unit goes in front of. l is as before the packet.
func (l *Leg) repeatsInsertion(p *Packet) bool {
	seq := p.Seq + l.toServerSeq
	return l.insLen > 0 && p.Len() > 0 && seq == l.insAt+1 && before(seq, l.sndNxt)
}

func (l *Leg) lacksInsertion(p *Packet) bool {
	return l.insLen > 0 && p.Len() == 0 && p.Fin == 0 && !p.Rst && before(p.Ack, l.insAt+1)
}

func (l *Leg) closeInsertion() {
	if l.insLen > 0 && !before(l.sndUna, l.insAt+1) {
		l.insLen = 0
	}
}

// insert sends the unit.
func (r router) insert(leg int) {
	l := &r.legs[leg]
	p := Packet{Hop: ToServer, End: uint8(leg), Seq: l.insAt, Ack: l.rcvAcked, Time: l.tsSent}
	p.Data[0] = newUnit(int(l.client), Inserted, 0, 0, 0, 0, leg)
	r.put(p)
}
