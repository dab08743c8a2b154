package router

import (
	"net/netip"
	"strings"
	"testing"

	"baton/packet"
)

// TestFieldsFromNowOn: a session that began before its pool had fields holds its requests once one has them, so that none follows unseen and
// without.
func TestFieldsFromNowOn(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.tap()
		k.vip(f, func(v *VIP) { v.OnePool, v.Pool = true, 1 })
		pool := Pool{Policy: RoundRobin, Table: []uint16{1}}
		k.must(k.SetPool(1, pool))
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		s.takes(c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictHANDOFF, actRedirect))
		c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))

		pool.Edit.Fields = forwardedFor
		k.must(k.SetPool(1, pool))
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {ID: 3, MSS: 1400, OnePool: true, Pool: 1, Hold: true}}))
		got := s.takes(c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictTO_SERVER, actRedirect))
		if want := inserted(plainRequest, "X-Forwarded-For: "+f.client.Addr().String()+"\r\n"); string(got.Payload()) != want {
			t.Fatalf("the surrogate gets %q\nwant %q", got.Payload(), want)
		}
		k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect)
		early := packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest)) // ahead of the response
		k.want(early, routerVerdictDROP_EARLY, actShot)
		c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		says(c, s, plainRequest, plainResponse, routerVerdictTO_SERVER)
	})
}

// TestHeadBehindLostBody: a surrogate may answer before it has all of a body. If the rest is lost, the client repeats it in one packet with the
// next request, whose head is sent already: the surrogate gets the rest, and then the head, with its fields.
func TestHeadBehindLostBody(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := marked(t, f, forwardedFor)
		s.takes(c.send(packet.ACK|packet.PSH, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", routerVerdictHANDOFF, actRedirect))
		c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		rest, begins := c.seq, s.ack
		c.send(packet.ACK|packet.PSH, "world", routerVerdictTO_SERVER, actRedirect) // lost
		whole := c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictTO_SERVER, actRedirect).parsed(t)

		both := c.packet(packet.ACK|packet.PSH, "world"+plainRequest)
		both.Seq = rest
		got := k.want(packet.Build(both), routerVerdictTO_SERVER, actRedirect).parsed(t)
		if got.TCP().Seq() != begins || string(got.Payload()) != "world" || got.TCP().Checksum() != got.TransportChecksum() {
			t.Fatalf("the surrogate gets %q at %d, want the rest of the body at %d", got.Payload(), got.TCP().Seq(), begins)
		}
		s.ack = begins + packet.Seq(len("world"))
		told := k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect).parsed(t)
		if want := rest + packet.Seq(len("world")); told.TCP().Ack() != want {
			t.Fatalf("the client is told %d, want %d", told.TCP().Ack(), want)
		}
		again := c.packet(packet.ACK|packet.PSH, plainRequest)
		again.Seq = rest + packet.Seq(len("world"))
		got = k.want(packet.Build(again), routerVerdictTO_SERVER, actRedirect).parsed(t)
		if want := inserted(plainRequest, "X-Forwarded-For: "+f.client.Addr().String()+"\r\n"); got.TCP().Seq() != s.ack || string(got.Payload()) != want || string(whole.Payload()) != want {
			t.Fatalf("the surrogate gets %q at %d, want %q at %d", got.Payload(), got.TCP().Seq(), want, s.ack)
		}
	})
}

// TestDecidedBehindLostBody: the same for a request that user space has decided, and that has to wait for the rest, as it is for another surrogate.
// What comes behind it is not user space's to decide again, which would only send it back.
func TestDecidedBehindLostBody(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := marked(t, f, forwardedFor)
		k.must(k.SetPool(2, Pool{Policy: RoundRobin, Table: []uint16{2}}))
		k.idle(2, f, func(s *routerSplice) { s.Surrogate = 2 })
		s.takes(c.send(packet.ACK|packet.PSH, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", routerVerdictHANDOFF, actRedirect))
		c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		rest, begins := c.seq, s.ack
		c.send(packet.ACK|packet.PSH, "world", routerVerdictTO_SERVER, actRedirect) // lost

		options := strings.Replace(post, "POST", "PATCH", 1)
		head := packet.Build(c.packet(packet.ACK|packet.PSH, options[:len(options)-5]))
		k.want(head, routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 2, Pool: 2, Request: uint64(len(options))}))
		k.want(head, routerVerdictDROP_EARLY, actShot)
		behind := c.packet(packet.ACK|packet.PSH, "hello")
		behind.Seq += packet.Seq(len(options) - 5)
		k.want(packet.Build(behind), routerVerdictUPCALL, actRedirect) // and back, behind the head

		both := c.packet(packet.ACK|packet.PSH, "world"+options)
		both.Seq = rest
		got := k.want(packet.Build(both), routerVerdictTO_SERVER, actRedirect).parsed(t)
		if got.TCP().Seq() != begins || string(got.Payload()) != "world" || got.TCP().Checksum() != got.TransportChecksum() {
			t.Fatalf("the surrogate gets %q at %d, want the rest of the body at %d", got.Payload(), got.TCP().Seq(), begins)
		}
		s.ack = begins + packet.Seq(len("world"))
		k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect)
		k.want(packet.Build(c.packet(packet.ACK|packet.PSH, options)), routerVerdictMOVED, actRedirect)
	})
}
