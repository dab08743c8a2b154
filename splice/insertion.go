package splice

import "baton/packet"

// Insertion is bytes of the router's own in the stream from a client to its surrogate: the client's address in a PROXY header or a header
// line. It is one boundary in the sequence space: client bytes before it keep their distance to the leg's numbers, those behind it
// are Len further on. The section "Insertion" of docs/handoff.md is the specification.
//
// It is open until the surrogate has acknowledged all of it. From then on the direction's DeltaSeq alone translates, and the zero
// Insertion says so.
type Insertion struct {
	// At is the number of its first byte on the server leg, Len how many bytes it has; 0 when none is open.
	At  packet.Seq
	Len uint32
}

// End is the number behind its last byte, on the server leg.
func (i Insertion) End() packet.Seq { return i.At.Add(i.Len) }

// Open reports whether bytes of the client may stand before it that the surrogate lacks, or the surrogate may lack a byte of it itself.
func (i Insertion) Open() bool { return i.Len != 0 }

// Acknowledged is the insertion that is left when the surrogate has acknowledged up to ack.
func (i Insertion) Acknowledged(ack packet.Seq) Insertion {
	if i.End().LessEq(ack) {
		return Insertion{}
	}
	return i
}

// Start gives the leg's number for a byte of the client. behind is that number if the byte stands behind the insertion: the client's plus
// DeltaSeq. The byte at the boundary itself stands behind.
func (i Insertion) Start(behind packet.Seq) packet.Seq {
	if behind.Less(i.End()) {
		return behind.Add(-i.Len)
	}
	return behind
}

// Stop gives the leg's number for the end of bytes of the client: the one that a FIN or the next byte would have. An end at the boundary is
// that of bytes before it.
func (i Insertion) Stop(behind packet.Seq) packet.Seq {
	if behind.LessEq(i.End()) {
		return behind.Add(-i.Len)
	}
	return behind
}

// Heard gives what an acknowledgement, a window's edge or a quoted number of the surrogate's leg means to the client, as a number that DeltaSeq
// is taken off: nothing within the insertion is the client's, so it counts as the boundary. It never goes back as seq grows.
func (i Insertion) Heard(seq packet.Seq) packet.Seq {
	switch end := i.End(); {
	case end.LessEq(seq):
		return seq
	case seq.Less(i.At):
		return seq.Add(i.Len)
	default:
		return end
	}
}

// Window gives the window in bytes that a surrogate's acknowledgement with that window means to the client: the right edge is where it was.
func (i Insertion) Window(ack packet.Seq, window uint32) uint32 {
	return i.Heard(ack.Add(window)).Sub(i.Heard(ack))
}

// KeepsSACK reports whether a packet of the surrogate that acknowledges up to ack may show its SACK blocks to the client. Over an open insertion
// it may not: a client whose bytes behind the hole are all acknowledged would have nothing to repeat, and the hole is not its own.
func (i Insertion) KeepsSACK(ack packet.Seq) bool { return !i.Open() || i.End().LessEq(ack) }

// Split says how a segment of the client meets the insertion: how many of its bytes stand before it. within: bytes stand on both sides, or the
// segment begins at the boundary, so that the insertion has to go with it.
func (i Insertion) Split(behind packet.Seq, length uint32) (before uint32, within bool) {
	if !i.Open() {
		return 0, false
	}
	offset := i.End().Sub(behind) // of the boundary, in the segment
	if int32(offset) < 0 || offset >= length {
		return 0, false
	}
	return offset, true
}
