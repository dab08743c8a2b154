package model

import (
	"encoding/binary"
	"slices"

	"baton/openflow"
	"baton/packet"
)

// change executes an action on the packet's bytes or pipeline fields, and reports whether the packet has the header for it.
func (p *state) change(a openflow.Action) bool {
	switch a := a.(type) {
	case openflow.ActionSetField:
		for t := range a.Field.All() {
			return p.setField(t.Field, t.Value)
		}
	case openflow.ActionPushVLAN:
		p.pushVLAN(a.EtherType)
	case openflow.ActionPopVLAN:
		p.popVLAN()
	case openflow.ActionPushMPLS:
		return p.pushMPLS(a.EtherType)
	case openflow.ActionPopMPLS:
		return p.popMPLS(a.EtherType)
	case openflow.ActionPushPBB:
		p.pushPBB(a.EtherType)
	case openflow.ActionPopPBB:
		return p.popPBB()
	case openflow.ActionSetMPLSTTL:
		return p.labelTTL(func(uint8) uint8 { return a.TTL })
	case openflow.ActionSetNWTTL:
		v := look(p.frame)
		return p.networkTTL(v.l3, v.ipv4, v.ipv6, a.TTL)
	case openflow.ActionCopyTTLOut:
		inner, ok := p.innerTTL()
		return ok && p.labelTTL(func(uint8) uint8 { return inner })
	case openflow.ActionCopyTTLIn:
		return p.copyTTLIn()
	case openflow.ActionSetQueue:
	default:
		p.handoff(a)
	}
	return true
}

// ttl returns the TTL of the outermost label, or of IP. ok is false if there is none.
func (p *state) ttl(label bool) (ttl uint8, ok bool) {
	v := look(p.frame)
	switch {
	case label && v.mpls:
		return p.frame[v.l3+3], true
	case !label && v.ipv4:
		return p.frame[v.l3+8], true
	case !label && v.ipv6:
		return p.frame[v.l3+7], true
	}
	return 0, false
}

// setField writes a header field or a pipeline field [7.2.5].
func (p *state) setField(f openflow.Field, value []byte) bool {
	v := look(p.frame)
	all := sumIP | sumPseudo
	// into writes whole bytes, bits those of the word at an offset that are in mask.
	into := func(there bool, at, sums int) bool {
		return there && has(p.frame, at, len(value)) && p.keeping(sums, func(b []byte) { copy(b[at:], value) })
	}
	bits := func(there bool, at int, mask uint32, shift int) bool {
		return there && p.keeping(0, func(b []byte) {
			n := uint32(0)
			for _, c := range value {
				n = n<<8 | uint32(c)
			}
			binary.BigEndian.PutUint32(b[at:], binary.BigEndian.Uint32(b[at:])&^mask|n<<shift&mask)
		})
	}
	switch f {
	case openflow.FieldTunnelID:
		p.tunnel = binary.BigEndian.Uint64(value)
		return true
	case openflow.FieldEthDst:
		return into(true, 0, 0)
	case openflow.FieldEthSrc:
		return into(true, 6, 0)
	case openflow.FieldEthType:
		return into(true, v.l3-2, 0)
	case openflow.FieldVLANVID:
		return v.tags > 0 && p.setTag(0x0fff, be16(value, 0)&0x0fff)
	case openflow.FieldVLANPCP:
		return v.tags > 0 && p.setTag(0xe000, int(value[0])<<13)
	case openflow.FieldIPDSCP:
		return p.setClass(0xfc, value[0]<<2)
	case openflow.FieldIPECN:
		return p.setClass(0x03, value[0])
	case openflow.FieldIPProto:
		if v.ipv6 {
			return len(v.extensions) == 0 && into(true, v.l3+6, sumPseudo)
		}
		return into(v.ipv4, v.l3+9, all)
	case openflow.FieldIPv4Src:
		return into(v.ipv4, v.l3+12, all)
	case openflow.FieldIPv4Dst:
		return into(v.ipv4, v.l3+16, all)
	case openflow.FieldIPv6Src:
		return into(v.ipv6, v.l3+8, sumPseudo)
	case openflow.FieldIPv6Dst:
		return into(v.ipv6, v.l3+24, sumPseudo)
	case openflow.FieldIPv6Flabel:
		return bits(v.ipv6, v.l3, 0x000fffff, 0)
	case openflow.FieldTCPSrc:
		return into(v.tcp, v.l4, sumL4)
	case openflow.FieldTCPDst:
		return into(v.tcp, v.l4+2, sumL4)
	case openflow.FieldUDPSrc:
		return into(v.udp, v.l4, sumL4)
	case openflow.FieldUDPDst:
		return into(v.udp, v.l4+2, sumL4)
	case openflow.FieldSCTPSrc:
		return into(v.sctp, v.l4, sumL4)
	case openflow.FieldSCTPDst:
		return into(v.sctp, v.l4+2, sumL4)
	case openflow.FieldICMPv4Type:
		return into(v.icmp, v.l4, sumL4)
	case openflow.FieldICMPv4Code:
		return into(v.icmp, v.l4+1, sumL4)
	case openflow.FieldICMPv6Type:
		return into(v.icmpv6, v.l4, sumL4)
	case openflow.FieldICMPv6Code:
		return into(v.icmpv6, v.l4+1, sumL4)
	case openflow.FieldIPv6NDTarget:
		return into(v.target > 0, v.target, sumL4)
	case openflow.FieldIPv6NDSLL:
		return into(v.sll > 0, v.sll, sumL4)
	case openflow.FieldIPv6NDTLL:
		return into(v.tll > 0, v.tll, sumL4)
	case openflow.FieldARPOp:
		return into(v.arp, v.l3+6, 0)
	case openflow.FieldARPSHA:
		return into(v.arp, v.l3+8, 0)
	case openflow.FieldARPSPA:
		return into(v.arp, v.l3+14, 0)
	case openflow.FieldARPTHA:
		return into(v.arp, v.l3+18, 0)
	case openflow.FieldARPTPA:
		return into(v.arp, v.l3+24, 0)
	case openflow.FieldMPLSLabel:
		return bits(v.mpls, v.l3, 0xfffff000, 12)
	case openflow.FieldMPLSTC:
		return bits(v.mpls, v.l3, 0x00000e00, 9)
	case openflow.FieldMPLSBOS:
		return bits(v.mpls, v.l3, 0x00000100, 8)
	case openflow.FieldPBBISID:
		return bits(v.pbb, v.l3, 0x00ffffff, 0)
	}
	return false
}

// setTag writes the masked bits of the outermost tag.
func (p *state) setTag(mask, value int) bool {
	binary.BigEndian.PutUint16(p.frame[ethernetSize:], uint16(be16(p.frame, ethernetSize)&^mask|value&mask))
	return true
}

// setClass writes the masked bits of IP's DSCP and ECN byte.
func (p *state) setClass(mask, value uint8) bool {
	v := look(p.frame)
	return (v.ipv4 || v.ipv6) && p.keeping(sumIP, func(b []byte) {
		if v.ipv4 {
			b[v.l3+1] = b[v.l3+1]&^mask | value
			return
		}
		word := be16(b, v.l3)&^(int(mask)<<4) | int(value)<<4
		binary.BigEndian.PutUint16(b[v.l3:], uint16(word))
	})
}

// labelTTL replaces the TTL of the outermost label.
func (p *state) labelTTL(by func(uint8) uint8) bool {
	v := look(p.frame)
	if v.mpls {
		p.frame[v.l3+3] = by(p.frame[v.l3+3])
	}
	return v.mpls
}

// networkTTL replaces the TTL or hop limit of IP at an offset.
func (p *state) networkTTL(at int, ipv4, ipv6 bool, ttl uint8) bool {
	switch {
	case ipv6:
		p.frame[at+7] = ttl
	case ipv4:
		word := []byte{ttl, p.frame[at+9]}
		check := packet.UpdateChecksum(uint16(be16(p.frame, at+10)), p.frame[at+8:at+10], word)
		copy(p.frame[at+8:], word)
		binary.BigEndian.PutUint16(p.frame[at+10:], check)
	}
	return ipv4 || ipv6
}

// behind parses what follows the outermost label: another label, or IP by its version, with at least TTL and checksum.
func (p *state) behind() (at int, label, ipv4, ipv6 bool) {
	v := look(p.frame)
	at = v.l3 + 4
	if !v.mpls {
		return at, false, false, false
	}
	if p.frame[v.l3+2]&1 == 0 {
		return at, has(p.frame, at, 4), false, false
	}
	if !has(p.frame, at, 12) {
		return at, false, false, false
	}
	return at, false, p.frame[at]>>4 == 4, p.frame[at]>>4 == 6
}

func (p *state) innerTTL() (ttl uint8, ok bool) {
	at, label, ipv4, ipv6 := p.behind()
	switch {
	case label:
		return p.frame[at+3], true
	case ipv4:
		return p.frame[at+8], true
	case ipv6:
		return p.frame[at+7], true
	}
	return 0, false
}

func (p *state) copyTTLIn() bool {
	at, label, ipv4, ipv6 := p.behind()
	outer, ok := p.ttl(true)
	if !ok {
		return false
	}
	if label {
		p.frame[at+3] = outer
		return true
	}
	return p.networkTTL(at, ipv4, ipv6, outer)
}

// pushVLAN pushes a tag, with the values of the outermost one [7.2.5].
func (p *state) pushVLAN(etherType uint16) {
	tag := []byte{byte(etherType >> 8), byte(etherType), 0, 0}
	if look(p.frame).tags > 0 {
		copy(tag[2:], p.frame[ethernetSize:ethernetSize+2])
	}
	p.frame = slices.Insert(p.frame, 12, tag...)
}

// popVLAN pops the outermost tag. A packet without one is unchanged.
func (p *state) popVLAN() {
	if look(p.frame).tags > 0 {
		p.frame = slices.Delete(p.frame, 12, 16)
	}
}

const mplsSize = 4

// lengthen adds to a frame's length field in front of a SNAP header, and reports whether the result is valid.
func (p *state) lengthen(v *view, by int) bool {
	if v.length == 0 {
		return true
	}
	n := be16(p.frame, v.length) + by
	if n < 0 || n >= leastType {
		return false
	}
	binary.BigEndian.PutUint16(p.frame[v.length:], uint16(n))
	return true
}

// pushMPLS pushes a label behind the tags: a copy of the existing label, or one with IP's TTL.
func (p *state) pushMPLS(etherType uint16) bool {
	v := look(p.frame)
	if !p.lengthen(&v, mplsSize) {
		return false
	}
	label := []byte{0, 0, 1, 0}
	switch {
	case v.mpls:
		copy(label, p.frame[v.l3:])
		label[2] &^= 1
	case v.ipv4:
		label[3] = p.frame[v.l3+8]
	case v.ipv6:
		label[3] = p.frame[v.l3+7]
	}
	binary.BigEndian.PutUint16(p.frame[v.l3-2:], etherType)
	p.frame = slices.Insert(p.frame, v.l3, label...)
	return true
}

func (p *state) popMPLS(etherType uint16) bool {
	v := look(p.frame)
	if !v.mpls || !p.lengthen(&v, -mplsSize) {
		return false
	}
	p.cut(v.l3, mplsSize)
	binary.BigEndian.PutUint16(p.frame[v.l3-2:], etherType)
	return true
}

// shortest is the minimum length of an Ethernet frame without FCS (IEEE 802.3, 4A.2.3.2.4), tags not counted.
const shortest = 60

// cut removes n bytes at an offset. The frame stays padded to Ethernet's minimum.
func (p *state) cut(at, n int) {
	least := shortest
	if look(p.frame).tags > 0 {
		least += 4
	}
	pad := len(p.frame) >= least
	p.frame = slices.Delete(p.frame, at, at+n)
	if pad && len(p.frame) < least {
		p.frame = append(p.frame, make([]byte, least-len(p.frame))...)
	}
}

// pushPBB pushes a backbone header with the frame's addresses. An existing service tag provides its I-SID.
func (p *state) pushPBB(etherType uint16) {
	v := look(p.frame)
	head := slices.Clone(p.frame[:12])
	head = append(head, byte(etherType>>8), byte(etherType), 0, 0, 0, 0)
	if v.pbb {
		copy(head[15:], p.frame[v.l3+1:v.l3+4])
	}
	p.frame = append(head, p.frame...)
}

// popPBB pops the backbone header, which is not in a SNAP header. One tag in front of it stays.
func (p *state) popPBB() bool {
	v := look(p.frame)
	if !v.pbb || v.tags > 1 || v.length > 0 || !has(p.frame, v.l3+4, ethernetSize) {
		return false
	}
	tag := slices.Clone(p.frame[12 : v.l3-2])
	p.frame = slices.Delete(p.frame, 12, v.l3-2)
	p.cut(0, ethernetSize+4)
	p.frame = slices.Insert(p.frame, 12, tag...)
	return true
}
