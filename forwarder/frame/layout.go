package frame

import (
	"bytes"
	"encoding/binary"

	"baton/packet"
)

// EtherTypes and protocols missing from package packet.
const (
	etherTypeVLAN      packet.EtherType = 0x8100
	etherTypeVLANOuter packet.EtherType = 0x88a8
	etherTypeVLANOld   packet.EtherType = 0x9100 // outer tags before 802.1ad
	etherTypeMPLS      packet.EtherType = 0x8847
	etherTypeMPLSDown  packet.EtherType = 0x8848 // "multicast" until RFC 5332
	etherTypePBB       packet.EtherType = 0x88e7

	protocolHopByHop    packet.Protocol = 0
	protocolUDP         packet.Protocol = 17
	protocolRouting     packet.Protocol = 43
	protocolDestination packet.Protocol = 60
	protocolSCTP        packet.Protocol = 132
)

// Sizes in bytes.
const (
	addressesSize = 12 // of the two addresses of an Ethernet header
	typeSize      = 2
	vlanSize      = 4
	mplsSize      = 4
	iTagSize      = 4 // of a PBB I-TAG behind its EtherType (802.1ah)
	udpSize       = 8
	sctpSize      = 12
)

// layout is the header offsets of a frame. Between l4 and end there is at least the fixed part of a TCP, UDP or SCTP header.
type layout struct {
	l3, l4, end int
	v6          bool
	protocol    packet.Protocol
}

// find finds the transport header of an IP packet behind any tags and labels. It fails for other packets, fragments, and truncated ones. A GSO
// frame (several) is used in its full length, because its IP header cannot express more than 64 KiB.
func find(b []byte, several bool) (layout, bool) {
	l, ok := layout{end: len(b)}, false
	if l.l3 = network(b); l.l3 < 0 || l.l3 >= len(b) {
		return l, false
	}
	switch b[l.l3] >> 4 {
	case 4:
		ok = l.ipv4(b, several)
	case 6:
		ok = l.ipv6(b, several)
	}
	if !ok {
		return l, false
	}
	switch have := l.end - l.l4; l.protocol {
	case packet.ProtocolTCP:
		size := packet.TCPSize
		if have >= size {
			size = packet.TCP(b[l.l4:]).HeaderLen()
		}
		return l, size >= packet.TCPSize && have >= size
	case protocolUDP:
		return l, have >= udpSize
	case protocolSCTP:
		return l, have >= sctpSize
	}
	return l, false
}

// network returns the offset of the IP header, or a negative number.
func network(b []byte) int {
	for at := addressesSize; at+typeSize <= len(b); {
		if isLength(b, at) {
			if at = behindSNAP(b, at+typeSize); at < 0 {
				return -1
			}
		}
		switch packet.EtherType(binary.BigEndian.Uint16(b[at:])) {
		case packet.EtherTypeIPv4, packet.EtherTypeIPv6:
			return at + typeSize
		case etherTypeVLAN, etherTypeVLANOuter, etherTypeVLANOld:
			at += vlanSize
		case etherTypePBB:
			at += typeSize + iTagSize + addressesSize
		case etherTypeMPLS, etherTypeMPLSDown:
			return bottom(b, at+typeSize)
		default:
			return -1
		}
	}
	return -1
}

// isLength reports whether the frame has a length instead of an EtherType there (IEEE 802.3, 3.2.6).
func isLength(b []byte, at int) bool { return binary.BigEndian.Uint16(b[at:]) < 0x0600 }

// snap begins LLC and SNAP headers with an EtherType (RFC 1042).
var snap = []byte{0xaa, 0xaa, 3, 0, 0, 0}

// behindSNAP returns the offset of the EtherType in the LLC and SNAP headers at at, or a negative number.
func behindSNAP(b []byte, at int) int {
	kind := at + len(snap)
	if kind+typeSize > len(b) || !bytes.HasPrefix(b[at:], snap) || isLength(b, kind) {
		return -1
	}
	return kind
}

// bottom returns the end of the label stack at at. Only the version field tells whether IP follows.
func bottom(b []byte, at int) int {
	for ; at+mplsSize <= len(b); at += mplsSize {
		if b[at+2]&1 != 0 {
			return at + mplsSize
		}
	}
	return -1
}

func (l *layout) ipv4(b []byte, several bool) bool {
	ip := packet.IPv4(b[l.l3:])
	if len(ip) < packet.IPv4Size || ip.HeaderLen() < packet.IPv4Size || ip.IsFragment() {
		return false
	}
	if !several {
		l.end = l.l3 + ip.TotalLen() // an Ethernet frame may be padded
	}
	l.l4, l.protocol = l.l3+ip.HeaderLen(), ip.Protocol()
	return l.l4 <= l.end && l.end <= len(b)
}

// ipv6 skips the extension headers that do not affect the pseudo header's addresses. With a routing header with segments left the checksum is
// for another destination, and will match neither as complete nor as partial.
func (l *layout) ipv6(b []byte, several bool) bool {
	ip := packet.IPv6(b[l.l3:])
	if len(ip) < packet.IPv6Size {
		return false
	}
	l.v6 = true
	if !several {
		l.end = l.l3 + packet.IPv6Size + ip.PayloadLen()
	}
	if l.end > len(b) {
		return false
	}
	l.l4, l.protocol = l.l3+packet.IPv6Size, ip.NextHeader()
	for l.protocol == protocolHopByHop || l.protocol == protocolRouting || l.protocol == protocolDestination {
		if l.l4+8 > l.end { // the smallest extension header
			return false
		}
		l.protocol, l.l4 = packet.Protocol(b[l.l4]), l.l4+8*(1+int(b[l.l4+1]))
	}
	return l.l4 <= l.end
}

// pseudo is the folded sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1) for a length from l4 on.
func (l *layout) pseudo(b []byte, length int) uint16 {
	addresses := b[l.l3+12 : l.l3+20]
	if l.v6 {
		addresses = b[l.l3+8 : l.l3+40]
	}
	start := length + int(l.protocol)
	return packet.Sum(addresses, uint16(start>>16+start&0xffff))
}
