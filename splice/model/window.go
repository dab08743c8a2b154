package model

// The checks of bpf/session/window.h, in units. Windows have one size, so right edges need no state: they are a window after the
// acknowledged number.

// seqFits: from one window before the acknowledged number (delayed) to the right edge.
func seqFits(seq, end, acked uint32) bool {
	return !before(acked+window, seq) && !before(end, acked-window)
}

// ackFits: acknowledges nothing that was never sent, and nothing older than a window.
func ackFits(ack, acked, sent uint32) bool {
	return !before(sent, ack) && !before(ack, acked-window)
}

func (r router) clientFits(l *Leg, p *Packet, seq, ack uint32) bool {
	if !r.rules.Window {
		return true
	}
	if p.Rst {
		return !before(seq, l.sndUna) && !before(l.sndUna+window, seq)
	}
	if before(l.rcvNxt, ack) && p.End == l.client && !r.stranger {
		r.breaks(ShutOut)
	}
	return seqFits(seq, seq+p.Len(), l.sndUna) && ackFits(ack, l.rcvAcked, l.rcvNxt) && !l.isOfEarlier(seq, p.Len(), ack)
}

// isOfEarlier: the packet is of an earlier connection between the same ports.
func (l *Leg) isOfEarlier(seq, size, ack uint32) bool {
	return before(ack, l.rcvBase) && (l.first || size > 0 && !before(seq, l.sndBase))
}

func (r router) serverFits(l *Leg, p *Packet) bool {
	if !r.rules.Window {
		return true
	}
	if before(l.sndNxt, p.Ack) && !r.stranger {
		r.breaks(ShutOut)
	}
	return seqFits(p.Seq, p.Seq+p.Len(), l.rcvAcked) && (p.Rst || ackFits(p.Ack, l.sndUna, l.sndNxt))
}

// clientResets: what the surrogate expects is between what it has acknowledged and what was sent to it.
func (r router) clientResets(l *Leg, seq uint32) bool {
	return !r.rules.Window || seq == l.sndNxt || seq == l.sndUna
}

func (r router) serverResets(l *Leg, seq uint32) bool {
	return !r.rules.Window || seq == l.rcvNxt || seq == l.rcvAcked || l.serverFin && seq+1 == l.rcvNxt
}

// challenge reports the session's state to a client (RFC 5961); it acknowledges only what the surrogate has acknowledged.
func (r router) challenge(l *Leg, p Packet) {
	r.toClient(Packet{Hop: ToClient, End: p.End, Seq: l.rcvNxt - l.toServerAck, Ack: l.heard(l.sndUna) - l.toServerSeq})
}

// noteServer records what a surrogate acknowledges, and the timestamp that it echoes.
func (r router) noteServer(l *Leg, p *Packet) {
	if before(l.sndUna, p.Ack) && !before(l.sndNxt, p.Ack) {
		l.sndUna = p.Ack
	}
	l.closeInsertion()
	if p.Time != 0 && l.tsEchoed.before(p.Time) && !l.tsSent.before(p.Time) {
		l.tsEchoed = p.Time
	}
}

// clock is the router's clock.
func (r router) clock() Time { return at(r.scenario.Clock) }

// noteSent records a timestamp sent to the surrogate, which may drop the packet: note_sent_ts of bpf/session/timestamps.h. The
// next client's timestamps start after all that it may have accepted.
func (r router) noteSent(l *Leg, t Time) {
	if t == 0 {
		return
	}
	l.tsSent = later(l.tsSent, t)
	if r.rules.TimeEchoed && l.tsSent.ahead(l.tsEchoed) > quarter {
		l.spoilt = true
	}
	if by := t.ahead(r.clock()); r.rules.TimeNear && by > quarter && by < ring-quarter {
		l.spoilt = true
	}
}
