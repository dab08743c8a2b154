package router

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"baton/datapath/kerneltest"
	"baton/packet"
	"baton/packet/packettest"
	"baton/splice"
)

// The errors that are translated, by family.
var transportErrors = map[bool][][2]uint8{
	true:  {{packet.ICMPv4Unreachable, packet.ICMPv4CodeFragNeeded}, {packet.ICMPv4Unreachable, 1}, {packet.ICMPv4TimeExceeded, 0}},
	false: {{packet.ICMPv6PacketTooBig, 0}, {packet.ICMPv6Unreachable, 1}, {packet.ICMPv6TimeExceeded, 0}},
}

// The kernel translates an error about any packet as the model does.
func TestKernelTranslatesErrorsAsTheModel(t *testing.T) {
	k := newRig(t)
	r := kerneltest.Rand(t)
	for _, f := range families {
		for _, toServer := range []bool{true, false} {
			name := f.name + " to client"
			if toServer {
				name = f.name + " to server"
			}
			t.Run(name, func(t *testing.T) {
				k.t = t
				outcomes := make(map[splice.Reason]int)
				for range modelCases / 2 {
					outcomes[k.translateError(r, f, toServer)]++
				}
				for _, reason := range []splice.Reason{splice.Translated, splice.TTL, splice.BadOptions, splice.SYN, splice.BadQuote, splice.Truncated} {
					if outcomes[reason] == 0 {
						t.Errorf("no case of %v", reason)
					}
				}
				if outcomes[splice.Translated] < modelCases/4 {
					t.Errorf("one-sided: %v", outcomes)
				}
			})
		}
	}
}

// flying puts exactly this packet in flight, towards the client or the surrogate.
func (s *routerSplice) flying(seq packet.Seq, toClient bool) {
	if toClient {
		s.RcvNxt = uint32(seq) + s.ToServerAck
		s.RcvAcked = s.RcvNxt
	} else {
		s.SndNxt, s.SndUna = uint32(seq), uint32(seq)
	}
}

func (k *rig) translateError(r *rand.Rand, f family, toServer bool) splice.Reason {
	t := k.t
	t.Helper()
	client, server := randomLegs(r, f)
	model := splice.New(client, server)
	// the quoted packet went the other way, as we sent it
	direction, receiver := model.ToClient, server
	if toServer {
		direction, receiver = model.ToServer, client
	}
	quoted := randomPacket(r, receiver)
	quoted.Src, quoted.Dst, quoted.Padding = receiver.Local, receiver.Peer, 0
	if r.IntN(20) == 0 {
		quoted.Flags |= packet.SYN
	}
	spec := packet.ICMPSpec{
		SrcMAC: receiver.PeerMAC, DstMAC: receiver.LocalMAC, Src: f.hop, Dst: receiver.Local.Addr(), TTL: uint8(1 + r.IntN(255)),
		MTU: r.Uint32() & 0xffff, Quote: packet.Build(quoted)[packet.EthernetSize:],
	}
	kind := transportErrors[f.client.Addr().Is4()][r.IntN(3)]
	spec.Type, spec.Code = kind[0], kind[1]
	if r.IntN(2) == 0 { // IPv4 routers may quote only 8 bytes of TCP; sometimes less than needed
		spec.Quote = spec.Quote[:min(len(spec.Quote), 20+r.IntN(120))]
	}
	if r.IntN(30) == 0 {
		spec.Dst = spec.Dst.Next()
	}
	if r.IntN(30) == 0 {
		spec.TTL = 1
	}
	s := spliceOf(client, server)
	s.flying(quoted.Seq, toServer)
	stray := r.IntN(10) == 0
	if stray { // acknowledged or unsent
		s.flying(quoted.Seq+packet.Seq(1-2*r.IntN(2)), toServer)
	}
	k.put(0, s)
	defer func() {
		k.must(k.FreeLeg(0, server.Peer, server.Local))
		k.must(k.maps.Flows.Delete(tuple(client.Peer, client.Local)))
	}()
	frame := packet.BuildICMP(spec)
	want := bytes.Clone(frame)
	reason := direction.TranslateICMP(want)
	var flags uint32
	if r.IntN(2) == 0 {
		flags = checksumComplete
	}
	got := k.runWith(frame, flags)
	verdict, action := routerVerdictICMP_TRANSLATED, uint32(actRedirect)
	switch {
	case reason == splice.Translated && stray:
		verdict, action, want = routerVerdictDROP_WINDOW, actShot, got.frame
	case reason == splice.Translated:
	case reason == splice.TTL || reason == splice.BadOptions:
		verdict, action = verdictOf[reason], actShot
	default:
		verdict, action = routerVerdictPASS, actPass
	}
	if got.verdict != Verdict(verdict) || got.action != action {
		t.Fatalf("got verdict %v, action %d; the model says %v\n%+v\n%+v", got.verdict, got.action, reason, spec, quoted)
	}
	if !bytes.Equal(got.frame, want) {
		t.Fatalf("%v, %+v\n%+v\nof   % x\ngot  % x\nwant % x", reason, spec, quoted, frame, got.frame, want)
	}
	return reason
}

// A message that is not an error about a session's packet is not touched, even to a VIP's address.
func TestOtherICMPPasses(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		sent := c.packet(packet.ACK, "")
		sent.Src, sent.Dst, sent.Seq, sent.Ack = sent.Dst, sent.Src, sent.Ack, sent.Seq
		quote := packet.Build(sent)[packet.EthernetSize:]
		kind := transportErrors[f.client.Addr().Is4()][0]
		base := packet.ICMPSpec{
			SrcMAC: clientMAC, DstMAC: routerMAC, Src: f.hop, Dst: f.vip.Addr(), Type: kind[0], Code: kind[1], MTU: 1300, Quote: quote,
		}
		k.want(packet.BuildICMP(base), routerVerdictICMP_TRANSLATED, actRedirect)
		for _, tc := range []struct {
			name   string
			change func(*packet.ICMPSpec)
		}{
			{"echo", func(s *packet.ICMPSpec) { s.Type = map[bool]uint8{true: 8, false: 128}[f.client.Addr().Is4()] }},
			{"redirect", func(s *packet.ICMPSpec) { s.Type = map[bool]uint8{true: 5, false: 137}[f.client.Addr().Is4()] }},
			{"nothing quoted", func(s *packet.ICMPSpec) { s.Quote = nil }},
			{"unknown session", func(s *packet.ICMPSpec) {
				other := sent
				other.Dst = netip.AddrPortFrom(other.Dst.Addr(), 1)
				s.Quote = packet.Build(other)[packet.EthernetSize:]
			}},
			{"what the client sent", func(s *packet.ICMPSpec) { s.Quote = packet.Build(c.packet(packet.ACK, ""))[packet.EthernetSize:] }},
			{"UDP", func(s *packet.ICMPSpec) {
				s.Quote = bytes.Clone(quote)
				s.Quote[map[bool]int{true: 9, false: 6}[f.client.Addr().Is4()]] = 17
			}},
		} {
			spec := base
			tc.change(&spec)
			frame := packet.BuildICMP(spec)
			if r := k.want(frame, routerVerdictPASS, actPass); !bytes.Equal(r.frame, frame) {
				t.Errorf("%s: the packet was changed", tc.name)
			}
		}
		// on an idle leg nobody is notified
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		k.want(packet.BuildICMP(base), routerVerdictPASS, actPass)
	})
}

// Path MTU discovery: the surrogate learns the MTU of the client's path, for exactly its own bytes.
func TestPacketTooBigReachesTheSurrogate(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		sent := s.packet(packet.ACK, plainResponse)
		r := k.want(packet.Build(sent), routerVerdictTO_CLIENT, actRedirect)
		kind := transportErrors[f.client.Addr().Is4()][0]
		e := k.want(packet.BuildICMP(packet.ICMPSpec{
			SrcMAC: clientMAC, DstMAC: routerMAC, Src: f.hop, Dst: f.vip.Addr(), Type: kind[0], Code: kind[1], MTU: 1300,
			Quote: r.frame[packet.EthernetSize:],
		}), routerVerdictICMP_TRANSLATED, actRedirect)
		packettest.Check(t, e.frame, packettest.Checksums())
		sent.TTL = s.packet(0, "").TTL
		got := e.parsed(t)
		if mtu := got.ICMP().MTU(got.Family); mtu != 1300 {
			t.Errorf("MTU: got %d, want 1300", mtu)
		}
		q, err := got.Quote()
		if err != nil || q.Src != f.surrogate || q.Dst != s.f.router || q.TCP().Seq() != s.seq || q.TCP().Ack() != s.ack {
			t.Errorf("quoted: %v, %v to %v, seq %d, ack %d", err, q.Src, q.Dst, q.TCP().Seq(), q.TCP().Ack())
		}
	})
}
