package router

import (
	"testing"

	"baton/packet"
	"baton/packet/packettest"
)

// keeping prepares a pool that keeps its clients' addresses, a client whose request is an upcall, and the leg 3 opened for it: it
// starts from the client's address and port.
func keeping(t *testing.T, f family) (*rig, *client, *surrogate) {
	t.Helper()
	k := newRig(t)
	k.tap()
	k.vip(f)
	k.must(k.SetPool(1, Pool{Policy: Upcall, Reuse: ReuseNever}))
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	k.want(packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest)), routerVerdictUPCALL, actRedirect)
	f.router = f.client
	s := k.opening(f, f.class(), func(l *Leg) { l.Router, l.Keep = f.client, true })
	return k, c, s
}

// up makes the surrogate accept the leg.
func (s *surrogate) up() {
	s.k.t.Helper()
	p := s.packet(packet.SYN|packet.ACK, "")
	p.Options = packet.Options{}.AppendMSS(s.f.mss).AppendSACKPermitted().AppendTimestamps(s.tsval, s.tsecr).AppendNOP(1).AppendWindowScale(7)
	s.seq++
	s.takes(s.k.want(packet.Build(p), routerVerdictLEG_UP, actRedirect))
	s.ts = true
}

// decided is user space's decision that the client's request goes over leg 3.
func (c *client) decided() {
	c.k.t.Helper()
	d := Decision{Surrogate: 1, Pool: 1, Method: uint8(routerMethodMETHOD_GET), Request: uint64(len(plainRequest)), Keep: true, Leg: 3}
	c.k.must(c.k.Decide(c.f.client, c.f.vip, c.seq, d))
}

// TestKeptAddress: the surrogate sees the client's address and port, over several requests; the leg is closed with its client.
func TestKeptAddress(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := keeping(t, f)
		events := k.events()
		s.up()
		events.want(Event{Up: true, Class: f.class(), Surrogate: 1, Splice: 3})
		if q := k.queued(1, f.class()); len(q) != 0 {
			t.Errorf("it waits for anybody: %v", q)
		}
		c.decided()
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		if got := k.splice(3); got.Flags&uint32(routerSpliceFlagSPLICE_SPOILT) == 0 || got.Client != tuple(f.client, f.vip) {
			t.Errorf("splice: %+v", got)
		}
		exchange(c, s, plainRequest, plainResponse, routerVerdictTO_SERVER)
		if n := k.surrogate(1); n.Idle[f.class()] != 0 || n.Fresh[f.class()] != 0 || n.Active != 1 {
			t.Errorf("counters: %+v", n)
		}
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect))
		c.takes(s.send(packet.ACK|packet.FIN, "", routerVerdictTO_CLIENT, actRedirect))
		s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
		events.want(Event{End: Closed, Class: f.class(), Band: BandNearest, Surrogate: 1, Splice: 3, Requests: 2})
	})
}

// TestKeptLegIsForItsClient: whatever user space decides, no other client gets the leg.
func TestKeptLegIsForItsClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, _, s := keeping(t, f)
		s.up()
		other := newClient(k, f.nth(1), f.usual())
		other.connect(routerVerdictSYN_ANSWERED)
		first := packet.Build(other.packet(packet.ACK|packet.PSH, plainRequest))
		k.want(first, routerVerdictUPCALL, actRedirect)
		other.decided()
		k.want(first, routerVerdictUPCALL, actRedirect) // there is no such leg for it
		k.must(k.PushIdle(1, f.class(), BandFresh, 3))
		k.must(k.SetPool(1, Pool{Policy: RoundRobin, Table: []uint16{1}}))
		third := newClient(k, f.nth(2), f.usual())
		third.connect(routerVerdictSYN_ANSWERED)
		k.want(packet.Build(third.packet(packet.ACK|packet.PSH, plainRequest)), routerVerdictDROP_RACE, actShot)
		if got := k.splice(3); State(got.State) != Idle || got.Client != (routerTuple{}) {
			t.Errorf("splice: %+v", got)
		}
		if q := k.queued(1, f.class()); len(q) != 0 {
			t.Errorf("it waits for anybody: %v", q)
		}
	})
}

// TestKeptLegHasGone: a decision for a leg that has been closed meanwhile is made again.
func TestKeptLegHasGone(t *testing.T) {
	k, c, s := keeping(t, families[0])
	s.up()
	c.decided()
	s.send(packet.ACK|packet.FIN, "", routerVerdictRESET_SENT, actRedirect)
	k.want(packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest)), routerVerdictUPCALL, actRedirect)
	if n := k.surrogate(1); n.Idle[families[0].class()] != 0 {
		t.Errorf("counters: %+v", n)
	}
}

// TestErrorsAboutKeptLegs: an ICMP error about a packet of the session is the client's, in its own numbers; of one about the leg before
// that, the client hears nothing, though it is addressed to it.
func TestErrorsAboutKeptLegs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := keeping(t, f)
		about := func(p packet.Spec) []byte {
			kind := transportErrors[f.client.Addr().Is4()][1]
			return packet.BuildICMP(packet.ICMPSpec{
				SrcMAC: surrogateMAC, DstMAC: routerBackMAC, Src: f.hop, Dst: f.client.Addr(), TTL: 60, Type: kind[0], Code: kind[1],
				Quote: packet.Build(p)[packet.EthernetSize:],
			})
		}
		sent := packet.Spec{Src: f.client, Dst: f.surrogate, Seq: s.ack - 1, Flags: packet.SYN}
		k.want(about(sent), routerVerdictCONSUMED, actShot)
		s.up()
		sent.Seq, sent.Ack, sent.Flags = s.ack, s.seq, packet.ACK
		k.want(about(sent), routerVerdictCONSUMED, actShot)
		c.decided()
		request := c.seq
		sent.Payload = []byte(plainRequest)
		s.takes(c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictHANDOFF, actRedirect))
		got := k.want(about(sent), routerVerdictICMP_TRANSLATED, actRedirect).parsed(t)
		packettest.Check(t, got.Bytes, packettest.Checksums())
		inner := append([]byte(nil), got.Bytes[:packet.EthernetSize]...)
		quoted, err := packet.Parse(append(inner, got.Bytes[got.Data:]...))
		if err != nil || quoted.Src != f.client || quoted.Dst != f.vip || quoted.TCP().Seq() != request {
			t.Errorf("it quotes a packet from %v to %v: %v", quoted.Src, quoted.Dst, err)
		}
	})
}
