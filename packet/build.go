package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// SumKind says what Build leaves in the TCP checksum field.
type SumKind uint8

// The kinds of TCP checksum.
const (
	// SumComplete is the right checksum.
	SumComplete SumKind = iota
	// SumPartial is the sum of the pseudo header alone, as Linux leaves it for the device (CHECKSUM_PARTIAL).
	SumPartial
	// SumWrong is the right checksum with every bit flipped but the lowest.
	SumWrong
)

// DefaultTTL is what a zero TTL in a Spec or ICMPSpec stands for.
const DefaultTTL = 64

// Spec describes a TCP packet for [Build]. Its zero value, given addresses, is a packet without flags or payload.
type Spec struct {
	SrcMAC, DstMAC MAC
	// Src and Dst must be of one family, which is the packet's.
	Src, Dst netip.AddrPort
	// TOS is DSCP and ECN: IPv6's traffic class.
	TOS uint8
	// TTL is also IPv6's hop limit; 0 stands for DefaultTTL.
	TTL uint8

	// IPv4 only. FragmentOffset is in bytes, a multiple of 8; IPOptions, a multiple of 4 bytes, at most 40.
	ID             uint16
	DontFragment   bool
	MoreFragments  bool
	FragmentOffset int
	IPOptions      []byte

	// IPv6 only. Extension is one extension header, whole, whose first byte (the next header) Build sets to TCP;
	// ExtensionType is its number.
	FlowLabel     uint32
	ExtensionType Protocol
	Extension     []byte

	Seq, Ack Seq
	Flags    Flags
	Window   uint16
	Urgent   uint16
	// Options are padded with zeros to a multiple of 4 bytes; at most MaxOptions.
	Options  Options
	Payload  []byte
	Checksum SumKind
	// Padding is the number of bytes behind the IP packet, as Ethernet needs for short ones.
	Padding int
}

// ICMPSpec describes an ICMP error for [BuildICMP].
type ICMPSpec struct {
	SrcMAC, DstMAC MAC
	// Src and Dst must be of one family, which is the packet's.
	Src, Dst   netip.Addr
	TTL        uint8
	Type, Code uint8
	// MTU is in bytes, for "fragmentation needed" and "packet too big".
	MTU uint32
	// Quote is the start of the packet in question, from its IP header on.
	Quote []byte
}

// Build composes the frame that s describes, with right checksums and lengths unless s asks for others. It panics on
// a description that no frame can have: families that differ, more options than a header holds, more than 65,535 bytes.
func Build(s Spec) []byte {
	if len(s.Options) > MaxOptions || len(s.IPOptions) > 40 || len(s.IPOptions)%4 != 0 {
		panic(fmt.Sprintf("build packet: %d bytes of TCP options, %d of IPv4 options", len(s.Options), len(s.IPOptions)))
	}
	segment := buildTCP(s)
	l3, protocol := segment, ProtocolTCP
	if s.Extension != nil {
		l3 = append(append([]byte(nil), s.Extension...), segment...)
		l3[0], protocol = byte(ProtocolTCP), s.ExtensionType
	}
	b := buildIP(ipSpec{s.SrcMAC, s.DstMAC, s.Src.Addr(), s.Dst.Addr(), s.TOS, s.TTL, s.FlowLabel, s.IPOptions}, protocol, l3)
	if s.Src.Addr().Is4() {
		ip := IPv4(b[EthernetSize:])
		ip.SetID(s.ID)
		fragment := uint16(s.FragmentOffset / 8)
		if s.DontFragment {
			fragment |= ipv4DontFragment
		}
		if s.MoreFragments {
			fragment |= ipv4MoreFragments
		}
		binary.BigEndian.PutUint16(ip[6:], fragment)
		sumIPv4(ip)
	}
	return append(b, make([]byte, s.Padding)...)
}

// BuildICMP composes the ICMP error that s describes, with right checksums. It panics when the families differ
// or the packet would exceed 65,535 bytes.
func BuildICMP(s ICMPSpec) []byte {
	msg := make([]byte, ICMPSize, ICMPSize+len(s.Quote))
	msg[0], msg[1] = s.Type, s.Code
	binary.BigEndian.PutUint32(msg[4:], s.MTU)
	msg = append(msg, s.Quote...)
	protocol, sum := ProtocolICMP, uint16(0)
	if !s.Src.Is4() {
		protocol = ProtocolICMPv6
		sum = PseudoHeader(s.Src, s.Dst, protocol, len(msg))
	}
	ICMP(msg).SetChecksum(Checksum(msg, sum))
	return buildIP(ipSpec{s.SrcMAC, s.DstMAC, s.Src, s.Dst, 0, s.TTL, 0, nil}, protocol, msg)
}

type ipSpec struct {
	srcMAC, dstMAC MAC
	src, dst       netip.Addr
	tos, ttl       uint8
	flowLabel      uint32
	options        []byte
}

func buildIP(s ipSpec, protocol Protocol, payload []byte) []byte {
	if s.src.Is4() != s.dst.Is4() {
		panic(fmt.Sprintf("build packet: %v and %v are of different families", s.src, s.dst))
	}
	if s.ttl == 0 {
		s.ttl = DefaultTTL
	}
	size := IPv6Size
	if s.src.Is4() {
		size = IPv4Size + len(s.options)
	}
	if size+len(payload) > 0xffff {
		panic(fmt.Sprintf("build packet: %d bytes do not fit an IP packet", size+len(payload)))
	}
	b := make([]byte, EthernetSize+size, EthernetSize+size+len(payload))
	eth := Ethernet(b)
	eth.SetDst(s.dstMAC)
	eth.SetSrc(s.srcMAC)
	if s.src.Is4() {
		eth.SetType(EtherTypeIPv4)
		ip := IPv4(b[EthernetSize:])
		ip[0] = 4<<4 | byte(size/4)
		ip.SetTOS(s.tos)
		ip.SetTotalLen(size + len(payload))
		ip.SetTTL(s.ttl)
		ip[9] = byte(protocol)
		ip.SetSrc(s.src)
		ip.SetDst(s.dst)
		copy(ip[IPv4Size:], s.options)
		sumIPv4(ip)
		return append(b, payload...)
	}
	eth.SetType(EtherTypeIPv6)
	ip := IPv6(b[EthernetSize:])
	binary.BigEndian.PutUint32(ip, 6<<28|uint32(s.tos)<<20|s.flowLabel&0xfffff)
	ip.SetPayloadLen(len(payload))
	ip[6] = byte(protocol)
	ip.SetHopLimit(s.ttl)
	ip.SetSrc(s.src)
	ip.SetDst(s.dst)
	return append(b, payload...)
}

// sumIPv4 sets the header checksum.
func sumIPv4(ip IPv4) {
	ip.SetChecksum(0)
	ip.SetChecksum(Checksum(ip[:ip.HeaderLen()], 0))
}

func buildTCP(s Spec) []byte {
	size := TCPSize + (len(s.Options)+3)/4*4
	b := make([]byte, size, size+len(s.Payload))
	tcp := TCP(b)
	tcp.SetSrcPort(s.Src.Port())
	tcp.SetDstPort(s.Dst.Port())
	tcp.SetSeq(s.Seq)
	tcp.SetAck(s.Ack)
	tcp[12] = byte(size/4) << 4
	tcp.SetFlags(s.Flags)
	tcp.SetWindow(s.Window)
	binary.BigEndian.PutUint16(tcp[18:], s.Urgent)
	copy(tcp[TCPSize:], s.Options)
	b = append(b, s.Payload...)
	sum := PseudoHeader(s.Src.Addr(), s.Dst.Addr(), ProtocolTCP, len(b))
	switch s.Checksum {
	case SumComplete:
		sum = Checksum(b, sum)
	case SumWrong:
		sum = Checksum(b, sum) ^ 0xfffe
	}
	TCP(b).SetChecksum(sum)
	return b
}
