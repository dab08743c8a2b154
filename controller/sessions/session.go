package sessions

import (
	"net/netip"
	"time"

	"baton/api"
	"baton/openflow"
	"baton/packet"
	"baton/splice"
)

// Way is the addresses of a session, or of one of its directions: from who opened it.
type Way struct{ From, To netip.AddrPort }

// Back is the other direction.
func (w Way) Back() Way { return Way{w.To, w.From} }

func (w Way) String() string { return w.From.String() + " -> " + w.To.String() }

// Kind is what a session is for.
type Kind int

// The kinds.
const (
	Unknown Kind = iota
	Client       // a client's with a service
	Leg          // a request router's with a surrogate
)

// LegState is how far a leg is.
type LegState int

// The states of a leg.
const (
	Opening LegState = iota
	Idle
	Chosen // for a client's session
	Used   // it has carried a request
)

// Point is a port of a switch.
type Point struct {
	Switch uint64
	Port   openflow.PortNo
}

// End is what one end of a session has said.
type End struct {
	At          Point      // where its packets enter the network
	Seen        bool       // its SYN
	First, Next packet.Seq // its first byte, and the one behind the last that has passed in order
	Acked       packet.Seq // what it has acknowledged of the other's
	HasAcked    bool
	TSval       uint32
	Shift       uint8
	Scales      bool
	Stamps      bool
	SACK        bool
	ECN         bool // it has asked for ECN, or agreed to it
	MSS         uint16
	MAC         packet.MAC
	Finished    bool // its FIN has passed

	ahead []span // has passed behind a hole
}

type span struct{ from, to packet.Seq }

// Bytes is how many bytes the end has sent, in order.
func (e *End) Bytes() uint32 { return e.Next.Sub(e.First) }

// Session is a tracked session.
type Session struct {
	Way
	Kind  Kind
	State api.ControllerSessionState // of a client's
	Leg   LegState                   // of a leg
	// Opener and Other are the ends: that of Way.From, and that of Way.To.
	Opener, Other End
	Since, Last   time.Time
	// Held: the opener's further bytes and its FIN neither pass nor count until the handoff is complete.
	Held bool
	// Committed: what the opener says is for a surrogate. Only that can check the numbers of a RST.
	Committed bool
	// Proxied: the request router serves the session itself.
	Proxied bool
	Reset   bool // by either end
	Handoff uint64
	// Trail is the first packets, for the handoff's sequence diagram; their times are since Since.
	Trail []api.ControllerStep

	due   time.Time // when it expires, unless packets have passed since
	index int       // in the heap
}

// Established reports whether the handshake is complete.
func (s *Session) Established() bool {
	return s.Opener.Seen && s.Other.Seen && s.Opener.HasAcked && s.Other.First.LessEq(s.Opener.Acked)
}

// Closed reports whether the session has ended.
func (s *Session) Closed() bool { return s.Reset || s.Opener.Finished && s.Other.Finished }

// The MSS of an end that has not sent the option (RFC 9293 section 3.7.1).
const (
	defaultMSS4 = 536
	defaultMSS6 = 1220
)

// ToRouter is the session as the request router has it: the client's, or the leg.
func (s *Session) ToRouter() splice.Leg {
	peer, local := &s.Opener, &s.Other
	l := splice.Leg{Peer: s.From, Local: s.To}
	if s.Kind == Leg {
		peer, local = local, peer
		l.Peer, l.Local = s.To, s.From
	}
	l.PeerMAC, l.LocalMAC = peer.MAC, local.MAC
	l.SndNxt, l.RcvNxt = local.Next, peer.Next
	l.WindowScaling = peer.Scales && local.Scales
	l.ShiftSent, l.ShiftOffered = local.Shift, peer.Shift
	l.Timestamps = peer.Stamps && local.Stamps
	l.TSvalSent, l.TSvalSeen = local.TSval, peer.TSval
	l.SACK, l.ECN = peer.SACK && local.SACK, peer.ECN && local.ECN
	l.MSSSent, l.MSSOffered = local.mss(l.Peer), peer.mss(l.Peer)
	return l
}

func (e *End) mss(peer netip.AddrPort) uint16 {
	switch {
	case e.MSS > 0:
		return e.MSS
	case peer.Addr().Unmap().Is4():
		return defaultMSS4
	}
	return defaultMSS6
}

// window is the farthest that bytes may be ahead of those in order: more than any window, less than the half of the number space.
const window = 1 << 30

// most holes that are remembered of an end. What passes behind further ones passes again, as a retransmission.
const mostAhead = 16

// pass notes that bytes have passed. It reports whether more are in order than before.
func (e *End) pass(seq packet.Seq, length uint32) bool {
	end := seq.Add(length)
	if length == 0 || end.LessEq(e.Next) || end.Sub(e.Next) > window {
		return false
	}
	if e.Next.Less(seq) {
		if len(e.ahead) < mostAhead {
			e.ahead = append(e.ahead, span{seq, end})
		}
		return false
	}
	e.Next = end
	for again := true; again; {
		again = false
		rest := e.ahead[:0]
		for _, s := range e.ahead {
			switch {
			case e.Next.Less(s.from):
				rest = append(rest, s)
			case e.Next.Less(s.to):
				e.Next, again = s.to, true
			}
		}
		e.ahead = rest
	}
	return true
}

// open notes a SYN.
func (e *End) open(f packet.Frame) {
	h := f.TCP()
	o := h.Options()
	*e = End{Seen: true, First: h.Seq() + 1, Next: h.Seq() + 1}
	e.Shift, e.Scales = o.WindowScale()
	e.Shift = min(e.Shift, splice.MaxShift)
	e.SACK = o.SACKPermitted()
	e.MSS, _ = o.MSS()
	_, _, e.Stamps = o.Timestamps()
	if h.Flags().Has(packet.ACK) {
		e.ECN = h.Flags().Has(packet.ECE) && !h.Flags().Has(packet.CWR)
	} else {
		e.ECN = h.Flags().Has(packet.ECE | packet.CWR)
	}
}

// note reads what any segment tells: the sender's address, clock and acknowledgement.
func (e *End) note(f packet.Frame, at Point) {
	h := f.TCP()
	e.MAC, e.At = f.Ethernet().Src(), at
	if val, _, ok := h.Options().Timestamps(); ok && e.Stamps && (e.TSval == 0 || packet.Seq(e.TSval).Less(packet.Seq(val))) {
		e.TSval = val
	}
	if h.Flags().Has(packet.ACK) && (!e.HasAcked || e.Acked.Less(h.Ack())) {
		e.Acked, e.HasAcked = h.Ack(), true
	}
}
