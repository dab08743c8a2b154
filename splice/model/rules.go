package model

// Rules are what keeps the invariant. Each can be switched off to see what it is for.
type Rules struct {
	// TupleCheck: a packet is translated only if the splice still names its sender, compared under the lock.
	TupleCheck bool
	// RcvBase: what a surrogate repeats of before the client came is acknowledged, not passed on.
	RcvBase bool
	// AllAckedByClient: a leg is free only when its client has acknowledged all of the response.
	AllAckedByClient bool
	// AllAckedByServer: a leg is free only when its surrogate has acknowledged all of the request.
	AllAckedByServer bool
	// QuietFraming: a leg is free only between a complete response and the next request.
	QuietFraming bool
	// FinExact: a FIN ends the session only if nothing is missing before it.
	FinExact bool
	// StartMissing: what comes behind a gap where a request should start is dropped.
	StartMissing bool
	// PipelinedIsOpaque: a packet that holds more than one request is not followed.
	PipelinedIsOpaque bool

	// Marked: from the decision to move a client until its old leg is free, that leg takes no packet of the client.
	Marked bool
	// Unheard: meanwhile the client hears nothing from that leg's surrogate either.
	Unheard bool
	// FinAhead: a FIN behind a gap where a request should start is dropped; behind any other it is passed on, and the session
	// is not followed any more: the surrogate keeps that FIN.
	FinAhead bool
	// SentOnce: when units that the surrogate has not acknowledged are sent again, its leg is not used again: the surrogate
	// may have discarded the first version, and the second may be another.
	SentOnce bool
	// AckFloor: what acknowledges nothing of the client's request does not answer it: a first one is repeated, the session of
	// one that has moved is cut. It does not catch what a surrogate said unsolicited and repeats when it has the request.
	AckFloor bool
	// LeftQuiet: a leg that its client has left is used again only if it is still quiet, and all acknowledged.
	LeftQuiet bool
	// Linger: the end of a session is remembered after its last ACK, so that a late first segment is no new session.
	Linger bool

	// Window: what lies outside of the session's windows changes nothing, and an RST ends the session only with the number
	// that its receiver expects.
	Window bool
	// NoUrgent: no packet carries urgent data, which its receiver takes out of the stream.
	NoUrgent bool
	// TimeEchoed: a leg whose surrogate was told a timestamp too far beyond what it has echoed is not used again.
	TimeEchoed bool
	// TimeNear: nor is one whose surrogate was told a timestamp too far from the router's clock: a liar leads a surrogate around
	// the ring, where what is late is of the future.
	TimeNear bool
	// Hold: where each request is routed, what is behind the one in front waits with the client.
	Hold bool
}

// All rules are in force.
func All() Rules {
	return Rules{
		TupleCheck: true, RcvBase: true, AllAckedByClient: true, AllAckedByServer: true, QuietFraming: true, FinExact: true,
		StartMissing: true, PipelinedIsOpaque: true,
		Marked: true, Unheard: true, FinAhead: true, SentOnce: true, AckFloor: true, LeftQuiet: true, Linger: true,
		Window: true, NoUrgent: true, TimeEchoed: true, TimeNear: true, Hold: true,
	}
}

// Kernel is what the kernel program has.
func Kernel() Rules { return All() }
