package packet

import (
	"encoding/binary"
	"net/netip"
)

// UDPSize is the length of a UDP header in bytes.
const UDPSize = 8

// Datagram is a UDP datagram. Payload is a part of the frame that it was read from.
type Datagram struct {
	Src, Dst netip.AddrPort
	Payload  []byte
}

// Datagram reads the frame's UDP datagram. False: its protocol is another, it is a fragment, has IPv4 options, or is truncated.
func (f Frame) Datagram() (Datagram, bool) {
	if f.Protocol != ProtocolUDP || f.End-f.L4 < UDPSize {
		return Datagram{}, false
	}
	if f.Family == FamilyIPv4 && (f.IPv4().HeaderLen() != IPv4Size || f.IPv4().IsFragment()) {
		return Datagram{}, false
	}
	udp := f.Bytes[f.L4:f.End]
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if length < UDPSize || length > len(udp) {
		return Datagram{}, false
	}
	return Datagram{
		Src:     netip.AddrPortFrom(f.Src.Addr(), binary.BigEndian.Uint16(udp)),
		Dst:     netip.AddrPortFrom(f.Dst.Addr(), binary.BigEndian.Uint16(udp[2:])),
		Payload: udp[UDPSize:length:length],
	}, true
}

// DatagramSpec describes a UDP datagram for [BuildDatagram].
type DatagramSpec struct {
	SrcMAC, DstMAC MAC
	// Src and Dst must be of one family, which is the packet's.
	Src, Dst netip.AddrPort
	// TOS is DSCP and ECN: IPv6's traffic class.
	TOS uint8
	// TTL is also IPv6's hop limit; 0 stands for DefaultTTL.
	TTL     uint8
	Payload []byte
	// NoSum leaves the checksum out, as IPv4 allows.
	NoSum bool
}

// BuildDatagram composes the frame that s describes, with the right checksum unless s has none. It panics on a description that no
// frame can have.
func BuildDatagram(s DatagramSpec) []byte {
	udp := make([]byte, UDPSize, UDPSize+len(s.Payload))
	binary.BigEndian.PutUint16(udp, s.Src.Port())
	binary.BigEndian.PutUint16(udp[2:], s.Dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(UDPSize+len(s.Payload)))
	udp = append(udp, s.Payload...)
	if !s.NoSum {
		sum := Checksum(udp, PseudoHeader(s.Src.Addr(), s.Dst.Addr(), ProtocolUDP, len(udp)))
		if sum == 0 { // which stands for none (RFC 768)
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(udp[6:], sum)
	}
	return buildIP(ipSpec{s.SrcMAC, s.DstMAC, s.Src.Addr(), s.Dst.Addr(), s.TOS, s.TTL, 0, nil}, ProtocolUDP, udp)
}
