package controller

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"baton/balance/tables"
	"baton/packet"
)

// Packets that are not part of a flow with a link.
var (
	errLater    = errors.New("a fragment that has no ports")
	errNotAPing = errors.New("ICMP other than an echo")
)

// protocolUDP is missing in package packet; udpSize is its header length in bytes.
const (
	protocolUDP = packet.Protocol(17)
	udpSize     = 8
)

// The types of echoes (RFC 792, RFC 4443).
const (
	echoRequest, echoReply     = 8, 0
	echoRequest6, echoReply6   = 128, 129
	solicitation, advertise    = 135, 136
	neighbourHops              = 255 // of a neighbour's message that no router has forwarded (RFC 4861, 7.1.1)
	optionTarget               = 2   // a target's link-layer address (RFC 4861, 4.6.1)
	ipv4FragmentAt, ipv4Offset = 6, 0x1fff
)

// readFlow returns the flow of a packet and, for TCP, its flags. TCP needs only the headers.
func readFlow(b []byte) (tables.Flow, packet.Flags, error) {
	f, err := packet.Parse(b)
	cut := errors.Is(err, packet.ErrTruncated) && f.Protocol == packet.ProtocolTCP && len(b)-f.L4 >= packet.TCPSize
	if err != nil && !cut {
		return tables.Flow{}, 0, err
	}
	if f.Family == packet.FamilyIPv4 && binary.BigEndian.Uint16(b[f.L3+ipv4FragmentAt:])&ipv4Offset != 0 {
		return tables.Flow{}, 0, errLater
	}
	flow := tables.Flow{Protocol: f.Protocol, Internal: f.Src, Remote: f.Dst}
	switch {
	case f.Protocol == packet.ProtocolTCP:
		h := packet.TCP(b[f.L4:])
		flow.Internal = netip.AddrPortFrom(f.Src.Addr(), h.SrcPort())
		flow.Remote = netip.AddrPortFrom(f.Dst.Addr(), h.DstPort())
		return flow, h.Flags(), nil
	case isICMP(f):
		if !isPing(f) {
			return flow, 0, errNotAPing
		}
		return flow, 0, nil
	}
	if f.Protocol == protocolUDP {
		if f.End-f.L4 < udpSize {
			return flow, 0, packet.ErrTruncated
		}
		flow.Internal = netip.AddrPortFrom(f.Src.Addr(), binary.BigEndian.Uint16(b[f.L4:]))
		flow.Remote = netip.AddrPortFrom(f.Dst.Addr(), binary.BigEndian.Uint16(b[f.L4+2:]))
	}
	return flow, 0, nil
}

// isICMP reports whether it is the ICMP of its own IP version; others are not read.
func isICMP(f packet.Frame) bool {
	if f.Family == packet.FamilyIPv6 {
		return f.Protocol == packet.ProtocolICMPv6
	}
	return f.Protocol == packet.ProtocolICMP
}

// isPing reports whether an ICMP message is an echo request.
func isPing(f packet.Frame) bool {
	if f.Family == packet.FamilyIPv6 {
		return f.ICMP().Type() == echoRequest6
	}
	return f.ICMP().Type() == echoRequest
}
