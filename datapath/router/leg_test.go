package router

import (
	"fmt"
	"testing"

	"baton/datapath"
	"baton/packet"
	"baton/packet/packettest"
)

// opening returns leg 3 of surrogate 1, whose SYN is in flight.
func (k *rig) opening(f family, class uint8, change ...func(*Leg)) *surrogate {
	k.t.Helper()
	const iss = 0xfffffffe
	tsval := datapath.Clock() + 0x7fff0000
	k.must(k.makeQueue(1, class))
	k.must(k.makeQueue(1, class&^1))
	leg := Leg{Number: 3, Surrogate: 1, Class: class, Server: f.surrogate, Router: f.router, ISS: iss, Ifindex: 1, TSval: tsval}
	for _, c := range change {
		c(&leg)
	}
	k.must(k.OpenLeg(leg))
	return &surrogate{k: k, f: f, number: 3, seq: 777, ack: iss + 1, tsval: 5000, tsecr: tsval}
}

// Whatever options the surrogate accepts, the handshake completes, and the leg is in the matching pool.
func TestLegIsEstablished(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for bits := range 16 {
			ts, sack, wscale, offered := bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
			t.Run(fmt.Sprintf("timestamps=%t SACK=%t wscale=%t offered=%t", ts, sack, wscale, offered), func(t *testing.T) {
				k := newRig(t)
				class := f.class()
				if !offered {
					class &^= 1
				}
				s := k.opening(f, class)
				events := k.events()
				synack := s.packet(packet.SYN|packet.ACK, "")
				synack.Options = packet.Options{}.AppendMSS(1300)
				if sack {
					synack.Options = synack.Options.AppendSACKPermitted()
				}
				if ts {
					synack.Options = synack.Options.AppendTimestamps(s.tsval, s.tsecr)
				}
				if wscale {
					synack.Options = synack.Options.AppendNOP(1).AppendWindowScale(15)
				}
				s.seq++
				r := k.want(packet.Build(synack), routerVerdictLEG_UP, actRedirect)
				window := uint16(idleWindow)
				if wscale {
					window >>= OurWscale
				}
				packettest.Check(t, r.frame, packettest.MACs(routerBackMAC, surrogateMAC), packettest.Checksums(),
					packettest.TCP(packettest.Flags(packet.ACK), packettest.Ack(s.seq), packettest.Window(window)))
				got := s.takes(r)
				want := class
				if !ts {
					want &^= 1
				}
				both := ts && offered
				if _, ecr, ok := got.TCP().Options().Timestamps(); ok != both || ok && ecr != s.tsval {
					t.Errorf("timestamps: got %t, echo %d, want %t, echo %d", ok, ecr, both, s.tsval)
				}
				events.want(Event{Up: true, Class: want, Surrogate: 1, Splice: 3})
				if q := k.queued(1, want); len(q) != 1 || q[0] != 3 {
					t.Errorf("queue: got %v", q)
				}
				k.must(k.putIdle(1, want, 3))
				sp, err := k.Splice(3)
				if err != nil || sp.State != Idle || sp.ServerMSS != 1300 || sp.Timestamps != both || sp.Class != want ||
					sp.SndNxt != uint32(s.ack) || sp.RcvNxt != uint32(s.seq) {
					t.Errorf("leg: %+v, %v", sp, err)
				}
				if n := k.surrogate(1); n.Idle[want] != 1 {
					t.Errorf("counters: %+v", n)
				}
				// the ACK was lost
				s.takes(k.want(packet.Build(synack), routerVerdictLEG_ACKED, actRedirect))
				if n := k.surrogate(1); n.Idle[want] != 1 {
					t.Errorf("counters: %+v", n)
				}
				if !both {
					return
				}
				k.vip(f)
				s.ts = true
				if !sack || !wscale {
					s.tsval++
				}
				c := newClient(k, f, f.usual())
				c.connect(routerVerdictSYN_ANSWERED)
				exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
			})
		}
	})
}

func TestLegIsNotEstablished(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name    string
			change  func(*packet.Spec)
			verdict routerVerdict
			action  uint32
			dead    bool
		}{
			{"refused", func(p *packet.Spec) { p.Flags = packet.RST | packet.ACK }, routerVerdictCONSUMED, actShot, true},
			{"RST about another session", func(p *packet.Spec) { p.Flags = packet.RST }, routerVerdictDROP_STALE, actShot, false},
			{"RST with a wrong checksum", func(p *packet.Spec) { p.Flags = packet.RST | packet.ACK; p.Checksum = packet.SumWrong }, routerVerdictDROP_BAD_CHECKSUM, actShot, false},
			{"SYN-ACK with a wrong checksum", func(p *packet.Spec) { p.Checksum = packet.SumWrong }, routerVerdictDROP_BAD_CHECKSUM, actShot, false},
			{"SYN-ACK of another SYN", func(p *packet.Spec) { p.Ack-- }, routerVerdictRESET_SENT, actRedirect, false},
			{"challenge ACK of an old session", func(p *packet.Spec) { p.Flags, p.Ack = packet.ACK, 1000 }, routerVerdictRESET_SENT, actRedirect, false},
			{"ACK", func(p *packet.Spec) { p.Flags = packet.ACK }, routerVerdictDROP_STALE, actShot, false},
			{"SYN", func(p *packet.Spec) { p.Flags = packet.SYN }, routerVerdictDROP_STALE, actShot, false},
			{"bad options", func(p *packet.Spec) { p.Options = packet.Options{2, 9, 0, 0} }, routerVerdictDROP_BAD_OPTIONS, actShot, false},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k := newRig(t)
				s := k.opening(f, f.class())
				events := k.events()
				p := s.packet(packet.SYN|packet.ACK, "")
				p.Options = packet.Options{}.AppendMSS(1460)
				tc.change(&p)
				r := k.want(packet.Build(p), tc.verdict, tc.action)
				if tc.verdict == routerVerdictRESET_SENT {
					packettest.Check(t, r.frame, packettest.Checksums(), packettest.TCP(packettest.Flags(packet.RST), packettest.Seq(p.Ack)))
				}
				want := Opening
				if tc.dead {
					want = Dead
					events.want(Event{End: Refused, Class: f.class(), Surrogate: 1, Splice: 3})
				} else if tc.verdict == routerVerdictRESET_SENT {
					e := events.next() // its times have no meaning
					if e == nil || !e.Stale || e.Splice != 3 || e.Surrogate != 1 || e.Class != f.class() {
						t.Errorf("event %+v", e)
					}
				} else {
					events.none()
				}
				if got := State(k.splice(3).State); got != want {
					t.Errorf("leg: got %v, want %v", got, want)
				}
				if q := k.queued(1, f.class()); len(q) != 0 {
					t.Errorf("queue: %v", q)
				}
				if n := k.surrogate(1); n.Idle[f.class()] != 0 {
					t.Errorf("counters: %+v", n)
				}
			})
		}
	})
}

// A surrogate declines timestamps, and there is no such class yet: the leg has no queue and is retired.
func TestLegOfAClassWithoutAQueue(t *testing.T) {
	k := newRig(t)
	f := families[0]
	const class = 2<<1 | 1
	k.must(k.OpenLeg(Leg{Number: 3, Surrogate: 7, Class: class, Server: f.surrogate, Router: f.router, ISS: 1, Ifindex: 1}))
	if _, ok, err := k.PopIdle(7, class&^1, BandFresh); err != nil || ok {
		t.Fatal(ok, err)
	}
	s := &surrogate{k: k, f: f, seq: 1, ack: 2}
	p := s.packet(packet.SYN|packet.ACK, "")
	k.want(packet.Build(p), routerVerdictLEG_UP, actRedirect)
	if got := State(k.splice(3).State); got != Dead {
		t.Errorf("leg: got %v, want dead", got)
	}
	if n := k.surrogate(7); n.Idle[class&^1] != 0 {
		t.Errorf("counters: %+v", n)
	}
}
