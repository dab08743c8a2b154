// Package match compiles OpenFlow match fields into the form that the kernel compares: a block of bytes with a place for each field, and a
// mask of the same form.
//
// Fields that never occur in the same packet share a place: the addresses of ARP and IP, the ports of TCP and the types of ICMP. A match's
// prerequisites say which of them it means [7.2.3.8], so that blocks can be compared without knowing the fields.
package match

import (
	"encoding/binary"

	"baton/openflow"
)

// Size is the size of a block in bytes. The last 8 are not part of the packet.
const Size = 128

// Key holds a packet's fields, in network byte order (struct fields of bpf/forwarder/types.h).
type Key [Size]byte

// Match is the match of a flow entry: the bits of Key in Mask. All other bits of Key are zero, so that equal matches compare equal.
type Match struct{ Key, Mask Key }

// place is a field's location in a Key. Shorter values are right-aligned.
type place struct{ at, size int }

var places = map[openflow.Field]place{
	openflow.FieldMetadata:     {0, 8},
	openflow.FieldTunnelID:     {8, 8},
	openflow.FieldInPort:       {16, 4},
	openflow.FieldInPhyPort:    {16, 4}, // no port of ours is a logical one
	openflow.FieldIPv6Flabel:   {20, 4},
	openflow.FieldEthDst:       {24, 6},
	openflow.FieldEthSrc:       {30, 6},
	openflow.FieldEthType:      {36, 2},
	openflow.FieldVLANVID:      {38, 2},
	openflow.FieldMPLSLabel:    {40, 4},
	openflow.FieldPBBISID:      {40, 4},
	openflow.FieldMPLSTC:       {44, 1},
	openflow.FieldMPLSBOS:      {45, 1},
	openflow.FieldVLANPCP:      {46, 1},
	openflow.FieldIPECN:        {47, 1},
	openflow.FieldIPDSCP:       {48, 1},
	openflow.FieldIPProto:      {50, 2},
	openflow.FieldARPOp:        {50, 2},
	openflow.FieldIPv6Exthdr:   {52, 2},
	openflow.FieldTCPFlags:     {54, 2},
	openflow.FieldIPv4Src:      {56, 4},
	openflow.FieldARPSPA:       {56, 4},
	openflow.FieldIPv6Src:      {56, 16},
	openflow.FieldIPv4Dst:      {72, 4},
	openflow.FieldARPTPA:       {72, 4},
	openflow.FieldIPv6Dst:      {72, 16},
	openflow.FieldTCPSrc:       {88, 2},
	openflow.FieldUDPSrc:       {88, 2},
	openflow.FieldSCTPSrc:      {88, 2},
	openflow.FieldICMPv4Type:   {88, 2},
	openflow.FieldICMPv6Type:   {88, 2},
	openflow.FieldTCPDst:       {90, 2},
	openflow.FieldUDPDst:       {90, 2},
	openflow.FieldSCTPDst:      {90, 2},
	openflow.FieldICMPv4Code:   {90, 2},
	openflow.FieldICMPv6Code:   {90, 2},
	openflow.FieldARPSHA:       {92, 6},
	openflow.FieldIPv6NDSLL:    {92, 6},
	openflow.FieldARPTHA:       {98, 6},
	openflow.FieldIPv6NDTLL:    {98, 6},
	openflow.FieldIPv6NDTarget: {104, 16},
}

// Known reports whether the forwarder can match on a field.
func Known(f openflow.Field) bool { _, ok := places[f]; return ok }

// Place returns a field's location in a Key. Shorter values are right-aligned.
func Place(f openflow.Field) (at, size int, ok bool) {
	p, ok := places[f]
	return p.at, p.size, ok
}

// Of compiles m. Unknown fields are ignored: [openflow.Check] and [Known] have refused them.
func Of(m openflow.Match) Match {
	var b Match
	for t, err := range m.All() {
		p, ok := places[t.Field]
		if err != nil || !ok {
			continue
		}
		b.put(p, t)
	}
	return b
}

func (b *Match) put(p place, t openflow.TLV) {
	n := len(t.Value)
	if n == 0 || n > p.size {
		return
	}
	// An exact value is masked by the field's significant bits, so that it equals one with an explicit full mask.
	var exact [16]byte
	mask := t.Mask
	if !t.Masked {
		for i, left := n-1, t.Field.Bits(); i >= 0 && left > 0; i, left = i-1, left-8 {
			exact[i] = byte(1<<min(left, 8) - 1)
		}
		mask = exact[:n]
	}
	at := p.at + p.size - n
	for i := range n {
		b.Key[at+i] = b.Key[at+i]&^mask[i] | t.Value[i]&mask[i]
		b.Mask[at+i] |= mask[i]
	}
}

// Covers reports whether every packet that o matches is matched by b.
func (b *Match) Covers(o *Match) bool {
	for i := 0; i < Size; i += 8 {
		m := word(&b.Mask, i)
		if m&^word(&o.Mask, i) != 0 || (word(&b.Key, i)^word(&o.Key, i))&m != 0 {
			return false
		}
	}
	return true
}

// Overlaps reports whether some packet matches both.
func (b *Match) Overlaps(o *Match) bool {
	for i := 0; i < Size; i += 8 {
		if (word(&b.Key, i)^word(&o.Key, i))&word(&b.Mask, i)&word(&o.Mask, i) != 0 {
			return false
		}
	}
	return true
}

// Matches reports whether a packet with those fields matches.
func (b *Match) Matches(k *Key) bool {
	for i := 0; i < Size; i += 8 {
		if (word(&b.Key, i)^word(k, i))&word(&b.Mask, i) != 0 {
			return false
		}
	}
	return true
}

func word(k *Key, at int) uint64 { return binary.NativeEndian.Uint64(k[at:]) }
