package router

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"baton/datapath/kerneltest"
	"baton/packet"
	"baton/packet/packettest"
)

// held is twoPools with requests routed separately.
func held(t *testing.T, f family) (k *rig, c *client, one, two *surrogate) {
	t.Helper()
	k, c, one, two = twoPools(t, f)
	k.vip(f, func(v *VIP) { v.OnePool, v.Hold = false, true })
	post := uint8(routerMethodMETHOD_POST)
	get := uint8(routerMethodMETHOD_GET)
	k.must(k.SetRoutes(nil, []Route{{VIP: 3, Method: post, Prefix: "/", Pool: 1}, {VIP: 3, Method: get, Prefix: "/", Pool: 1}, {VIP: 3, Method: get, Prefix: "/b", Pool: 2}}))
	k.aged(1, 0, func(s *routerSplice) {
		s.Flags |= uint32(routerSpliceFlagSPLICE_HOLD | routerSpliceFlagSPLICE_ROUTED)
	})
	return k, c, one, two
}

// answered sends and acknowledges the response.
func answered(c *client, s *surrogate) {
	c.k.t.Helper()
	c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
}

// goesAsFar requires that a packet was sent with only this payload, and counts it as sent.
func (c *client) goesAsFar(s *surrogate, p packet.Spec, payload string, verdict routerVerdict) {
	c.k.t.Helper()
	r := c.k.want(packet.Build(p), verdict, actRedirect)
	packettest.Check(c.k.t, r.frame, packettest.Checksums(), packettest.Payload([]byte(payload)), packettest.TCP(packettest.Flags(p.Flags&^packet.FIN)))
	s.takes(r)
	c.seq += packet.Seq(len(payload))
}

// Two requests in one packet go to the proxy. If user space has the first spliced anyway, the second is held until the first has
// its response, and then routed.
func TestPipelinedRequestWaits(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, flags := range []packet.Flags{packet.ACK | packet.PSH, packet.ACK | packet.FIN} {
			for _, odd := range []string{"", "x"} {
				k, c, one, two := held(t, f)
				k.tap()
				first := strings.Replace(plainRequest, "/a", "/a"+odd, 1)
				k.want(packet.Build(c.packet(flags, first+otherRequest)), routerVerdictUPCALL, actRedirect)
				k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(first))}))
				c.goesAsFar(one, c.packet(flags, first+otherRequest), first, routerVerdictTO_SERVER)
				k.unchanged(packet.Build(c.packet(flags, otherRequest)), routerVerdictDROP_EARLY, actShot) // too soon
				fin := c.packet(packet.ACK|packet.FIN, "")
				fin.Seq += packet.Seq(len(otherRequest))
				k.unchanged(packet.Build(fin), routerVerdictDROP_EARLY, actShot) // it follows that
				answered(c, one)
				two.takes(c.send(flags&^packet.FIN, otherRequest, routerVerdictMOVED, actRedirect))
			}
		}
	})
}

// The first request of a client is held as well.
func TestPipelinedFirstRequestWaits(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, _, _, _ := held(t, f)
		k.tap()
		s := k.idle(3, f)
		c := newClient(k, f.nth(9), f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		k.want(packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest+otherRequest)), routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(c.f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(plainRequest))}))
		c.goesAsFar(s, c.packet(packet.ACK|packet.PSH, plainRequest+otherRequest), plainRequest, routerVerdictHANDOFF)
		if got := k.splice(3); routerFraming(got.Request) != routerFramingFRAMING_DONE || got.SndNxt != uint32(s.ack) {
			t.Errorf("splice: %+v", got)
		}
	})
}

// A request sent before its client has acknowledged the last response cannot move yet, and must not go to the old surrogate.
func TestHeldRequestDoesNotStay(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, two := held(t, f)
		one.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		one.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect) // in flight
		k.unchanged(packet.Build(c.packet(packet.ACK, otherRequest)), routerVerdictDROP_EARLY, actShot)
		c.ack += packet.Seq(len(plainResponse))
		one.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
	})
}

// A reordered packet of the body is limited to the body as well.
func TestRequestBehindAGapWaits(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, _ := held(t, f)
		const post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
		one.takes(c.send(packet.ACK, post, routerVerdictTO_SERVER, actRedirect))
		p := c.packet(packet.ACK, "cd"+otherRequest)
		p.Seq += 2
		r := k.want(packet.Build(p), routerVerdictTO_SERVER, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.Payload([]byte("cd")))
	})
}

// The end of a body followed by the next request in one packet, with bytes seen before, or with a gap.
func TestRequestBehindABodyWaits(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		const body = "0123456789"
		post := fmt.Sprintf("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body))
		for _, at := range []int{0, 3, 9} {
			k, c, one, two := held(t, f)
			one.takes(c.send(packet.ACK, post+body[:at], routerVerdictTO_SERVER, actRedirect))
			c.goesAsFar(one, c.packet(packet.ACK, body[at:]+otherRequest), body[at:], routerVerdictTO_SERVER)
			again := c.packet(packet.ACK, body+otherRequest)
			again.Seq -= packet.Seq(len(body))
			r := k.want(packet.Build(again), routerVerdictTO_SERVER, actRedirect)
			packettest.Check(t, r.frame, packettest.Checksums(), packettest.Payload([]byte(body)))
			answered(c, one)
			r = k.want(packet.Build(again), routerVerdictTO_SERVER, actRedirect) // still: it does not start a request
			packettest.Check(t, r.frame, packettest.Payload([]byte(body)))
			two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
		}
	})
}

// The same for a chunked body. A malformed one ends the session: user space answers the client.
func TestRequestBehindChunksWaits(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		start := func() (*rig, *client, *surrogate, *surrogate, string) {
			k, c, one, two := held(t, f)
			k.tap()
			post := "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
			k.want(packet.Build(c.packet(packet.ACK, post)), routerVerdictUPCALL, actRedirect)
			k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(post)), Chunked: true}))
			return k, c, one, two, post
		}
		_, c, one, two, post := start()
		c.goesAsFar(one, c.packet(packet.ACK, post+"1\r\nx\r\n0\r\n\r\n"+otherRequest), post+"1\r\nx\r\n0\r\n\r\n", routerVerdictTO_SERVER)
		answered(c, one)
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))

		_, c, one, two, post = start()
		one.takes(c.send(packet.ACK, post, routerVerdictTO_SERVER, actRedirect))
		one.takes(c.send(packet.ACK, "3\r\nabc\r", routerVerdictTO_SERVER, actRedirect))
		c.goesAsFar(one, c.packet(packet.ACK, "\n0\r\n\r\n"+otherRequest), "\n0\r\n\r\n", routerVerdictTO_SERVER)
		answered(c, one)
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))

		k, c, one, _, post := start()
		one.takes(c.send(packet.ACK, post, routerVerdictTO_SERVER, actRedirect))
		events := k.events()
		k.want(packet.Build(c.packet(packet.ACK, "2 xyz\r\nab\r\n0\r\n\r\n"+otherRequest)), routerVerdictDROP_MALFORMED, actShot)
		k.ended(t, f, events, Dead, Malformed, 2)
		if got, err := k.Splice(1); err != nil || !got.Unanswered {
			t.Errorf("splice: %+v, %v", got, err)
		}

		k, c, _, _, post = start()
		k.want(packet.Build(c.packet(packet.ACK, post+"2 xyz\r\n")), routerVerdictDROP_EARLY, actShot) // not what was routed
	})
}

// A trimmed packet gets our checksum, and walked bytes are trusted: a wrong checksum must be found before.
func TestHeldBytesWithAWrongChecksum(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, _ := held(t, f)
		one.takes(c.send(packet.ACK, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", routerVerdictTO_SERVER, actRedirect))
		wrong := c.packet(packet.ACK, "abcd"+otherRequest)
		wrong.Checksum = packet.SumWrong
		k.unchanged(packet.Build(wrong), routerVerdictDROP_BAD_CHECKSUM, actShot)
		c.goesAsFar(one, c.packet(packet.ACK, "abcd"+otherRequest), "abcd", routerVerdictTO_SERVER)

		k, c, one, _ = held(t, f)
		k.tap()
		post := "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		k.want(packet.Build(c.packet(packet.ACK, post)), routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(post)), Chunked: true}))
		one.takes(c.send(packet.ACK, post, routerVerdictTO_SERVER, actRedirect))
		wrong = c.packet(packet.ACK, "0\r\n\r\n")
		wrong.Checksum = packet.SumWrong
		k.unchanged(packet.Build(wrong), routerVerdictDROP_BAD_CHECKSUM, actShot)
		one.takes(c.send(packet.ACK, "1\r\nx\r\n0\r\n\r\n", routerVerdictTO_SERVER, actRedirect))
	})
}

// After an upgrade that the surrogate declines, requests are routed again; after one that it accepts, all passes.
func TestUpgrade(t *testing.T) {
	const upgrade = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	eachFamily(t, func(t *testing.T, f family) {
		start := func() (*rig, *client, *surrogate, *surrogate) {
			k, c, one, two := held(t, f)
			k.tap()
			k.want(packet.Build(c.packet(packet.ACK, upgrade)), routerVerdictUPCALL, actRedirect)
			k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(upgrade)), Upgrade: true}))
			one.takes(c.send(packet.ACK, upgrade, routerVerdictTO_SERVER, actRedirect))
			k.unchanged(packet.Build(c.packet(packet.ACK, otherRequest)), routerVerdictDROP_EARLY, actShot) // not before that is known
			return k, c, one, two
		}
		_, c, one, two := start()
		answered(c, one)
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))

		k, c, one, _ := start()
		c.takes(one.send(packet.ACK, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", routerVerdictTO_CLIENT, actRedirect))
		one.takes(c.send(packet.ACK, otherRequest, routerVerdictTO_SERVER, actRedirect))
		c.takes(one.send(packet.ACK, "\x81\x02hi", routerVerdictTO_CLIENT, actRedirect))
		if got := k.splice(1); routerFraming(got.Request) != routerFramingFRAMING_OPAQUE {
			t.Errorf("splice: %+v", got)
		}
	})
}

// A response that cannot be tracked does not open a way around the routes. Its client does not wait forever.
func TestHeldBehindAnOpaqueResponse(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, answer := range []string{"HTTP/1.1 101 Why\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "nonsense\r\n\r\n"} {
			k, c, one, _ := held(t, f)
			one.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
			one.send(packet.ACK, answer, routerVerdictTO_CLIENT, actRedirect)
			k.unchanged(packet.Build(c.packet(packet.ACK, otherRequest)), routerVerdictDROP_EARLY, actShot) // has not received all of it
			c.ack += packet.Seq(len(answer))
			one.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
			k.unchanged(packet.Build(c.packet(packet.ACK, otherRequest)), routerVerdictDROP_EARLY, actShot) // more may come
			k.aged(1, time.Second+time.Millisecond)
			events := k.events()
			r := k.want(packet.Build(c.packet(packet.ACK, otherRequest)), routerVerdictRESET_SENT, actRedirect)
			packettest.Check(t, r.frame, packettest.Src(f.vip), packettest.TCP(packettest.Flags(packet.RST), packettest.Seq(c.ack)))
			k.ended(t, f, events, Dead, Cut, 2)
		}
	})
}

// A GSO packet is not trimmed: its sender retransmits single segments, which are.
func TestOffloadedPipelinedRequests(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f, func(v *VIP) { v.Hold = true })
		w := k.wires()
		client, server := f.legs()
		s := spliceOf(client, server)
		s.ToServer.Ifindex, s.ToClient.Ifindex = uint32(w.Out.Ifindex), uint32(w.In.Ifindex)
		s.Flags |= uint32(routerSpliceFlagSPLICE_HOLD | routerSpliceFlagSPLICE_ROUTED)
		s.Request, s.Response, s.RequestLeft = uint8(routerFramingFRAMING_BODY), uint8(routerFramingFRAMING_HEAD), 1000
		k.put(0, s)
		spec := f.fromClient(strings.Repeat("x", 3000))
		spec.Checksum = packet.SumPartial
		frame := packet.Build(spec)
		before := k.counts()
		w.Send(partial(f, frame, 1400), frame)
		spec.Payload = bytes.Repeat([]byte("x"), 1400)
		frame = packet.Build(spec)
		w.Send(partial(f, frame, 0), frame)
		h, got := w.Receive()
		if after := k.counts(); after[routerVerdictDROP_EARLY]-before[routerVerdictDROP_EARLY] != 1 {
			t.Error("the packet of many segments was not dropped")
		}
		parsed, err := packet.Parse(got)
		if err != nil || len(parsed.Payload()) != 1000 || h.Flags&kerneltest.VnetNeedsCsum == 0 {
			t.Errorf("left with %d bytes, %+v, %v", len(parsed.Payload()), h, err)
		}
		if sum := packet.PseudoHeader(parsed.Src.Addr(), parsed.Dst.Addr(), packet.ProtocolTCP, parsed.End-parsed.L4); parsed.TCP().Checksum() != sum {
			t.Errorf("sum of the pseudo header: got %#04x, want %#04x", parsed.TCP().Checksum(), sum)
		}
	})
}
