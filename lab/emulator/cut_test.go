package emulator

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// packet checks a frame of one packet as a receiver would, and returns what it carries.
type packet struct {
	seq     uint32
	id      uint16
	flags   byte
	payload []byte
}

func readPacket(t *testing.T, f gsoFrame, frame []byte) packet {
	t.Helper()
	if frame[1] != gsoNone || binary.NativeEndian.Uint16(frame[4:]) != 0 {
		t.Fatalf("one packet with GSO type %d, size %d", frame[1], binary.NativeEndian.Uint16(frame[4:]))
	}
	frame = bytes.Clone(frame)
	complete(frame)
	if frame[0] != 0 {
		t.Error("the checksum is still to be completed")
	}
	b := frame[vnetLen+ethernetLen:]
	if f.vlan {
		b = b[vlanLen:]
	}
	p, protocol := packet{}, byte(protocolTCP)
	if f.udp {
		protocol = protocolUDP
	}
	l4 := 20
	if f.v6 {
		l4 = 40
		if got := int(binary.BigEndian.Uint16(b[4:])); got != len(b)-40 {
			t.Errorf("IPv6 payload length %d, want %d", got, len(b)-40)
		}
	} else {
		p.id = binary.BigEndian.Uint16(b[4:])
		if got := int(binary.BigEndian.Uint16(b[2:])); got != len(b) {
			t.Errorf("IPv4 total length %d, want %d", got, len(b))
		}
		if fold(sum(0, b[:20])) != 0xffff {
			t.Error("the IPv4 header's checksum is wrong")
		}
	}
	if fold(sum(pseudo(b, 0, len(b)-l4, protocol), b[l4:])) != 0xffff {
		t.Error("the transport checksum is wrong")
	}
	if f.udp {
		if got := int(binary.BigEndian.Uint16(b[l4+4:])); got != len(b)-l4 {
			t.Errorf("UDP length %d, want %d", got, len(b)-l4)
		}
		p.payload = b[l4+8:]
		return p
	}
	p.seq, p.flags = binary.BigEndian.Uint32(b[l4+4:]), b[l4+13]
	p.payload = b[l4+20+f.options:]
	return p
}

func TestCut(t *testing.T) {
	const all = tcpFIN | tcpPSH | tcpCWR | 0x10
	tests := []struct {
		name  string
		frame gsoFrame
		count int
	}{
		{"TCP over IPv4", gsoFrame{size: 1448, payload: 64000, seq: 0xffffff00, flags: all, options: 12}, 45},
		{"TCP over IPv6", gsoFrame{v6: true, size: 1428, payload: 14281, flags: all, options: 12}, 11},
		{"in a VLAN", gsoFrame{vlan: true, size: 1448, payload: 2896, flags: all, options: 12}, 2},
		{"UDP over IPv4", gsoFrame{udp: true, size: 1200, payload: 12001}, 11},
		{"UDP over IPv6", gsoFrame{udp: true, v6: true, size: 1200, payload: 2400}, 2},
		{"odd sizes", gsoFrame{size: 7, payload: 50, flags: all}, 8},
		{"one packet", gsoFrame{size: 1448, payload: 1448, flags: all}, 1},
		{"a byte more", gsoFrame{size: 1448, payload: 1449, flags: all}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame := tt.frame.build()
			p := divide(frame)
			if p.count != tt.count {
				t.Fatalf("%d packets, want %d", p.count, tt.count)
			}
			if p.count == 1 {
				return
			}
			whole := readWhole(t, tt.frame, p, frame)
			var singles []byte
			wire := 0
			for i := range p.count {
				one := p.cut(make([]byte, p.length(i, i+1)), frame, i, i+1)
				wire += len(one) - vnetLen
				got := readPacket(t, tt.frame, one)
				if !tt.frame.udp {
					if want := tt.frame.seq + uint32(i*tt.frame.size); got.seq != want {
						t.Errorf("packet %d: sequence number %d, want %d", i, got.seq, want)
					}
					want := tt.frame.flags
					if i > 0 {
						want &^= tcpCWR
					}
					if i < p.count-1 {
						want &^= tcpFIN | tcpPSH
					}
					if got.flags != want {
						t.Errorf("packet %d: flags %#x, want %#x", i, got.flags, want)
					}
				}
				if want := uint16(0xfffe + i); !tt.frame.v6 && got.id != want {
					t.Errorf("packet %d: identification %d, want %d", i, got.id, want)
				}
				singles = append(singles, got.payload...)
			}
			if !bytes.Equal(singles, whole) {
				t.Error("the packets do not carry the frame's payload")
			}
			if got := p.wire(frame); got != wire {
				t.Errorf("%d bytes on the wire, want %d", got, wire)
			}
			// A part of several packets, cut again, is the same packets.
			for from := 0; from+2 <= p.count; from += 2 {
				part := p.cut(make([]byte, p.length(from, from+2)), frame, from, from+2)
				q := divide(part)
				if q.count != 2 {
					t.Fatalf("a part of 2 packets has %d", q.count)
				}
				for i := range 2 {
					again := q.cut(make([]byte, q.length(i, i+1)), part, i, i+1)
					if direct := p.cut(make([]byte, maxFrame), frame, from+i, from+i+1); !bytes.Equal(again, direct) {
						t.Errorf("packet %d of a part differs from packet %d of the whole", i, from+i)
					}
				}
			}
			if same := p.cut(make([]byte, p.length(0, p.count)), frame, 0, p.count); !bytes.Equal(same, frame) && !tt.frame.v6 && !tt.frame.vlan {
				clear(same[vnetLen+ethernetLen+10 : vnetLen+ethernetLen+12]) // the frame's own IPv4 checksum was never filled in
				if !bytes.Equal(same, frame) {
					t.Error("the packets do not add up to the frame")
				}
			}
		})
	}
}

// TestCutOfForwarded: a frame that a host has only forwarded lies in one piece there, and says so.
func TestCutOfForwarded(t *testing.T) {
	frame := gsoFrame{size: 1448, payload: 2896, options: 12}.build()
	binary.NativeEndian.PutUint16(frame[2:], uint16(len(frame)-vnetLen))
	p := divide(frame)
	for i := range p.count {
		one := p.cut(make([]byte, p.length(i, i+1)), frame, i, i+1)
		if got := int(binary.NativeEndian.Uint16(one[2:])); got != p.headers {
			t.Errorf("packet %d of %d bytes has %d to be copied first, want its headers, %d", i, len(one)-vnetLen, got, p.headers)
		}
	}
}

func readWhole(t *testing.T, f gsoFrame, p packets, frame []byte) []byte {
	t.Helper()
	if len(frame) != vnetLen+p.headers+f.payload {
		t.Fatalf("headers of %d bytes in a frame of %d with a payload of %d", p.headers, len(frame), f.payload)
	}
	return frame[vnetLen+p.headers:]
}

func FuzzDivide(f *testing.F) {
	f.Add(gsoFrame{size: 1448, payload: 4000, options: 12}.build())
	f.Add(gsoFrame{v6: true, udp: true, size: 100, payload: 500}.build())
	f.Add(gsoFrame{udp: true, size: 1, payload: 3}.build()) // packets shorter than a TCP header
	f.Add(plain(60, 1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		p := divide(frame)
		if p.count == 1 {
			complete(append(make([]byte, 0, len(frame)+vnetLen), append(frame, make([]byte, vnetLen)...)...))
			return
		}
		total := 0
		for i := range p.count {
			one := p.cut(make([]byte, p.length(i, i+1)), frame, i, i+1)
			if len(one) > p.length(i, i+1) {
				t.Fatalf("packet %d: %d bytes, capacity %d", i, len(one), p.length(i, i+1))
			}
			complete(one)
			total += len(one) - vnetLen - p.headers
		}
		if total != len(frame)-vnetLen-p.headers {
			t.Fatalf("%d bytes of payload in %d packets, want %d", total, p.count, len(frame)-vnetLen-p.headers)
		}
	})
}

// TestDivideRefuses: malformed frames that a host with raw sockets may have sent.
func TestDivideRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(frame []byte) []byte
	}{
		{"TCP header shorter than itself", func(f []byte) []byte { f[vnetLen+ethernetLen+20+12] = 0x10; return f }},
		{"IPv6 header cut off by the transport's offset", func(f []byte) []byte { f[vnetLen+ethernetLen] = 0x60; return f }},
		{"transport beyond the frame", func(f []byte) []byte { binary.NativeEndian.PutUint16(f[6:], 60000); return f }},
		{"no size", func(f []byte) []byte { binary.NativeEndian.PutUint16(f[4:], 0); return f }},
		{"unknown type", func(f []byte) []byte { f[1] = 2; return f }},
		{"nothing to complete", func(f []byte) []byte { f[0] = 0; return f }},
		{"no Ethernet header", func(f []byte) []byte { return f[:vnetLen+4] }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame := tt.spoil(gsoFrame{size: 1000, payload: 5000}.build())
			if p := divide(frame); p.count != 1 {
				t.Errorf("%d packets, want the frame left whole", p.count)
			}
		})
	}
}
