package forwarder

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"baton/packet"
)

// closing is how far a connection is closed; the pure form of finned and rouses (bpf/forwarder/flows.h).
type closing struct {
	sent, received bool // a FIN
	active         int  // 1 or 0
}

// segment has a connection's next segment be any of those that come at its end, and returns how many more active flows its link has then, and
// whether the connection is over.
func (c *closing) segment(r *bindRig, op Op, p testPacket, link int, rnd *rand.Rand) (change int, over bool) {
	was, finned, out := c.active, c.sent || c.received, rnd.IntN(2) == 0
	p.flags = []packet.Flags{packet.RST, packet.ACK, packet.FIN | packet.ACK, packet.FIN | packet.ACK}[rnd.IntN(4)]
	p.size = 10 * rnd.IntN(2)
	c.sent = c.sent || out && p.flags.Has(packet.FIN)
	c.received = c.received || !out && p.flags.Has(packet.FIN)
	over = p.flags.Has(packet.RST) || c.sent && c.received
	switch {
	case over, p.flags.Has(packet.FIN) && !finned:
		c.active = 0
	case finned && p.size > 0:
		c.active = 1
	}
	if out {
		r.out(op, p)
	} else {
		r.reply(link, p, p.flags)
	}
	return c.active - was, over
}

// TestBindResting: from its first FIN on a connection is active again when there is payload, and never when it is closing.
func TestBindResting(t *testing.T) {
	const ack, fin, rst = packet.ACK, packet.FIN | packet.ACK, packet.RST
	type segment struct {
		out    bool
		flags  packet.Flags
		size   int
		active uint64 // then
	}
	const out, in = true, false
	tests := []struct {
		name     string
		segments []segment
	}{
		{"the host closes first", []segment{{out, ack, 100, 1}, {in, ack, 0, 1}, {out, fin, 0, 0}, {in, ack, 0, 0}, {in, fin, 0, 0}, {out, ack, 0, 0}}},
		{"the other side closes first", []segment{{in, ack, 100, 1}, {in, fin, 0, 0}, {out, ack, 0, 0}, {out, fin, 0, 0}, {in, ack, 0, 0}}},
		{"a download goes on", []segment{{out, fin, 0, 0}, {in, ack, 0, 0}, {in, ack, 1000, 1}, {out, ack, 0, 1}, {in, ack, 1, 1}, {in, fin, 0, 0}, {out, ack, 0, 0}}},
		{"an upload goes on", []segment{{in, fin, 0, 0}, {out, ack, 0, 0}, {out, ack, 1000, 1}, {in, ack, 0, 1}, {out, fin, 10, 0}}},
		{"a FIN with payload", []segment{{out, fin, 100, 0}, {in, ack, 0, 0}, {in, fin, 100, 0}, {out, ack, 100, 0}}},
		{"a FIN again", []segment{{out, fin, 0, 0}, {out, fin, 0, 0}, {in, ack, 0, 0}, {in, ack, 1, 1}, {out, fin, 0, 1}}},
		{"a FIN with payload again", []segment{{in, fin, 100, 0}, {in, fin, 100, 1}, {in, fin, 0, 1}, {out, fin, 0, 0}}},
		{"a RST after a FIN", []segment{{in, fin, 0, 0}, {out, ack, 9, 1}, {out, rst, 0, 0}, {in, ack, 9, 0}}},
		{"a RST after a FIN that is not the peer's", []segment{{out, fin, 0, 0}, {in, rst, 0, 0}, {in, ack, 9, 0}, {out, ack, 0, 0}, {in, ack, 9, 1}}},
	}
	r := newBindRig(t, 256)
	for _, v6 := range []bool{false, true} {
		r.group(bindHead, v6, 1)
		op := bindOp(bindHead, BindRoundRobin, 0)
		for n, tt := range tests {
			t.Run(fmt.Sprintf("%s, IPv6 %t", tt.name, v6), func(t *testing.T) {
				p := flowNumber(packet.ProtocolTCP, n, v6)
				before := r.port(0).Active
				r.out(op, p)
				r.reply(0, p, packet.SYN|packet.ACK)
				for i, s := range tt.segments {
					p.flags, p.size = s.flags, s.size
					if s.out {
						r.out(op, p)
					} else if !r.reply(0, p, s.flags) {
						t.Fatalf("segment %d is no reply", i)
					}
					if got := r.port(0).Active - before; got != s.active {
						t.Fatalf("after segment %d, %+v: %d active, want %d", i, s, got, s.active)
					}
				}
				p.flags = packet.RST
				r.out(op, p)
			})
		}
	}
	begun := flowNumber(packet.ProtocolTCP, 100, true)
	begun.flags = packet.FIN | packet.ACK
	if r.out(bindOp(bindHead, BindRoundRobin, 0), begun); r.port(0).Active != 0 {
		t.Error("a connection that is first seen closing is active")
	}
	begun.size = 1
	if r.reply(0, begun, packet.ACK); r.port(0).Active != 1 {
		t.Error("it is not when it goes on")
	}
}

// TestBindRestingSweep: a half-closed connection that goes on is active until it has been silent for 2 s, and then again with payload.
func TestBindRestingSweep(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1)
	op := bindOp(bindHead, BindRoundRobin, 0)
	p := flowNumber(packet.ProtocolTCP, 0, false)
	want := func(what string, active uint64) {
		t.Helper()
		r.sweep()
		if got := r.port(0).Active; got != active {
			t.Errorf("%s: %d active, want %d", what, got, active)
		}
	}
	r.out(op, p)
	r.reply(0, p, packet.SYN|packet.ACK)
	p.flags = packet.FIN | packet.ACK
	r.out(op, p)
	p.flags, p.size = packet.ACK, 1000
	r.reply(0, p, packet.ACK)
	want("half closed, and goes on", 1)
	r.ago(p, 3*second)
	want("silent", 0)
	p.size = 0
	r.out(op, p)
	want("an ACK", 0)
	p.size = 1000
	r.reply(0, p, packet.ACK)
	want("goes on again", 1)
}

// TestBindConnectsAnew: whoever closes first and connects anew at once, from another port, finds its link as idle as it is, though the other
// side has not closed yet.
func TestBindConnectsAnew(t *testing.T) {
	for _, method := range []uint8{BindLeast, BindEven, BindFastest} {
		t.Run(fmt.Sprint("method ", method), func(t *testing.T) {
			r := newBindRig(t, 256)
			r.group(bindHead, false, 1, 1)
			op := bindOp(bindHead, method, 0)
			open := []testPacket{flowNumber(packet.ProtocolTCP, 0, false), flowNumber(packet.ProtocolTCP, 1, false)}
			first, _ := r.out(op, open[0])
			if link, _ := r.out(op, open[1]); link != 1-first {
				t.Fatalf("both by link %d", link)
			}
			for n := range 20 {
				link := n / 3 % 2 // not by turns
				i := link ^ first
				p := open[i]
				p.flags = packet.FIN | packet.ACK
				r.out(op, p)
				r.reply(link, p, packet.ACK)
				open[i] = flowNumber(packet.ProtocolTCP, 2+n, false)
				if got, verdict := r.out(op, open[i]); got != link {
					t.Fatalf("connection %d: link %d (%s), want %d, which the one before it has left", n, got, verdict, link)
				}
			}
		})
	}
}

// TestBindPayload: what is payload is told by headers, not by the frame.
func TestBindPayload(t *testing.T) {
	r := newBindRig(t, 256)
	op := bindOp(bindHead, BindRoundRobin, 0)
	options := make([]byte, 12)
	for _, v6 := range []bool{false, true} {
		r.group(bindHead, v6, 1)
		for n, tt := range []struct {
			name    string
			spec    packet.Spec
			change  func(b []byte) []byte
			payload bool
		}{
			{"nothing", packet.Spec{}, nil, false},
			{"padding", packet.Spec{Padding: 30}, nil, false},
			{"padding and payload", packet.Spec{Payload: []byte{1}, Padding: 30}, nil, true},
			{"options", packet.Spec{Options: options}, nil, false},
			{"options and payload", packet.Spec{Options: options, Payload: []byte{1}}, nil, true},
			{"IP's options", ipOptions(v6), nil, false},
			{"IP's options and all", with(ipOptions(v6), packet.Spec{Options: options, Payload: []byte{1}, Padding: 3}), nil, true},
			{"no length", packet.Spec{Payload: make([]byte, 1000)}, func(b []byte) []byte {
				at := 14 + 2
				if v6 {
					at = 14 + 4
				}
				b[at], b[at+1] = 0, 0
				return b
			}, true},
			{"a tag", packet.Spec{Padding: 30}, tagged, false},
			{"a tag and payload", packet.Spec{Payload: []byte{1}}, tagged, true},
		} {
			p := flowNumber(packet.ProtocolTCP, n, v6)
			before := r.port(0).Active
			r.out(op, p)
			p.flags = packet.FIN | packet.ACK
			r.out(op, p)
			tt.spec.Src, tt.spec.Dst, tt.spec.Flags = p.src, p.dst, packet.ACK
			b := packet.Build(tt.spec)
			if tt.change != nil {
				b = tt.change(b)
			}
			if verdict, _ := r.send(internalPlace, op, b); verdict != "forwarded" {
				t.Fatalf("%s, IPv6 %t: %s", tt.name, v6, verdict)
			}
			if got := r.port(0).Active - before; got != map[bool]uint64{true: 1}[tt.payload] {
				t.Errorf("%s, IPv6 %t: %d are active", tt.name, v6, got)
			}
		}
		// a later fragment has no header of TCP
		p := flowNumber(packet.ProtocolTCP, 50, v6)
		p.flags, p.size, p.id = packet.ACK, 400, 77
		r.fragment(internalPlace, op, p, netip.Addr{})
		fin := p
		fin.flags, fin.size, fin.id = packet.FIN|packet.ACK, 0, 0
		r.out(op, fin)
		before := r.port(0).Active
		p.offset = fragmentSize
		r.fragment(internalPlace, op, p, netip.Addr{})
		if got := r.port(0).Active - before; got != 1 {
			t.Errorf("a later fragment, IPv6 %t: %d are active", v6, got)
		}
	}
}

// ipOptions are those of IPv4, or an extension header of IPv6.
func ipOptions(v6 bool) packet.Spec {
	if v6 {
		return packet.Spec{ExtensionType: 60, Extension: []byte{0, 1, 1, 12, 15: 0}}
	}
	return packet.Spec{IPOptions: []byte{1, 1, 1, 0, 0, 0, 0, 0}}
}

// with is a packet that has the transport of another.
func with(s, transport packet.Spec) packet.Spec {
	s.Options, s.Payload, s.Padding = transport.Options, transport.Payload, transport.Padding
	return s
}

// tagged is a frame in a VLAN.
func tagged(b []byte) []byte {
	return append(append(append([]byte{}, b[:12]...), 0x81, 0, 0, 5), b[12:]...)
}
