package model

import (
	"slices"
	"testing"

	"baton/openflow"
	"baton/packet"
)

// TestBindResting scripts how a connection ends, and when it is active meanwhile.
func TestBindResting(t *testing.T) {
	const ack, fin, rst = packet.ACK, packet.FIN | packet.ACK, packet.RST
	type segment struct {
		out    bool
		flags  packet.Flags
		bytes  int
		active bool // then
	}
	const out, in = true, false
	for _, tt := range []struct {
		name     string
		segments []segment
	}{
		{"closes first", []segment{{out, ack, 9, true}, {out, fin, 0, false}, {in, ack, 0, false}, {in, fin, 0, false}, {out, ack, 0, false}}},
		{"is closed", []segment{{in, ack, 9, true}, {in, fin, 9, false}, {out, ack, 0, false}, {out, fin, 0, false}}},
		{"goes on", []segment{{out, fin, 0, false}, {in, ack, 9, true}, {out, ack, 0, true}, {in, fin, 9, false}, {in, ack, 9, false}}},
		{"a FIN again", []segment{{out, fin, 0, false}, {out, fin, 0, false}, {out, fin, 9, true}, {out, fin, 0, true}}},
		{"a RST that is not the peer's", []segment{{out, fin, 0, false}, {in, rst, 0, false}, {in, ack, 9, false}, {out, ack, 0, false}, {in, ack, 9, true}}},
	} {
		for six := range 2 {
			h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1)
			us, here, them := at(internal[six], 40000), at(linkOf(six, 2), 40000), at(server[six], 443)
			h.out(tcp(us, them, packet.SYN))
			h.in(2, tcp(them, here, packet.SYN|packet.ACK))
			for i, s := range tt.segments {
				frame := packet.Spec{Src: us, Dst: them, Flags: s.flags, Options: make([]byte, 12), Payload: make([]byte, s.bytes)}
				if s.out {
					h.out(packet.Build(frame))
				} else {
					frame.Src, frame.Dst = them, here
					h.in(2, packet.Build(frame))
				}
				if f := h.Bindings.All()[0]; f.Active(h.Bindings.Now) != s.active {
					t.Errorf("%s: after segment %d: active %t", tt.name, i, !s.active)
				}
			}
		}
	}
}

// TestBindConnectsAnew: the link that a connection is about to leave counts as left, unless there is payload on it yet; silence ends that.
func TestBindConnectsAnew(t *testing.T) {
	h := newHost(t, openflow.ActionBind{Method: openflow.BindLeast}, 1, 1)
	us := func(n int) []byte { return tcp(at(internal[0], uint16(n)), at(server[0], 443), packet.SYN) }
	segment := func(n int, flags packet.Flags, bytes int) {
		h.out(packet.Build(packet.Spec{Src: at(internal[0], uint16(n)), Dst: at(server[0], 443), Flags: flags, Payload: make([]byte, bytes)}))
	}
	got := []openflow.PortNo{h.out(us(1)), h.out(us(2))}
	segment(2, packet.FIN|packet.ACK, 0)
	got = append(got, h.out(us(3)))
	segment(3, packet.FIN|packet.ACK, 0)
	got = append(got, h.out(us(4)))
	segment(3, packet.ACK, 9) // what is not over, though its side has closed
	got = append(got, h.out(us(5)))
	h.Bindings.Now += keepActive + 1
	segment(3, packet.ACK, 0) // rests again
	segment(1, packet.ACK, 0)
	got = append(got, h.out(us(6)))
	if want := []openflow.PortNo{2, 3, 3, 3, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("by ports %v, want %v", got, want)
	}
}
