package model

import (
	"encoding/binary"

	"baton/openflow"
)

// value returns the packet's value of a field, in the field's size; zeros if it has none.
func (p *state) value(f openflow.Field) []byte {
	out := make([]byte, f.Size())
	number := func(n uint64) {
		for i := len(out) - 1; i >= 0; i, n = i-1, n>>8 {
			out[i] = byte(n)
		}
	}
	from := func(there bool, at int) {
		if there && has(p.frame, at, len(out)) {
			copy(out, p.frame[at:])
		}
	}
	b, v := p.frame, look(p.frame)
	switch f {
	case openflow.FieldInPort, openflow.FieldInPhyPort:
		number(uint64(p.in))
	case openflow.FieldMetadata:
		number(p.metadata)
	case openflow.FieldTunnelID:
		number(p.tunnel)
	case openflow.FieldEthDst:
		from(true, 0)
	case openflow.FieldEthSrc:
		from(true, 6)
	case openflow.FieldEthType:
		number(uint64(v.etherType))
	case openflow.FieldVLANVID:
		if v.tags > 0 {
			number(uint64(be16(b, ethernetSize)&0xfff | 0x1000))
		}
	case openflow.FieldVLANPCP:
		if v.tags > 0 {
			number(uint64(b[ethernetSize] >> 5))
		}
	case openflow.FieldARPOp:
		from(v.arp, v.l3+6)
	case openflow.FieldARPSHA:
		from(v.arp, v.l3+8)
	case openflow.FieldARPSPA:
		from(v.arp, v.l3+14)
	case openflow.FieldARPTHA:
		from(v.arp, v.l3+18)
	case openflow.FieldARPTPA:
		from(v.arp, v.l3+24)
	case openflow.FieldMPLSLabel, openflow.FieldMPLSTC, openflow.FieldMPLSBOS:
		if v.mpls {
			entry := uint64(binary.BigEndian.Uint32(b[v.l3:]))
			number(map[openflow.Field]uint64{
				openflow.FieldMPLSLabel: entry >> 12, openflow.FieldMPLSTC: entry >> 9 & 7, openflow.FieldMPLSBOS: entry >> 8 & 1,
			}[f])
		}
	case openflow.FieldPBBISID:
		from(v.pbb, v.l3+1)
	default:
		v.ipValue(b, f, number, from)
	}
	return out
}

// ipValue is value for the fields of IP and beyond.
func (v *view) ipValue(b []byte, f openflow.Field, number func(uint64), from func(bool, int)) {
	ip := v.ipv4 || v.ipv6
	class := 0
	if v.ipv4 {
		class = int(b[v.l3+1])
	} else if v.ipv6 {
		class = be16(b, v.l3) >> 4 & 0xff
	}
	switch f {
	case openflow.FieldIPDSCP:
		number(uint64(class >> 2))
	case openflow.FieldIPECN:
		number(uint64(class & 3))
	case openflow.FieldIPProto:
		if ip {
			number(uint64(v.protocol))
		}
	case openflow.FieldIPv4Src:
		from(v.ipv4, v.l3+12)
	case openflow.FieldIPv4Dst:
		from(v.ipv4, v.l3+16)
	case openflow.FieldIPv6Src:
		from(v.ipv6, v.l3+8)
	case openflow.FieldIPv6Dst:
		from(v.ipv6, v.l3+24)
	case openflow.FieldIPv6Flabel:
		if v.ipv6 {
			number(uint64(binary.BigEndian.Uint32(b[v.l3:]) & 0xfffff))
		}
	case openflow.FieldIPv6Exthdr:
		number(extensionBits(v.extensions))
	case openflow.FieldTCPSrc:
		from(v.tcp, v.l4)
	case openflow.FieldTCPDst:
		from(v.tcp, v.l4+2)
	case openflow.FieldTCPFlags:
		if v.tcp {
			number(uint64(be16(b, v.l4+12) & 0xfff))
		}
	case openflow.FieldUDPSrc:
		from(v.udp, v.l4)
	case openflow.FieldUDPDst:
		from(v.udp, v.l4+2)
	case openflow.FieldSCTPSrc:
		from(v.sctp, v.l4)
	case openflow.FieldSCTPDst:
		from(v.sctp, v.l4+2)
	case openflow.FieldICMPv4Type:
		from(v.icmp, v.l4)
	case openflow.FieldICMPv4Code:
		from(v.icmp, v.l4+1)
	case openflow.FieldICMPv6Type:
		from(v.icmpv6, v.l4)
	case openflow.FieldICMPv6Code:
		from(v.icmpv6, v.l4+1)
	case openflow.FieldIPv6NDTarget:
		from(v.target > 0, v.target)
	case openflow.FieldIPv6NDSLL:
		from(v.sll > 0, v.sll)
	case openflow.FieldIPv6NDTLL:
		from(v.tll > 0, v.tll)
	}
}

// extensionBits is OXM_OF_IPV6_EXTHDR [7.2.3.8].
func extensionBits(list []int) uint64 {
	bit := map[int]uint64{headerNone: 1, headerESP: 2, headerAuth: 4, headerDest: 8, headerFragment: 16, headerRouting: 32, headerHop: 64}
	const repeated, unordered = 128, 256
	bits, last, dests := uint64(0), 0, 0
	for _, h := range list {
		// The order of RFC 8200, 4.1. Destination options occur in two positions.
		rank := map[int]int{headerHop: 1, headerDest: 2, headerRouting: 3, headerFragment: 4, headerAuth: 5, headerESP: 6, headerNone: 8}[h]
		if h == headerDest {
			if dests++; last >= 3 {
				rank = 7
			}
		}
		if bits&bit[h] != 0 && (h != headerDest || dests > 2) {
			bits |= repeated
		}
		if rank < last {
			bits |= unordered
		}
		bits |= bit[h]
		last = rank
	}
	return bits
}

// matches reports whether the packet matches.
func (p *state) matches(m openflow.Match) bool {
	for t, err := range m.All() {
		if err != nil {
			return false
		}
		for i, have := range p.value(t.Field) {
			mask := byte(0xff)
			if t.Masked {
				mask = t.Mask[i]
			}
			if (have^t.Value[i])&mask != 0 {
				return false
			}
		}
	}
	return true
}
