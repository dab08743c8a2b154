package splice

import (
	"net/netip"

	"baton/packet"
)

// Splice joins a client leg to a server leg: the translation of each direction.
type Splice struct {
	ToServer, ToClient Direction
}

// Tuple is the addresses of one direction of a leg.
type Tuple struct{ Src, Dst netip.AddrPort }

// Policy says how to translate a TCP option.
type Policy uint8

// The policies.
const (
	// Keep: the option is translated.
	Keep Policy = iota
	// Strip: the option's bytes become NOPs, because the receiver's leg did not negotiate it.
	Strip
)

func (p Policy) String() string {
	if p == Keep {
		return "keep"
	}
	return "strip"
}

// Shifts rescales windows between two legs.
type Shifts struct {
	// Sender is the shift that the window's sender offered on its leg, Receiver the shift that the router advertised to the
	// receiver on the other.
	Sender, Receiver uint8
}

// Apply converts a window field, rounding down. An open window stays open: it is at least one unit.
func (s Shifts) Apply(window uint16) uint16 {
	scaled := uint32(window) << s.Sender >> s.Receiver
	if window != 0 && scaled == 0 {
		return 1
	}
	return uint16(min(scaled, 0xffff))
}

// Direction translates the packets from one end to the other. It holds for every packet of the splice; see the package comment.
// Differences are added modulo 2^32.
type Direction struct {
	// Match is the tuple of arriving packets: the key of the flow. Translate does not check it.
	Match Tuple
	// Rewrite is the tuple of outgoing packets.
	Rewrite        Tuple
	SrcMAC, DstMAC packet.MAC

	DeltaSeq, DeltaAck uint32

	Timestamps             Policy
	DeltaTSval, DeltaTSecr uint32

	// SACK edges are shifted by DeltaAck, as they number the other direction's data.
	SACK Policy

	Window Shifts
	// QuotedWindow undoes the other direction's translation of a window quoted in an ICMP error, up to rounding. The rest of
	// a quotation needs no fields: the other direction's differences are the negatives of this one's, crosswise.
	QuotedWindow Shifts
}

// New joins two legs, which should [Fit] each other; packets of another family than their leg's are refused, not misread.
//
// The paper's numbers (section 3.4) in terms of a leg: Srs + Rrs = server.SndNxt and Scr + Rcr = client.RcvNxt, the
// router's own request and the client's, each with its initial sequence number; Src = client.SndNxt and Ssr =
// server.RcvNxt, since no byte of a response has passed. The equations also hold for recycled legs:
// they only need the current numbers.
func New(client, server Leg) Splice {
	client, server = client.unmapped(), server.unmapped()
	toServer := Direction{
		Match:    Tuple{client.Peer, client.Local},
		Rewrite:  Tuple{server.Local, server.Peer},
		SrcMAC:   server.LocalMAC,
		DstMAC:   server.PeerMAC,
		DeltaSeq: server.SndNxt.Sub(client.RcvNxt), // equation 1: Sinc_cs = (Srs - Scr) + (Rrs - Rcr)
		Window:   Shifts{Sender: client.offeredShift(), Receiver: server.sentShift()},
		// The router's clock as the surrogate knows it, minus the client's clock.
		DeltaTSval: server.TSvalSent - client.TSvalSeen,
	}
	toClient := Direction{
		Match:    Tuple{server.Peer, server.Local},
		Rewrite:  Tuple{client.Local, client.Peer},
		SrcMAC:   client.LocalMAC,
		DstMAC:   client.PeerMAC,
		DeltaSeq: client.SndNxt.Sub(server.RcvNxt), // equation 3: Sinc_sc = Src - Ssr
		Window:   Shifts{Sender: server.offeredShift(), Receiver: client.sentShift()},
		// The router's clock as the client knows it, minus the surrogate's clock.
		DeltaTSval: client.TSvalSent - server.TSvalSeen,
	}
	toClient.DeltaAck = -toServer.DeltaSeq // equation 2: Ainc_sc = -Sinc_cs
	toServer.DeltaAck = -toClient.DeltaSeq // equation 4: Ainc_cs = -Sinc_sc
	// An echo is converted back to the clock it came from.
	toServer.DeltaTSecr = -toClient.DeltaTSval
	toClient.DeltaTSecr = -toServer.DeltaTSval

	for _, d := range []*Direction{&toServer, &toClient} {
		d.Timestamps, d.SACK = policy(client.Timestamps && server.Timestamps), policy(client.SACK && server.SACK)
	}
	toServer.QuotedWindow = toClient.Window.inverse()
	toClient.QuotedWindow = toServer.Window.inverse()
	return Splice{ToServer: toServer, ToClient: toClient}
}

func (l Leg) unmapped() Leg {
	l.Peer = netip.AddrPortFrom(l.Peer.Addr().Unmap(), l.Peer.Port())
	l.Local = netip.AddrPortFrom(l.Local.Addr().Unmap(), l.Local.Port())
	return l
}

func (s Shifts) inverse() Shifts { return Shifts{Sender: s.Receiver, Receiver: s.Sender} }

func policy(negotiated bool) Policy {
	if negotiated {
		return Keep
	}
	return Strip
}
