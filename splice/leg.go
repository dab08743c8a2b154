package splice

import (
	"errors"
	"fmt"
	"net/netip"

	"baton/packet"
)

// MaxShift is the largest window shift; a larger one that was sent counts as this (RFC 7323 section 2.3).
const MaxShift = 14

// Leg holds the numbers of one established TCP session of the router, seen from the router, at the moment at which it
// is spliced: everything that the router sent on it is acknowledged, and whatever it has read beyond RcvNxt it has not
// acknowledged. "Told" is what the router sent to the peer, "offered" and "seen" what it got from the peer.
type Leg struct {
	// Peer is the client or the surrogate, Local the VIP or the router's own end.
	Peer, Local netip.AddrPort
	// PeerMAC is the next hop towards Peer, LocalMAC the router's interface there.
	PeerMAC, LocalMAC packet.MAC

	// SndNxt is the sequence number of the next byte that the router would send, RcvNxt of the next that it expects.
	SndNxt, RcvNxt packet.Seq

	// WindowScaling is set when both ends sent the option; otherwise both shifts count as 0. The router's windows were
	// shifted by ShiftSent, the peer's are by ShiftOffered.
	WindowScaling           bool
	ShiftSent, ShiftOffered uint8

	// Timestamps is set when both ends sent the option. TSvalSent is the last TSval that the router sent, TSvalSeen the
	// last that it saw from the peer.
	Timestamps           bool
	TSvalSent, TSvalSeen uint32

	// SACK is set when both ends sent SACK-permitted, ECN when RFC 3168 was negotiated.
	SACK, ECN bool

	// MSSSent and MSSOffered are those of the two SYNs in bytes, with the default where one had none.
	MSSSent, MSSOffered uint16
}

// The reasons for which two legs do not fit each other.
var (
	ErrFamily = errors.New("legs of different address families")
	ErrMSS    = errors.New("segments of one leg may be too large for the other")
	ErrECN    = errors.New("ECN negotiated on one leg only")
)

// Fit returns nil when the two legs can be spliced, and otherwise wraps [ErrFamily], [ErrMSS] or [ErrECN]: differences
// that no translation of single packets makes good. A header of the other family has another size. A sender keeps to
// the MSS that the router told it, so that must not be above what the other leg's peer takes. And where only one leg
// negotiated ECN, marks would be set on packets whose receiver does not report them.
//
// Differences in window scale, SACK and timestamps fit. But a leg with timestamps whose other leg has none will see
// segments without the option: Linux takes them, a strict RFC 7323 receiver may drop them (section 3.2). A pool should
// therefore match the option, too, where the peers are not known.
func Fit(client, server Leg) error {
	if a, b := client.Peer.Addr().Unmap(), server.Peer.Addr().Unmap(); a.Is4() != b.Is4() {
		return fmt.Errorf("fit legs: %w: %v and %v", ErrFamily, a, b)
	}
	if server.MSSSent > client.MSSOffered {
		return fmt.Errorf("fit legs: %w: the surrogate may send %d bytes, the client takes %d", ErrMSS, server.MSSSent, client.MSSOffered)
	}
	if client.MSSSent > server.MSSOffered {
		return fmt.Errorf("fit legs: %w: the client may send %d bytes, the surrogate takes %d", ErrMSS, client.MSSSent, server.MSSOffered)
	}
	if client.ECN != server.ECN {
		return fmt.Errorf("fit legs: %w: client %v, surrogate %v", ErrECN, client.ECN, server.ECN)
	}
	return nil
}

// sentShift and offeredShift return the shifts in force on the leg.
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
