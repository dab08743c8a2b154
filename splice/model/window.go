package model

// What bpf/session/window.h judges, in units. Windows are of one size, so that their right edges need not be kept: they lie a
// window beyond what is acknowledged.

// seqFits: from a window behind what is acknowledged (late) up to the right edge.
func seqFits(seq, end, acked uint32) bool {
	return !before(acked+window, seq) && !before(end, acked-window)
}

// ackFits: nothing that was never sent, and nothing older than a window.
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
	if before(l.rcvNxt, ack) && p.Who == l.client && !r.stranger {
		r.breaks(ShutOut)
	}
	return seqFits(seq, seq+p.Len(), l.sndUna) && ackFits(ack, l.rcvAcked, l.rcvNxt)
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

// clientResets: what the surrogate has taken lies between what it has acknowledged and what was sent to it.
func (r router) clientResets(l *Leg, seq uint32) bool {
	return !r.rules.Window || seq == l.sndNxt || seq == l.sndUna
}

func (r router) serverResets(l *Leg, seq uint32) bool {
	return !r.rules.Window || seq == l.rcvNxt || seq == l.rcvAcked || l.serverFin && seq+1 == l.rcvNxt
}

// challenge tells a client the session as it stands (RFC 5961): what the surrogate has not acknowledged, nor is here.
func (r router) challenge(l *Leg, p Packet) {
	r.toClient(Packet{Hop: ToClient, Who: p.Who, Seq: l.rcvNxt - l.toServerAck, Ack: l.sndUna - l.toServerSeq})
}

// noteServer takes account of what a surrogate acknowledges, and of the timestamp that it echoes.
func (r router) noteServer(l *Leg, p *Packet) {
	if before(l.sndUna, p.Ack) && !before(l.sndNxt, p.Ack) {
		l.sndUna = p.Ack
	}
	if p.Time != 0 && l.tsEchoed.before(p.Time) && !l.tsSent.before(p.Time) {
		l.tsEchoed = p.Time
	}
}

// clock is the router's.
func (r router) clock() Time { return at(r.scenario.Clock) }

// noteSent: the surrogate is told a timestamp, but it may discard the packet: note_sent_ts of bpf/session/timestamps.h. What its next client is
// told begins behind all that it may have taken.
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
