package router

import (
	"bytes"
	"strings"
	"testing"

	"baton/packet"
)

// TestRepeatedHead: a client that repeats its head repeats the fields, and nothing of the head is acknowledged before all of it is.
func TestRepeatedHead(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := marked(t, f, forwardedFor)
		begins := s.ack
		first := packet.Build(c.packet(packet.ACK|packet.PSH, post))
		whole := k.want(first, routerVerdictHANDOFF, actRedirect).parsed(t).Payload()
		head := packet.Seq(len(whole) - len("hello"))
		for _, part := range []packet.Seq{0, 1, head - 1} {
			s.ack = begins + part
			got := k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect).parsed(t)
			if got.TCP().Ack() != c.seq {
				t.Errorf("%d bytes of the head acknowledged: the client is told %d, want %d", part, got.TCP().Ack(), c.seq)
			}
		}
		again := k.want(packet.Build(c.packet(packet.ACK|packet.PSH, post)), routerVerdictTO_SERVER, actRedirect).parsed(t)
		if again.TCP().Seq() != begins || !bytes.Equal(again.Payload(), whole) || again.TCP().Checksum() != again.TransportChecksum() {
			t.Errorf("again %q at %d\nwant  %q at %d", again.Payload(), again.TCP().Seq(), whole, begins)
		}
		c.seq += packet.Seq(len(post))
		s.ack = begins + head
		got := k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect).parsed(t)
		if got.TCP().Ack() != c.seq-5 || k.splice(1).InsLen != 0 {
			t.Errorf("the head acknowledged: the client is told %d, want %d", got.TCP().Ack(), c.seq-5)
		}
		rest := c.packet(packet.ACK, "hello")
		rest.Seq -= 5
		if got := k.want(packet.Build(rest), routerVerdictTO_SERVER, actRedirect).parsed(t); got.TCP().Seq() != s.ack {
			t.Errorf("the body again at %d, want %d", got.TCP().Seq(), s.ack)
		}
	})
}

// TestAnotherHead: while a head may be lost, no other takes its place.
func TestAnotherHead(t *testing.T) {
	f := families[0]
	for name, tc := range map[string]struct {
		payload string
		from    packet.Seq
		want    routerVerdict
	}{
		"spoofed":               {"POST /a HTTP/1.1\r\nX-Real-Ip: 10\r\nContent-Length: 5\r\n\r\nhello", 0, routerVerdictRESET_SENT},
		"shorter body":          {strings.Replace(post, "Length: 5", "Length: 4", 1), 0, routerVerdictRESET_SENT},
		"longer head":           {strings.Replace(post, "Host: a", "Host: ab", 1), 0, routerVerdictRESET_SENT},
		"no head":               {strings.Repeat("x", len(post)), 0, routerVerdictRESET_SENT},
		"a part":                {post[:20], 0, routerVerdictRESET_SENT},
		"the rest":              {post[20:], 20, routerVerdictDROP_WINDOW},
		"the last line":         {post[len(post)-7:], packet.Seq(len(post) - 7), routerVerdictDROP_WINDOW},
		"in front":              {"x" + post, ^packet.Seq(0), routerVerdictTO_SERVER},                         // the first byte alone, which is old
		"another name":          {strings.Replace(post, "Host: a", "Host: b", 1), 0, routerVerdictRESET_SENT}, // of the same length
		"the body":              {"hello", packet.Seq(len(post) - 5), routerVerdictTO_SERVER},
		"a keepalive":           {"", ^packet.Seq(0), routerVerdictTO_SERVER},
		"an acknowledgement":    {"", packet.Seq(len(post)), routerVerdictTO_SERVER},
		"an old one":            {"", 0, routerVerdictTO_SERVER},
		"a keepalive's garbage": {"x", ^packet.Seq(0), routerVerdictTO_SERVER},
	} {
		t.Run(name, func(t *testing.T) {
			k, c, s := marked(t, f, forwardedFor)
			k.want(packet.Build(c.packet(packet.ACK|packet.PSH, post)), routerVerdictHANDOFF, actRedirect)
			p := c.packet(packet.ACK|packet.PSH, tc.payload)
			p.Seq += tc.from
			if r := k.run(packet.Build(p)); r.verdict != Verdict(tc.want) {
				t.Fatalf("got %v, want %v", r.verdict, Verdict(tc.want))
			}
			if dead := k.splice(1).State == uint8(Dead); dead != (tc.want == routerVerdictRESET_SENT) {
				t.Errorf("session over: %t", dead)
			}
			_ = s
		})
	}
}

// TestDamagedHead: a repeated head with a wrong checksum has no effect.
func TestDamagedHead(t *testing.T) {
	k, c, _ := marked(t, families[0], forwardedFor)
	p := c.packet(packet.ACK|packet.PSH, post)
	k.want(packet.Build(p), routerVerdictHANDOFF, actRedirect)
	p.Checksum = packet.SumWrong
	k.want(packet.Build(p), routerVerdictDROP_BAD_CHECKSUM, actShot)
	p.Checksum = packet.SumComplete
	k.want(packet.Build(p), routerVerdictTO_SERVER, actRedirect)
}

// TestResetWithinHead: of a head that the surrogate has in part, the client knows one number, and resets with that.
func TestResetWithinHead(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, part := range []packet.Seq{0, 1, 30, 60} {
			k, c, s := marked(t, f, forwardedFor)
			begins := s.ack
			k.want(packet.Build(c.packet(packet.ACK|packet.PSH, post)), routerVerdictHANDOFF, actRedirect)
			s.ack = begins + part
			k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect)
			got := k.want(packet.Build(c.packet(packet.RST, "")), routerVerdictTO_SERVER, actRedirect).parsed(t)
			if got.TCP().Seq() != s.ack || k.splice(1).State != uint8(Dead) {
				t.Errorf("%d bytes acknowledged: the reset has number %d, want %d; state %d", part, got.TCP().Seq(), s.ack, k.splice(1).State)
			}
		}
	})
}
