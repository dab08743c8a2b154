package model

import "baton/splice/machine"

// What bpf/session/requests.h does where each request is routed: a client is held to one request at a time.

// behindRequest counts the units of the client's packet that lie behind the request in front.
func (l *Leg) behindRequest(seq uint32, p *Packet) uint32 {
	limit, end := l.sndNxt, seq+p.Len()
	switch l.request {
	case Quiet, Done:
	case Body:
		limit += uint32(l.requestLeft) // a gap before the packet is of the body too
	default:
		return 0
	}
	if !before(limit, end) {
		return 0
	}
	return min(end-limit, p.Len())
}

// holdMore cuts off what is behind the request in front. A packet behind all of it is judged later.
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

// holdRequest judges new units. What is not of the request in front waits; if no response that can be followed will end the
// wait, the session ends. The kernel waits for a second first.
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
