package router

import (
	"testing"

	"github.com/cilium/ebpf"

	"baton/packet"
	"baton/packet/packettest"
)

// On an idle leg keepalives are answered, and what ends it is reported.
func TestIdleLeg(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name    string
			change  func(*packet.Spec)
			verdict routerVerdict
			action  uint32
			end     End
		}{
			{"keepalive", func(p *packet.Spec) { p.Seq-- }, routerVerdictLEG_ACKED, actRedirect, 0},
			{"keepalive with a byte", func(p *packet.Spec) { p.Seq--; p.Payload = []byte{0} }, routerVerdictDROP_OLD_BYTES, actRedirect, 0},
			{"SYN-ACK again", func(p *packet.Spec) { p.Seq--; p.Flags |= packet.SYN }, routerVerdictLEG_ACKED, actRedirect, 0},
			{"ACK", func(p *packet.Spec) {}, routerVerdictCONSUMED, actShot, 0},
			{"FIN", func(p *packet.Spec) { p.Flags |= packet.FIN }, routerVerdictRESET_SENT, actRedirect, ClosedIdle},
			{"data", func(p *packet.Spec) { p.Payload = []byte("HTTP/1.1 408 ") }, routerVerdictRESET_SENT, actRedirect, ClosedIdle},
			{"RST", func(p *packet.Spec) { p.Flags = packet.RST }, routerVerdictCONSUMED, actShot, ResetIdle},
			{"RST with another number", func(p *packet.Spec) { p.Flags = packet.RST; p.Seq++ }, routerVerdictCONSUMED, actShot, 0},
			{"FIN with a wrong checksum", func(p *packet.Spec) { p.Flags |= packet.FIN; p.Checksum = packet.SumWrong }, routerVerdictDROP_BAD_CHECKSUM, actShot, 0},
			{"RST with a wrong checksum", func(p *packet.Spec) { p.Flags = packet.RST; p.Checksum = packet.SumWrong }, routerVerdictDROP_BAD_CHECKSUM, actShot, 0},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k := newRig(t)
				s := k.idle(1, f)
				events := k.events()
				p := s.packet(packet.ACK, "")
				tc.change(&p)
				r := k.want(packet.Build(p), tc.verdict, tc.action)
				if tc.action == actRedirect && tc.end == 0 {
					packettest.Check(t, r.frame, packettest.Checksums(),
						packettest.TCP(packettest.Flags(packet.ACK), packettest.Seq(s.ack), packettest.Ack(s.seq)))
				}
				idle, state := 1, Idle
				if tc.end != 0 {
					idle, state = 0, Dead
					events.want(Event{End: tc.end, Class: f.class(), Surrogate: 1, Splice: 1})
				} else {
					events.none()
				}
				if got := State(k.splice(1).State); got != state {
					t.Errorf("leg: got %v, want %v", got, state)
				}
				if n := k.surrogate(1); n.Idle[f.class()] != idle {
					t.Errorf("idle: got %d, want %d", n.Idle[f.class()], idle)
				}
			})
		}
	})
}

// An ACK on behalf of a leg without window scale does not close its window.
func TestIdleLegWithoutWindowScale(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		s := k.idle(1, f, func(s *routerSplice) { s.Flags &^= uint32(routerSpliceFlagSPLICE_SERVER_WSCALE) })
		p := s.packet(packet.ACK, "")
		p.Seq--
		r := k.want(packet.Build(p), routerVerdictLEG_ACKED, actRedirect)
		packettest.Check(t, r.frame, packettest.TCP(packettest.Window(idleWindow)))
	})
}

// A leg whose queue is full is not leaked.
func TestFullQueue(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		for n := uint32(20); n < 20+testLegs; n++ {
			k.must(k.PushIdle(1, f.class(), BandNearest, n))
		}
		events := k.events()
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		events.want(Event{End: Retired, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 1})
		if got := State(k.splice(1).State); got != Dead {
			t.Errorf("leg: got %v, want dead", got)
		}
		if n := k.surrogate(1); n.Active != 0 || n.Idle[f.class()] != 0 {
			t.Errorf("counters: %+v", n)
		}
		if q := k.queued(1, f.class()); len(q) != testLegs {
			t.Errorf("queue: %v", q)
		}
	})
}

// Legs that have died in the queue are skipped.
func TestDeadLegsInTheQueue(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		for n := uint32(2); n < 6; n++ {
			k.idle(n, f)
			p := packet.Build(k.idle(n, f).packet(packet.RST, ""))
			k.queued(1, f.class())
			k.want(p, routerVerdictCONSUMED, actShot)
		}
		for n := uint32(2); n < 6; n++ {
			k.must(k.putIdle(1, f.class(), n))
		}
		k.must(k.maps.Surrogates.Update(uint32(1), &routerSurrogate{}, ebpf.UpdateAny))
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		if n := k.surrogate(1); n.Active != 1 || n.Idle[f.class()] != 0 || n.Popped[f.class()] != 1 {
			t.Errorf("counters: %+v", n)
		}
	})
}
