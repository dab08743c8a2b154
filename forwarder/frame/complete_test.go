package frame

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"baton/packet"
)

func TestComplete(t *testing.T) {
	for _, tt := range recipes {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.build(right)
			for _, from := range []sum{right, partial} {
				b := tt.build(from)
				if Complete(b); !bytes.Equal(b, want) {
					t.Errorf("completed from %d:\n%x, want\n%x", from, b, want)
				}
			}
			spoilt := tt.build(wrong)
			b := bytes.Clone(spoilt)
			if Complete(b); !bytes.Equal(b, spoilt) {
				t.Errorf("a wrong checksum was touched:\n%x, was\n%x", b, spoilt)
			}
		})
	}
}

func TestCompleteLeavesAlone(t *testing.T) {
	edit := func(r recipe, change func(b []byte)) []byte {
		b := r.build(partial)
		change(b)
		return b
	}
	tcp := recipe{protocol: packet.ProtocolTCP, payload: 20}
	tests := []struct {
		name  string
		frame []byte
	}{
		{"nothing", nil},
		{"addresses alone", make([]byte, 12)},
		{"an Ethernet header", tcp.build(partial)[:14]},
		{"ARP", edit(tcp, func(b []byte) { b[13] = 6 })},
		{"UDP without a checksum", recipe{protocol: protocolUDP, payload: 20}.build(none)},
		{"ICMP", recipe{protocol: packet.ProtocolICMP, payload: 20}.build(none)},
		{"first fragment", recipe{protocol: packet.ProtocolTCP, payload: 20, fragment: 0x2000}.build(partial)},
		{"later fragment", recipe{protocol: protocolUDP, payload: 20, fragment: 3}.build(partial)},
		{"IPv6 fragment", recipe{v6: true, options: []byte{6, 0, 0, 1, 0, 0, 0, 1}, extended: 44, protocol: 6}.build(partial)},
		{"cut short", tcp.build(partial)[:60]},
		{"longer header than packet", edit(tcp, func(b []byte) { b[14] = 0x4f; binary.BigEndian.PutUint16(b[16:], 40) })},
		{"version 5", edit(tcp, func(b []byte) { b[14] = 0x55 })},
		{"TCP header shorter than itself", edit(tcp, func(b []byte) { b[14+20+12] = 0x40 })},
		{"TCP header longer than its packet", edit(tcp, func(b []byte) { b[14+20+12] = 0xf0 })},
		{"UDP length beyond the packet", edit(recipe{protocol: protocolUDP, payload: 20}, func(b []byte) { b[14+20+5] = 60 })},
		{"endless extension header", edit(recipe{v6: true, options: []byte{6, 0, 1, 4, 0, 0, 0, 0}, protocol: 6},
			func(b []byte) { b[55] = 255 })},
		{"SNAP of another organization", edit(recipe{tags: inSNAP, protocol: packet.ProtocolTCP}, func(b []byte) { b[19] = 0x0c })},
		{"SNAP in SNAP", recipe{tags: slices.Concat(inSNAP, inSNAP), protocol: packet.ProtocolTCP}.build(partial)},
		{"SNAP that is cut", recipe{tags: inSNAP, protocol: packet.ProtocolTCP}.build(partial)[:21]},
		{"labels without a bottom", edit(recipe{mpls: labels, protocol: 6}, func(b []byte) { b[20] = 0 })[:22]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := bytes.Clone(tt.frame)
			if Complete(b); !bytes.Equal(b, tt.frame) {
				t.Errorf("became\n%x, was\n%x", b, tt.frame)
			}
		})
	}
}

func TestInsertVLAN(t *testing.T) {
	inner := recipe{tags: vlan, protocol: packet.ProtocolTCP, payload: 30}
	outer := inner
	outer.tags = double
	outer.tags = append([]byte{0x88, 0xa8, 0x20, 5}, vlan...)
	want := outer.build(right)
	for _, room := range []int{0, 4} {
		b := append(make([]byte, 0, 200+room), inner.build(partial)...)
		b = InsertVLAN(b[:len(b):len(b)+room], etherTypeVLANOuter, 0x2005)
		Complete(b)
		if !bytes.Equal(b, want) {
			t.Errorf("room for %d:\n%x, want\n%x", room, b, want)
		}
	}
	if got := InsertVLAN([]byte{1, 2}, etherTypeVLAN, 1); len(got) != 2 {
		t.Errorf("two bytes became %x", got)
	}
}

func FuzzComplete(f *testing.F) {
	for _, r := range recipes {
		f.Add(r.build(partial))
		f.Add(r.build(wrong))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		Complete(b)
		again := bytes.Clone(b)
		if Complete(again); !bytes.Equal(again, b) && !partialTwice(b) {
			t.Errorf("completed twice:\n%x, once\n%x", again, b)
		}
		changed := 0
		for i := range b {
			if b[i] != before[i] {
				changed++
			}
		}
		if changed > 4 {
			t.Errorf("%d bytes changed:\n%x, was\n%x", changed, b, before)
		}
		if changed == 0 {
			return
		}
		if l, ok := find(b, false); !ok || !verifies(b, l) {
			t.Errorf("completed to a wrong checksum: %x", b)
		}
	})
}

// partialTwice: the right checksum of a packet may by chance be its pseudo header's sum too.
func partialTwice(b []byte) bool {
	l, ok := find(b, false)
	return ok && verifies(b, l)
}

// verifies adds up as a receiver does.
func verifies(b []byte, l layout) bool {
	segment := b[l.l4:l.end]
	if l.protocol == protocolSCTP {
		crc := binary.LittleEndian.Uint32(segment[8:])
		zeroed := bytes.Clone(segment)
		clear(zeroed[8:12])
		return crc == crcOf(zeroed)
	}
	if l.protocol == protocolUDP {
		segment = segment[:binary.BigEndian.Uint16(segment[4:])]
	}
	addresses := b[l.l3+12 : l.l3+20]
	if l.v6 {
		addresses = b[l.l3+8 : l.l3+40]
	}
	n := len(segment)
	return plainSum(addresses, []byte{0, byte(l.protocol), byte(n >> 8), byte(n)}, segment) == 0xffff
}
