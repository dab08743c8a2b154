package frame

import (
	"bytes"
	"encoding/binary"

	"baton/packet"
)

// EtherTypes and protocols that packet does not know.
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

// layout is where the headers of a frame begin: offsets in bytes. Behind l4 are at least the fixed parts of a TCP, UDP or SCTP
// header before end.
type layout struct {
	l3, l4, end int
	v6          bool
	protocol    packet.Protocol
}

// find finds the transport header of an IP packet behind any tags and labels. Not found: the frame carries something else, a
// fragment, or less than it says. A frame of several packets is as long as it is, whatever its IP header says: that has no room
// for more than 64 KiB.
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

// network returns where the IP header begins, or a negative number.
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

// isLength reports whether a frame has a length where it may have a type (IEEE 802.3, 3.2.6).
func isLength(b []byte, at int) bool { return binary.BigEndian.Uint16(b[at:]) < 0x0600 }

// snap begins LLC and SNAP headers that end with an EtherType (RFC 1042).
var snap = []byte{0xaa, 0xaa, 3, 0, 0, 0}

// behindSNAP returns where the EtherType of the LLC and SNAP headers at at is, or a negative number.
func behindSNAP(b []byte, at int) int {
	kind := at + len(snap)
	if kind+typeSize > len(b) || !bytes.HasPrefix(b[at:], snap) || isLength(b, kind) {
		return -1
	}
	return kind
}

// bottom returns where the labels that begin at at end. What is there says only by its first bits whether it is IP.
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

// ipv6 steps over the extension headers that leave the addresses of the pseudo header as they are; behind a routing header with
// hops left the checksum is that of another destination, and it will be found neither right nor partial.
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
		if l.l4+8 > l.end { // the least extension header
			return false
		}
		l.protocol, l.l4 = packet.Protocol(b[l.l4]), l.l4+8*(1+int(b[l.l4+1]))
	}
	return l.l4 <= l.end
}

// pseudo is the folded sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1) of so many bytes from l4 on.
func (l *layout) pseudo(b []byte, length int) uint16 {
	addresses := b[l.l3+12 : l.l3+20]
	if l.v6 {
		addresses = b[l.l3+8 : l.l3+40]
	}
	start := length + int(l.protocol)
	return packet.Sum(addresses, uint16(start>>16+start&0xffff))
}
