package splice

import (
	"errors"
	"fmt"
	"net/netip"

	"baton/packet"
)

// MaxShift is the largest window shift; a larger one counts as this (RFC 7323 section 2.3).
const MaxShift = 14

// Leg holds the numbers of one established TCP session of the router at the moment of splicing: everything the router sent on it
// is acknowledged, and it has acknowledged nothing beyond RcvNxt. "Sent" is what the router sent to the peer, "offered" and
// "seen" what it received from the peer.
type Leg struct {
	// Peer is the client or the surrogate, Local the VIP or the router's own end.
	Peer, Local netip.AddrPort
	// PeerMAC is the next hop towards Peer, LocalMAC the router's interface there.
	PeerMAC, LocalMAC packet.MAC

	// SndNxt is the next sequence number to send, RcvNxt the next expected.
	SndNxt, RcvNxt packet.Seq

	// WindowScaling is set if both ends sent the option; otherwise both shifts are 0. The router's windows were scaled by
	// ShiftSent, the peer's by ShiftOffered.
	WindowScaling           bool
	ShiftSent, ShiftOffered uint8

	// Timestamps is set if both ends sent the option. TSvalSent is the last TSval sent by the router, TSvalSeen the last
	// received from the peer.
	Timestamps           bool
	TSvalSent, TSvalSeen uint32

	// SACK is set if both ends sent SACK-permitted, ECN if RFC 3168 was negotiated.
	SACK, ECN bool

	// MSSSent and MSSOffered are those of the two SYNs, in bytes, or the default without the option.
	MSSSent, MSSOffered uint16
}

// The reasons for which two legs cannot be spliced.
var (
	ErrFamily = errors.New("legs of different address families")
	ErrMSS    = errors.New("segments of one leg may be too large for the other")
	ErrECN    = errors.New("ECN negotiated on one leg only")
)

// Fit returns nil if the two legs can be spliced, and otherwise wraps [ErrFamily], [ErrMSS] or [ErrECN]: differences that
// translating single packets cannot bridge. A header of the other family has another size. A sender obeys the MSS advertised
// by the router, which must not exceed that of the other leg's peer. And if only one leg negotiated ECN, packets would be
// marked whose receiver does not echo marks.
//
// Legs that differ in window scale, SACK and timestamps fit. But a leg with timestamps gets segments without the option if the
// other leg has none: Linux accepts them, a strict RFC 7323 receiver may drop them (section 3.2). So a pool should match the
// option if the peers are unknown.
func Fit(client, server Leg) error {
	if a, b := client.Peer.Addr().Unmap(), server.Peer.Addr().Unmap(); a.Is4() != b.Is4() {
		return fmt.Errorf("fit legs: %w: %v and %v", ErrFamily, a, b)
	}
	if server.MSSSent > client.MSSOffered {
		return fmt.Errorf("fit legs: %w: the surrogate may send %d bytes, the client accepts %d", ErrMSS, server.MSSSent, client.MSSOffered)
	}
	if client.MSSSent > server.MSSOffered {
		return fmt.Errorf("fit legs: %w: the client may send %d bytes, the surrogate accepts %d", ErrMSS, client.MSSSent, server.MSSOffered)
	}
	if client.ECN != server.ECN {
		return fmt.Errorf("fit legs: %w: client %v, surrogate %v", ErrECN, client.ECN, server.ECN)
	}
	return nil
}

// sentShift and offeredShift return the shifts in use on the leg.
func (l Leg) sentShift() uint8 {
	if !l.WindowScaling {
		return 0
	}
	return min(l.ShiftSent, MaxShift)
}

func (l Leg) offeredShift() uint8 {
	if !l.WindowScaling {
		return 0
	}
	return min(l.ShiftOffered, MaxShift)
}
