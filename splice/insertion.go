package splice

import "baton/packet"

// Insertion is bytes of the router's own in the stream from a client to its surrogate: the client's address in a PROXY header before the
// client's first byte, or a change of the head of a request, which makes it longer. It is one boundary in the sequence space: what the client
// sends before it keeps its distance to the leg's numbers, what follows is Len further on. A head that it changes is sent and
// acknowledged as a whole. The section "Insertion" of docs/handoff.md is the specification.
//
// It is open until the surrogate has acknowledged all of it and of its head. From then on the direction's DeltaSeq alone translates, and the
// zero Insertion says so.
type Insertion struct {
	// At is the number of its first byte on the server leg, Len by how many bytes the leg's stream is longer than the client's; 0 when none
	// is open. Head is how many bytes of the client the changed head has; 0: the insertion stands before the client's first byte.
	At        packet.Seq
	Len, Head uint32
}

// End is the number behind its last byte, and that of its head, on the server leg.
func (i Insertion) End() packet.Seq { return i.At.Add(i.Head + i.Len) }

// HeadStart is the number behind of the first byte of its head, or of the byte that it stands before: the client's number plus DeltaSeq, as
// if all before it had been inserted.
func (i Insertion) HeadStart() packet.Seq { return i.At.Add(i.Len) }

// Open reports whether the surrogate may lack a byte of it, or of its head.
func (i Insertion) Open() bool { return i.Len != 0 }

// Acknowledged is the insertion that is left when the surrogate has acknowledged up to ack.
func (i Insertion) Acknowledged(ack packet.Seq) Insertion {
	if i.End().LessEq(ack) {
		return Insertion{}
	}
	return i
}

// Start gives the leg's number for a byte of the client that is in no head, or begins the changed one. behind is that number if the byte
// stands behind the insertion: the client's plus DeltaSeq. It is that of an end, too, such as a FIN's.
func (i Insertion) Start(behind packet.Seq) packet.Seq {
	if i.Open() && behind.Less(i.End()) {
		return behind.Add(-i.Len)
	}
	return behind
}

// Straddles reports whether so many bytes of the client are no translation of: they are part of the changed head, or stand on both sides of an
// insertion that has none. Unless they are the head once more, as a whole and the same, they are dropped.
func (i Insertion) Straddles(behind packet.Seq, length uint32) bool {
	return i.Open() && length > 0 && behind.Less(i.End()) && i.HeadStart().Less(behind.Add(length))
}

// Repeats reports whether bytes of the client begin where the insertion goes with them once more: they begin with the changed head, or directly
// behind an insertion that has none.
func (i Insertion) Repeats(behind packet.Seq, length uint32) bool {
	return i.Open() && length > 0 && behind == i.HeadStart()
}

// Heard gives what an acknowledgement, a window's edge or a quoted number of the surrogate's leg means to the client, as a number that DeltaSeq
// is taken off: nothing within the insertion and its head is the client's, so it counts as the boundary. It never goes back as seq grows.
func (i Insertion) Heard(seq packet.Seq) packet.Seq {
	switch {
	case !i.Open() || i.End().LessEq(seq):
		return seq
	case seq.Less(i.At):
		return seq.Add(i.Len)
	default:
		return i.HeadStart()
	}
}

// Window gives the window in bytes that a surrogate's acknowledgement with that window means to the client: the right edge is where it was.
func (i Insertion) Window(ack packet.Seq, window uint32) uint32 {
	return i.Heard(ack.Add(window)).Sub(i.Heard(ack))
}

// KeepsSACK reports whether a packet of the surrogate that acknowledges up to ack may show its SACK blocks to the client. Over an open insertion
// it may not: a client whose bytes behind the hole are all acknowledged would have nothing to repeat, and the hole is not its own.
func (i Insertion) KeepsSACK(ack packet.Seq) bool { return !i.Open() || i.End().LessEq(ack) }
