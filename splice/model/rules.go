package model

// Rules ensure the invariant. Each can be switched off to show its purpose.
type Rules struct {
	// TupleCheck: a packet is translated only if the splice still names its sender, compared under the lock.
	TupleCheck bool
	// RcvBase: retransmissions from before the client joined are acknowledged, not passed on.
	RcvBase bool
	// AllAckedByClient: a leg becomes idle only after its client has acknowledged all of the response.
	AllAckedByClient bool
	// AllAckedByServer: a leg becomes idle only after its surrogate has acknowledged all of the request.
	AllAckedByServer bool
	// QuietFraming: a leg becomes idle only between a complete response and the next request.
	QuietFraming bool
	// FinExact: a FIN ends the session only if nothing is missing before it.
	FinExact bool
	// StartMissing: bytes after a gap where a request should start are dropped.
	StartMissing bool
	// PipelinedIsOpaque: after a packet with more than one request, messages are not tracked.
	PipelinedIsOpaque bool

	// Marked: from the decision to move a client until its old leg is free, that leg accepts no packet from the client.
	Marked bool
	// Unheard: meanwhile nothing from that leg's surrogate is passed to the client either.
	Unheard bool
	// FinAhead: a FIN after a gap where a request should start is dropped; after any other gap it is passed on, and messages
	// are no longer tracked: the surrogate keeps that FIN.
	FinAhead bool
	// SentOnce: after a retransmission of unacknowledged units the leg is not reused: the surrogate may have dropped the
	// first version, and the second may differ.
	SentOnce bool
	// AckFloor: bytes that acknowledge none of the client's request do not answer it: a first request is retried, a moved
	// session is cut. This does not catch an unsolicited response retransmitted after the request has arrived.
	AckFloor bool
	// LeftQuiet: a leg that its client has left is reused only if it is still between messages, and all acknowledged.
	LeftQuiet bool
	// Linger: the end of a session is remembered after its last ACK, so that a late first segment does not start a new one.
	Linger bool

	// Window: packets outside the session's windows have no effect, and an RST ends the session only with exactly the
	// expected number.
	Window bool
	// NoUrgent: no packet carries urgent data, which its receiver would remove from the stream.
	NoUrgent bool
	// TimeEchoed: a leg whose surrogate was sent a timestamp too far beyond what it has echoed is not reused.
	TimeEchoed bool
	// TimeNear: nor is one whose surrogate was sent a timestamp too far from the router's clock: a liar could lead a
	// surrogate around the ring, where late packets are from the future.
	TimeNear bool
	// Hold: where requests are routed separately, bytes after the current one are dropped.
	Hold bool

	// InFront: units of a client that stand before an open insertion keep their distance to the leg's numbers, and a packet with
	// units on both sides is dropped.
	InFront bool
	// HeadWhole: while a head is not acknowledged, a packet that has a part of it is dropped.
	HeadWhole bool
	// SameHead: while a head is not acknowledged, the client can only repeat it as it was; another one ends the session.
	SameHead bool
}

// All rules are in force.
func All() Rules {
	return Rules{
		TupleCheck: true, RcvBase: true, AllAckedByClient: true, AllAckedByServer: true, QuietFraming: true, FinExact: true,
		StartMissing: true, PipelinedIsOpaque: true,
		Marked: true, Unheard: true, FinAhead: true, SentOnce: true, AckFloor: true, LeftQuiet: true, Linger: true,
		Window: true, NoUrgent: true, TimeEchoed: true, TimeNear: true, Hold: true, InFront: true, HeadWhole: true, SameHead: true,
	}
}

// Kernel is the kernel program's rules.
func Kernel() Rules { return All() }
