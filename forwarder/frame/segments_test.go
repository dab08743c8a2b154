package frame

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"baton/packet"
)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func TestSegments(t *testing.T) {
	const all = packet.FIN | packet.PSH | packet.CWR | packet.ACK
	tests := []struct {
		name string
		recipe
		size, count int
	}{
		{"TCP over IPv4", recipe{protocol: 6, payload: 64000, seq: 0xffffff00, id: 0xfffe, flags: all, tcp: stamps}, 1448, 45},
		{"TCP over IPv6", recipe{v6: true, protocol: 6, payload: 14281, flags: all, tcp: stamps}, 1428, 11},
		{"in a VLAN", recipe{tags: vlan, protocol: 6, payload: 2896, flags: all}, 1448, 2},
		{"behind labels", recipe{mpls: labels, protocol: 6, payload: 2897, flags: all}, 1448, 3},
		{"IPv4 options", recipe{options: routers, protocol: 6, payload: 3000, flags: all}, 1000, 3},
		{"IPv6 extension headers", recipe{v6: true, options: hop, protocol: 6, payload: 3000, flags: all}, 1000, 3},
		{"UDP over IPv4", recipe{protocol: protocolUDP, payload: 12001}, 1200, 11},
		{"UDP over IPv6", recipe{v6: true, protocol: protocolUDP, payload: 2400}, 1200, 2},
		{"odd sizes", recipe{protocol: 6, payload: 50, flags: all}, 7, 8},
		{"a byte each", recipe{protocol: protocolUDP, payload: 3}, 1, 3},
		{"a byte more", recipe{protocol: 6, payload: 1449, flags: all}, 1448, 2},
		{"one packet", recipe{protocol: 6, payload: 1448, flags: all}, 1448, 1},
		{"no size", recipe{protocol: 6, payload: 1448, flags: all}, 0, 1},
		{"SCTP", recipe{protocol: protocolSCTP, payload: 3000}, 1000, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := tt.build(partial)
			payload := tt.transport()[len(tt.transport())-tt.payload:]
			n := 0
			for got := range Segments(bytes.Clone(whole), tt.size) {
				// What the segment must be is what a host would have sent as one packet.
				one, at := tt.recipe, n*tt.size
				one.payload = len(payload) - at
				if tt.count > 1 {
					one.payload = min(one.payload, tt.size)
					one.id += uint16(n)
					one.seq += uint32(at)
				}
				if n > 0 {
					one.flags &^= packet.CWR
				}
				if n < tt.count-1 {
					one.flags &^= packet.FIN | packet.PSH
				}
				want := one.build(none)
				copy(want[len(want)-one.payload:], payload[at:])
				resum(want, one)
				if !bytes.Equal(got, want) {
					t.Fatalf("packet %d:\n%x, want\n%x", n, got, want)
				}
				n++
			}
			if n != tt.count {
				t.Errorf("%d packets, want %d", n, tt.count)
			}
		})
	}
}

// resum gives a frame of one packet its checksum by the recipe's own arithmetic.
func resum(b []byte, r recipe) {
	l, ok := find(b, false)
	if !ok {
		panic(fmt.Sprintf("no packet: %x", b))
	}
	segment := b[l.l4:]
	addresses := b[l.l3+12 : l.l3+20]
	if l.v6 {
		addresses = b[l.l3+8 : l.l3+40]
	}
	n := len(segment)
	r.setSum(segment, right, plainSum(addresses, []byte{0, byte(r.protocol), byte(n >> 8), byte(n)}))
}

func TestSegmentsStopsWhenAsked(t *testing.T) {
	whole := recipe{protocol: 6, payload: 5000}.build(partial)
	n := 0
	for range Segments(whole, 100) {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d packets after the third", n)
	}
}

func TestSegmentsLeavesTheFrame(t *testing.T) {
	whole := recipe{protocol: 6, payload: 5000}.build(partial)
	before := bytes.Clone(whole)
	for range Segments(whole, 100) {
	}
	if !bytes.Equal(whole, before) {
		t.Error("the frame has changed")
	}
}

func FuzzSegments(f *testing.F) {
	for _, r := range recipes {
		f.Add(r.build(partial), uint16(10))
	}
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		l, found := find(b, size > 0)
		headers := l.headers(b, found)
		left := len(b) - headers
		n := 0
		for one := range Segments(bytes.Clone(b), int(size)) {
			if n++; len(one) == len(b) {
				left = 0
				break
			}
			left -= len(one) - headers
			if len(one) <= headers || len(one) > headers+int(size) {
				t.Fatalf("packet %d: %d bytes with headers of %d and a size of %d", n, len(one), headers, size)
			}
			p, ok := find(one, false)
			if !ok || p.l4 != l.l4 || p.end != len(one) {
				t.Fatalf("packet %d is not one: %x", n, one)
			}
			if !verifies(one, p) {
				t.Fatalf("packet %d has a wrong checksum: %x", n, one)
			}
			if !p.v6 && packet.Sum(one[p.l3:p.l4], 0) != 0xffff {
				t.Fatalf("packet %d has a wrong IPv4 checksum: %x", n, one)
			}
		}
		if left != 0 || n == 0 {
			t.Fatalf("%d bytes are missing from %d packets", left, n)
		}
	})
}

func BenchmarkComplete(b *testing.B) {
	for _, payload := range []int{10, 1448} {
		b.Run(fmt.Sprint(payload), func(b *testing.B) {
			whole := recipe{protocol: 6, payload: payload}.build(partial)
			work := bytes.Clone(whole)
			for b.Loop() {
				copy(work, whole)
				Complete(work)
			}
		})
	}
}

func BenchmarkSegments(b *testing.B) {
	whole := recipe{protocol: 6, payload: 64000}.build(partial)
	b.SetBytes(int64(len(whole)))
	for b.Loop() {
		for range Segments(whole, 1448) {
		}
	}
}
