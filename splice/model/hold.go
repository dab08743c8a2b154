package model

import "baton/splice/machine"

// As bpf/session/requests.h does: a client whose requests are routed separately is limited to one at a time.

// behindRequest counts the units of the client's packet after the current request.
func (l *Leg) behindRequest(seq uint32, p *Packet) uint32 {
	limit, end := l.sndNxt, seq+p.Len()
	switch l.request {
	case Quiet, Done:
	case Body:
		limit += uint32(l.requestLeft) // a gap before the packet is also part of the body
	default:
		return 0
	}
	if !before(limit, end) {
		return 0
	}
	return min(end-limit, p.Len())
}

// holdMore trims what follows the current request. A packet wholly after it is handled later.
func (l *Leg) holdMore(seq uint32, p *Packet) {
	if p.Rst || l.quiet() && seq == l.sndNxt {
		return
	}
	if over := l.behindRequest(seq, p); over < p.Len() {
		p.cutBehind(over)
	}
}

// holdFirst does the same of the first packet of a decided request.
func holdFirst(p *Packet) {
	if length := uint32(1 + p.Data[0].N()); length < p.Len() {
		p.cutBehind(p.Len() - length)
	}
}

// holdRequest checks new units. Units after the current request are dropped until it is complete; if its response cannot be
// tracked, the session ends. The kernel waits for a second first.
func (l *Leg) holdRequest(seq, ack uint32, p *Packet) uint32 {
	switch {
	case l.quiet() && l.serverFin:
		return machine.NextEarly
	case l.behindRequest(seq, p) == 0:
		return machine.NextSend
	case l.response == Opaque && ack == l.rcvNxt:
		return machine.NextCut
	}
	return machine.NextEarly
}
