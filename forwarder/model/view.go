package model

import (
	"bytes"
	"encoding/binary"

	"baton/packet"
)

// EtherTypes that are parsed.
const (
	typeIPv4      = 0x0800
	typeARP       = 0x0806
	typeVLAN      = 0x8100
	typeVLANOuter = 0x88a8
	typeIPv6      = 0x86dd
	typeMPLS      = 0x8847
	typeMPLSMulti = 0x8848
	typePBB       = 0x88e7

	// leastType: smaller numbers are lengths (IEEE 802.3, 3.2.6).
	leastType = 0x0600
	// typeNone is the value to match if there is a length instead of a type [7.2.3.8].
	typeNone = 0x05ff
)

// Protocol numbers, including extension headers.
const (
	protocolICMP     = 1
	protocolTCP      = 6
	protocolUDP      = 17
	protocolICMPv6   = 58
	protocolSCTP     = 132
	headerHop        = 0
	headerRouting    = 43
	headerFragment   = 44
	headerESP        = 50
	headerAuth       = 51
	headerNone       = 59
	headerDest       = 60
	neighborSolicit  = 135
	neighborAdvert   = 136
	ethernetSize     = packet.EthernetSize
	mostTags         = 4 // that are parsed
	mostExtensions   = 12
	mostNeighborOpts = 16
	snapSize         = 8 // of LLC and SNAP headers
)

// snap begins LLC and SNAP headers with an EtherType (RFC 1042).
var snap = []byte{0xaa, 0xaa, 3, 0, 0, 0}

// view is the header offsets of a frame; 0: absent.
type view struct {
	tags      int // VLAN tags
	etherType int // behind the tags; typeNone if there is none
	length    int // offset of the frame's length, if the EtherType is in a SNAP header
	l3        int // behind the EtherType

	ipv4, ipv6, arp, mpls, pbb bool

	l4         int // behind the network header, if one of tcp to icmpv6 is set
	protocol   int // of IP
	extensions []int
	fragment   bool
	later      bool // not the first fragment
	fragmentAt int  // offset of IPv6's fragment header

	tcp, udp, sctp, icmp, icmpv6 bool
	target, sll, tll             int // offsets of the addresses in neighbour discovery
}

func be16(b []byte, at int) int { return int(binary.BigEndian.Uint16(b[at:])) }

// has reports whether the frame has n bytes at an offset.
func has(b []byte, at, n int) bool { return at >= 0 && n >= 0 && at+n <= len(b) }

func isTag(etherType int) bool { return etherType == typeVLAN || etherType == typeVLANOuter }

// look parses a frame with at least an Ethernet header.
func look(b []byte) view {
	v := view{etherType: be16(b, 12), l3: ethernetSize}
	for v.tags < mostTags && isTag(v.etherType) {
		if !has(b, v.l3, 4) {
			return v
		}
		v.etherType = be16(b, v.l3+2)
		v.l3 += 4
		v.tags++
	}
	if v.etherType < leastType {
		v.lookSNAP(b)
	}
	switch v.etherType {
	case typeIPv4:
		v.lookIPv4(b)
	case typeIPv6:
		v.lookIPv6(b)
	case typeARP:
		v.arp = has(b, v.l3, 28) && b[v.l3+4] == 6 && b[v.l3+5] == 4
	case typeMPLS, typeMPLSMulti:
		v.mpls = has(b, v.l3, 4)
	case typePBB:
		v.pbb = has(b, v.l3, 4)
	}
	return v
}

// lookSNAP reads the EtherType of a frame with a length field.
func (v *view) lookSNAP(b []byte) {
	v.etherType = typeNone
	if !has(b, v.l3, snapSize) || !bytes.HasPrefix(b[v.l3:], snap) || be16(b, v.l3+len(snap)) < leastType {
		return
	}
	v.etherType = be16(b, v.l3+len(snap))
	v.length = v.l3 - 2
	v.l3 += snapSize
}

func (v *view) lookIPv4(b []byte) {
	if !has(b, v.l3, packet.IPv4Size) || b[v.l3]>>4 != 4 || b[v.l3]&15 < 5 {
		return
	}
	v.ipv4 = true
	v.protocol = int(b[v.l3+9])
	v.l4 = v.l3 + int(b[v.l3]&15)*4
	field := be16(b, v.l3+6)
	v.fragment, v.later = field&0x3fff != 0, field&0x1fff != 0
	v.lookTransport(b)
}

func (v *view) lookIPv6(b []byte) {
	if !has(b, v.l3, packet.IPv6Size) || b[v.l3]>>4 != 6 {
		return
	}
	v.ipv6 = true
	v.protocol = int(b[v.l3+6])
	v.l4 = v.l3 + packet.IPv6Size
	for range mostExtensions {
		if !v.extension(b) {
			break
		}
	}
	v.lookTransport(b)
}

// extension skips the extension header at l4, and reports whether it is complete.
func (v *view) extension(b []byte) bool {
	switch v.protocol {
	case headerHop, headerRouting, headerFragment, headerAuth, headerDest, headerESP, headerNone:
		v.extensions = append(v.extensions, v.protocol)
	default:
		return false
	}
	if v.protocol == headerESP || v.protocol == headerNone || !has(b, v.l4, 4) {
		return false
	}
	size := (int(b[v.l4+1]) + 1) * 8
	switch v.protocol {
	case headerAuth:
		size = (int(b[v.l4+1]) + 2) * 4
	case headerFragment:
		size = 8
		v.fragmentAt = v.l4
		v.fragment, v.later = true, be16(b, v.l4+2)>>3 != 0
	}
	v.protocol = int(b[v.l4])
	v.l4 += size
	return !v.later
}

func (v *view) lookTransport(b []byte) {
	if v.later {
		return
	}
	switch v.protocol {
	case protocolTCP:
		v.tcp = has(b, v.l4, 14)
	case protocolUDP:
		v.udp = has(b, v.l4, 4)
	case protocolSCTP:
		v.sctp = has(b, v.l4, 4)
	case protocolICMP:
		v.icmp = v.ipv4 && has(b, v.l4, 2)
	case protocolICMPv6:
		if v.icmpv6 = v.ipv6 && has(b, v.l4, 2); v.icmpv6 {
			v.lookNeighbor(b)
		}
	}
}

// lookNeighbor finds the addresses in neighbour discovery (RFC 4861, 4.3 and 4.4).
func (v *view) lookNeighbor(b []byte) {
	kind := b[v.l4]
	if kind != neighborSolicit && kind != neighborAdvert || b[v.l4+1] != 0 || !has(b, v.l4+8, 16) {
		return
	}
	v.target = v.l4 + 8
	at := v.l4 + 24
	for n := 0; n < mostNeighborOpts && has(b, at, 2) && b[at+1] != 0; n++ {
		switch {
		case b[at] == 1 && b[at+1] == 1 && kind == neighborSolicit:
			v.sll = at + 2
		case b[at] == 2 && b[at+1] == 1 && kind == neighborAdvert:
			v.tll = at + 2
		}
		at += int(b[at+1]) * 8
	}
}
