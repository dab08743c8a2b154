package router

import (
	"net/netip"
	"testing"
	"time"

	"baton/packet"
	"baton/packet/packettest"
)

// answered returns leg 3 of surrogate 1, whose SYN-ACK waits for user space, and the SYN-ACK.
func (k *rig) answered(f family) (*surrogate, packet.Spec) {
	k.t.Helper()
	s := k.opening(f, f.class(), func(l *Leg) { l.Late = 100 * time.Millisecond })
	events := k.events()
	synack := s.packet(packet.SYN|packet.ACK, "")
	synack.Options = packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(s.tsval, s.tsecr).AppendNOP(1).AppendWindowScale(7)
	s.ts = true
	s.seq++
	k.want(packet.Build(synack), routerVerdictLEG_ANSWERED, actShot)
	events.want(Event{Answered: true, Class: f.class(), Surrogate: 1, Splice: 3})
	k.stands(f, Answered)
	return s, synack
}

// stands requires leg 3 to be in a state, and in its queue only if it is idle.
func (k *rig) stands(f family, want State) {
	k.t.Helper()
	if got := State(k.splice(3).State); got != want {
		k.t.Errorf("leg: got %v, want %v", got, want)
	}
	idle := 0
	if want == Idle {
		idle = 1
	}
	if n := k.surrogate(1); n.Idle[f.class()] != idle || n.Fresh[f.class()] != idle {
		k.t.Errorf("counters: %+v", n)
	}
	if q := k.queued(1, f.class()); len(q) != idle {
		k.t.Errorf("queue: %v", q)
	}
	if idle == 1 {
		k.must(k.putIdle(1, f.class(), 3))
	}
}

// completes makes one leg idle, and compares what it returns with the splice.
func (k *rig) completes(number uint32, surrogate uint16) (bool, error) {
	k.t.Helper()
	before, err := k.Splice(number)
	k.must(err)
	done, err := k.CompleteLegs(surrogate, []Leg{{Number: number, Server: before.Server, Router: before.Router, Ifindex: before.Ifindex}})
	if err != nil || done[0].State == Free {
		return false, err
	}
	want := Splice{
		Number: number, State: Idle, Class: before.Class, Surrogate: surrogate, Server: before.Server, Router: before.Router, Ifindex: before.Ifindex, SndNxt: before.SndNxt, SndUna: before.SndUna,
		RcvNxt: before.RcvNxt, TSServer: before.TSServer, ServerMSS: before.ServerMSS, Timestamps: before.Timestamps, WScale: before.WScale,
	}
	if done[0] != want {
		k.t.Errorf("completed: got %+v, want %+v", done[0], want)
	}
	return true, nil
}

// Several legs are completed together, more than fit into a command; those that are not answered, or of another surrogate, are not.
func TestLegsAreCompletedTogether(t *testing.T) {
	k, f := newRig(t), families[0]
	k.must(k.MakeQueues([]LegQueue{{1, f.class(), BandFresh}}))
	for i, state := range []State{Answered, Opening, Answered, Answered} {
		k.idle(uint32(i), f, func(s *routerSplice) { s.State, s.Surrogate = uint8(state), uint16(1+i/3) })
	}
	all := []Leg{{Number: 0}, {Number: 0}, {Number: 3}}
	for range routerBoundCOMMAND_KEYS {
		all = append(all, Leg{Number: 1})
	}
	all = append(all, Leg{Number: 2})
	had := k.surrogate(1).Fresh[f.class()]
	done, err := k.CompleteLegs(1, all)
	k.must(err)
	for i, s := range done {
		if got := s.State == Idle && s.Number == all[i].Number; got != (i == 0 || i == len(all)-1) {
			t.Errorf("leg %d at %d: %+v", all[i].Number, i, s)
		}
	}
	if fresh := k.surrogate(1).Fresh[f.class()] - had; fresh != 2 {
		t.Errorf("%d fresh legs are counted, want 2", fresh)
	}
}

func TestLegIsCompletedLate(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		s, synack := k.answered(f)
		sp, err := k.Splice(3)
		if err != nil || sp.SndNxt != uint32(s.ack) || sp.RcvNxt != uint32(s.seq) || sp.TSServer != s.tsval || sp.ServerMSS != 1460 ||
			!sp.Timestamps || !sp.WScale || sp.IdleWindow() != idleWindow>>OurWscale {
			t.Errorf("what user space acknowledges by: %+v, %v", sp, err)
		}
		k.want(packet.Build(synack), routerVerdictCONSUMED, actShot) // retransmitted: the ACK will follow
		k.stands(f, Answered)
		if ok, err := k.completes(3, 2); err != nil || ok {
			t.Errorf("taken up for another surrogate: %t, %v", ok, err)
		}

		events := k.events()
		if ok, err := k.completes(3, 1); err != nil || !ok {
			t.Fatalf("taken up: %t, %v", ok, err)
		}
		events.none() // the caller knows
		k.stands(f, Idle)
		if ok, err := k.completes(3, 1); err != nil || ok {
			t.Errorf("taken up again: %t, %v", ok, err)
		}
		// our ACK was lost
		r := k.want(packet.Build(synack), routerVerdictLEG_ACKED, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.TCP(packettest.Ack(s.seq), packettest.Window(idleWindow>>OurWscale)))
		k.vip(f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
	})
}

func TestAnsweredLegIsGivenUp(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name   string
			change func(*packet.Spec)
			state  State
		}{
			{"RST", func(p *packet.Spec) { p.Flags = packet.RST }, Dead},
			{"RST of another number", func(p *packet.Spec) { p.Flags = packet.RST; p.Seq++ }, Answered},
			{"ACK", func(*packet.Spec) {}, Answered},
			{"data", func(p *packet.Spec) { p.Payload = []byte("too early") }, Answered},
			{"FIN", func(p *packet.Spec) { p.Flags |= packet.FIN }, Answered},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k := newRig(t)
				s, _ := k.answered(f)
				events := k.events()
				p := s.packet(packet.ACK, "")
				tc.change(&p)
				k.want(packet.Build(p), routerVerdictCONSUMED, actShot)
				k.stands(f, tc.state)
				if tc.state != Dead {
					events.none()
					return
				}
				events.want(Event{End: Refused, Class: f.class(), Surrogate: 1, Splice: 3})
				if ok, err := k.completes(3, 1); err != nil || ok {
					t.Errorf("taken up: %t, %v", ok, err)
				}
			})
		}
	})
}

// The SYN-ACK of a leg that was given up is ignored.
func TestSYNACKAfterItsTime(t *testing.T) {
	k, f := newRig(t), families[0]
	s, synack := k.answered(f)
	k.must(k.FreeLeg(3, f.surrogate, s.f.router))
	k.want(packet.Build(synack), routerVerdictPASS, actPass)
	if ok, err := k.completes(3, 1); err != nil || ok {
		t.Errorf("taken up: %t, %v", ok, err)
	}
}

// Several legs are freed together, one whose flow is gone among them; others stay.
func TestLegsAreFreedTogether(t *testing.T) {
	k, f := newRig(t), families[0]
	var all []Leg
	for i := range 5 {
		l := Leg{Number: uint32(10 + i), Surrogate: 1, Server: f.surrogate, Router: netip.AddrPortFrom(f.router.Addr(), uint16(3000+i)), ISS: 1, Ifindex: 1}
		k.must(k.OpenLeg(l))
		all = append(all, l)
	}
	k.must(k.maps.Flows.Delete(tuple(all[1].Server, all[1].Router)))
	k.must(k.FreeLegs(all[:4]))
	for i, l := range all {
		s, err := k.Splice(l.Number)
		if err != nil || (s.State == Free) != (i < 4) {
			t.Errorf("leg %d is %v, %v", i, s.State, err)
		}
		var flow routerFlow
		if err := k.maps.Flows.Lookup(tuple(l.Server, l.Router), &flow); (err == nil) != (i == 4) {
			t.Errorf("the flow of leg %d: %v", i, err)
		}
	}
	k.must(k.FreeLegs(all)) // again
	k.must(k.OpenLeg(all[0]))
	k.must(k.FreeLegs(all[:1]))
}

// A leg acknowledged early because a client waited is not reused for clients that are further away than its surrogate has
// measured.
func TestLegCompletedEarly(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name      string
			wait, rtt time.Duration
			far       bool
		}{
			{"in time, client at 50 ms", 100 * time.Millisecond, 50 * time.Millisecond, false},
			{"at once, client at 50 ms", 0, 50 * time.Millisecond, true},
			{"after 60 ms, client at 50 ms", 60 * time.Millisecond, 50 * time.Millisecond, false},
			{"at once, client at 2 ms", 0, 2 * time.Millisecond, false},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k := newRig(t)
				s, _ := k.answered(f)
				k.aged(3, tc.wait)
				if ok, err := k.completes(3, 1); err != nil || !ok {
					t.Fatalf("taken up: %t, %v", ok, err)
				}
				k.vip(f)
				c := newClient(k, f, f.usual())
				c.rtt = tc.rtt
				c.connect(routerVerdictSYN_ANSWERED)
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
				if got := k.splice(3).Band == BandFar; got != tc.far {
					t.Errorf("band %d", k.splice(3).Band)
				}
			})
		}
	})
}
