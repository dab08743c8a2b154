package packet

import (
	"errors"
	"net/netip"
)

// The reasons for which [Parse] cannot give a transport header.
var (
	// ErrNotIP: the EtherType is that of neither IPv4 nor IPv6, or the frame has no whole Ethernet header.
	ErrNotIP = errors.New("parse frame: not IP")
	// ErrTruncated: a header, or the packet by the length that its IP header states, runs past the frame.
	ErrTruncated = errors.New("parse frame: truncated")
	// ErrHeader: an IP version, header length or total length, or a TCP data offset, that cannot be.
	ErrHeader = errors.New("parse frame: malformed header")
	// ErrIPOptions: IPv4 options.
	ErrIPOptions = errors.New("parse frame: IPv4 options")
	// ErrFragment: a fragment of an IPv4 packet (the first one too), or an IPv6 fragment header.
	ErrFragment = errors.New("parse frame: fragment")
	// ErrExtensionHeader: an IPv6 extension header other than the fragment header.
	ErrExtensionHeader = errors.New("parse frame: IPv6 extension header")
)

// Frame says where in Bytes the headers of an Ethernet frame begin. All offsets are in bytes from the start of Bytes.
type Frame struct {
	// Bytes is the slice that was parsed; Frame does not own it.
	Bytes []byte
	// L3 is where the IP header begins, L4 the transport header, Data the payload (for an ICMP error: the packet that it
	// quotes). End is where the IP packet ends; Ethernet padding may follow.
	L3, L4, Data, End int
	// Family is 0 when the IP header could not be read.
	Family Family
	// Protocol is IPv4's protocol or the IPv6 fixed header's next header.
	Protocol Protocol
	// Src and Dst have port 0 unless Protocol is TCP.
	Src, Dst netip.AddrPort
}

// Parse reads the headers of an Ethernet frame that carries TCP or ICMP. Of another protocol over IP it reads only the
// IP header, sets Data to L4, and returns no error. When it returns one of the errors above, the fields up to the
// header at fault are set (Family and Protocol after a whole IP header), and no view behind it may be taken. It never
// panics and never changes a byte.
func Parse(b []byte) (Frame, error) {
	f := Frame{Bytes: b, L3: EthernetSize, End: len(b)}
	if len(b) < EthernetSize {
		return f, ErrNotIP
	}
	var family Family
	switch Ethernet(b).Type() {
	case EtherTypeIPv4:
		family = FamilyIPv4
	case EtherTypeIPv6:
		family = FamilyIPv6
	default:
		return f, ErrNotIP
	}
	length, err := f.parseIP(family)
	if err != nil {
		return f, err
	}
	truncated := f.L3+length > len(b)
	f.End = min(len(b), f.L3+length)
	if f.Protocol != ProtocolTCP && f.Protocol != f.icmpProtocol() {
		f.Data = f.L4
		return f, nil
	}
	if truncated {
		return f, ErrTruncated
	}
	if family == FamilyIPv4 {
		if f.IPv4().HeaderLen() != IPv4Size {
			return f, ErrIPOptions
		}
		if f.IPv4().IsFragment() {
			return f, ErrFragment
		}
	}
	return f, f.parseTransport()
}

// parseIP reads the IP header at L3 and sets Family, Protocol, L4 and the addresses. It returns the length of the
// packet in bytes, from L3 on, as its header states it; End still bounds what may be read.
func (f *Frame) parseIP(family Family) (length int, err error) {
	b := f.Bytes[f.L3:f.End]
	if family == FamilyIPv4 {
		return f.parseIPv4(IPv4(b))
	}
	return f.parseIPv6(IPv6(b))
}

func (f *Frame) parseIPv4(ip IPv4) (length int, err error) {
	if len(ip) < IPv4Size {
		return 0, ErrTruncated
	}
	if ip.Version() != 4 || ip.HeaderLen() < IPv4Size || ip.TotalLen() < ip.HeaderLen() {
		return 0, ErrHeader
	}
	if ip.HeaderLen() > len(ip) {
		return 0, ErrTruncated
	}
	f.Family, f.Protocol, f.L4 = FamilyIPv4, ip.Protocol(), f.L3+ip.HeaderLen()
	f.Src, f.Dst = netip.AddrPortFrom(ip.Src(), 0), netip.AddrPortFrom(ip.Dst(), 0)
	return ip.TotalLen(), nil
}

func (f *Frame) parseIPv6(ip IPv6) (length int, err error) {
	if len(ip) < IPv6Size {
		return 0, ErrTruncated
	}
	if ip.Version() != 6 {
		return 0, ErrHeader
	}
	f.Family, f.Protocol, f.L4 = FamilyIPv6, ip.NextHeader(), f.L3+IPv6Size
	f.Src, f.Dst = netip.AddrPortFrom(ip.Src(), 0), netip.AddrPortFrom(ip.Dst(), 0)
	if f.Protocol == protocolFragment {
		return 0, ErrFragment
	}
	if f.Protocol.isExtension() {
		return 0, ErrExtensionHeader
	}
	return IPv6Size + ip.PayloadLen(), nil
}

func (f *Frame) parseTransport() error {
	have := f.End - f.L4
	if f.Protocol != ProtocolTCP {
		if have < ICMPSize {
			return ErrTruncated
		}
		f.Data = f.L4 + ICMPSize
		return nil
	}
	if have < TCPSize {
		return ErrTruncated
	}
	size := TCP(f.Bytes[f.L4:]).HeaderLen()
	if size < TCPSize {
		return ErrHeader
	}
	if size > have {
		return ErrTruncated
	}
	f.Data = f.L4 + size
	f.setPorts()
	return nil
}

func (f *Frame) setPorts() {
	tcp := TCP(f.Bytes[f.L4:])
	f.Src = netip.AddrPortFrom(f.Src.Addr(), tcp.SrcPort())
	f.Dst = netip.AddrPortFrom(f.Dst.Addr(), tcp.DstPort())
}

// icmpProtocol returns the number of the ICMP that belongs to the frame's family.
func (f Frame) icmpProtocol() Protocol {
	if f.Family == FamilyIPv6 {
		return ProtocolICMPv6
	}
	return ProtocolICMP
}

// Ethernet returns the view of the Ethernet header.
func (f Frame) Ethernet() Ethernet { return Ethernet(f.Bytes[:EthernetSize]) }

// IPv4 returns the view of the IPv4 header, options included. Family must be FamilyIPv4.
func (f Frame) IPv4() IPv4 { return IPv4(f.Bytes[f.L3:f.L4:f.L4]) }

// IPv6 returns the view of the IPv6 header. Family must be FamilyIPv6.
func (f Frame) IPv6() IPv6 { return IPv6(f.Bytes[f.L3:f.L4:f.L4]) }

// TCP returns the view of the TCP header, options included. Protocol must be TCP.
func (f Frame) TCP() TCP { return TCP(f.Bytes[f.L4:f.Data:f.Data]) }

// ICMP returns the view of the ICMP message with what it carries. Protocol must be the family's ICMP.
func (f Frame) ICMP() ICMP { return ICMP(f.Bytes[f.L4:f.End:f.End]) }

// Payload returns what the transport carries, without Ethernet padding.
func (f Frame) Payload() []byte { return f.Bytes[f.Data:f.End:f.End] }

// TTL returns the hops that are left: IPv4's time to live or IPv6's hop limit.
func (f Frame) TTL() uint8 {
	if f.Family == FamilyIPv4 {
		return f.IPv4().TTL()
	}
	return f.IPv6().HopLimit()
}

// TransportChecksum returns what the transport's checksum field should hold, computed from scratch. Protocol must be
// TCP or the family's ICMP, and the frame one that Parse returned no error for.
func (f Frame) TransportChecksum() uint16 {
	at := 2 // of the checksum field in ICMP
	if f.Protocol == ProtocolTCP {
		at = 16
	}
	var sum uint16
	if f.Protocol != ProtocolICMP {
		sum = PseudoHeader(f.Src.Addr(), f.Dst.Addr(), f.Protocol, f.End-f.L4)
	}
	sum = Sum(f.Bytes[f.L4:f.L4+at], sum)
	return Checksum(f.Bytes[f.L4+at+2:f.End], sum)
}
