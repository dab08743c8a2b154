package router

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/packet"
)

var testTimeouts = Timeouts{Handshake: 5 * time.Second, Idle: time.Minute, Closing: 10 * time.Second}

// aged makes a splice idle for that long.
func (k *rig) aged(n uint32, by time.Duration, change ...func(*routerSplice)) {
	k.t.Helper()
	s := k.splice(n)
	s.Seen -= uint32(by.Milliseconds())
	s.Since -= uint32(by.Milliseconds())
	for _, c := range change {
		c(s)
	}
	k.must(k.maps.Splices.Update(n, s, ebpf.UpdateAny))
}

// Idle sessions time out.
func TestSweep(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name  string
			state State
			quiet time.Duration
			end   End
		}{
			{"active, just used", Active, 0, 0},
			{"active, used by another processor meanwhile", Active, -100 * time.Millisecond, 0},
			{"active, quiet for less than the timeout", Active, 59 * time.Second, 0},
			{"active, quiet for longer", Active, 61 * time.Second, Expired},
			{"closing, quiet for less than the timeout", Closing, 9 * time.Second, 0},
			{"closing, quiet for longer", Closing, 11 * time.Second, Expired},
			{"idle", Idle, time.Hour, 0},
			{"opening", Opening, time.Hour, 0},
			{"dead, not reported", Dead, 6 * time.Second, Expired},
			{"dead, just reported", Dead, 4 * time.Second, 0},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k, _, _ := spliced(t, f)
				k.aged(1, tc.quiet, func(s *routerSplice) { s.State = uint8(tc.state) })
				events := k.events()
				n, err := k.Sweep(testTimeouts)
				k.must(err)
				ends := tc.end != 0 && tc.state != Dead
				if want := map[bool]int{true: 1}[ends]; n != want {
					t.Errorf("changed: got %d, want %d", n, want)
				}
				if tc.end != 0 {
					e := events.next()
					if e == nil || e.End != tc.end || e.Splice != 1 {
						t.Fatalf("event: %+v", e)
					}
					if e.Idle < tc.quiet || e.Idle > tc.quiet+10*time.Second {
						t.Errorf("idle for %v, want %v", e.Idle, tc.quiet)
					}
				}
				events.none()
				want := tc.state
				if ends {
					want = Dead
				}
				if got := State(k.splice(1).State); got != want {
					t.Errorf("state: got %v, want %v", got, want)
				}
				if fl, _ := k.flow(f.client, f.vip); (routerSide(fl.Side) == routerSideSIDE_RESET) != ends {
					t.Errorf("the client's flow: %+v", fl)
				}
				if got, want := k.surrogate(1).Active, map[bool]int{true: 0, false: 1}[ends]; got != want {
					t.Errorf("active: got %d, want %d", got, want)
				}
			})
		}
	})
}

func TestRetire(t *testing.T) {
	k := newRig(t)
	f := families[0]
	k.idle(1, f)
	for _, tc := range []struct {
		name      string
		surrogate uint16
		want      bool
	}{
		{"another surrogate's", 2, false}, {"idle", 1, true}, {"dead", 1, false},
	} {
		got, err := k.Retire(1, tc.surrogate)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %t, %v, want %t", tc.name, got, err, tc.want)
		}
	}
	if n := k.surrogate(1).Idle[f.class()]; n != 0 {
		t.Errorf("idle: got %d, want 0", n)
	}
	if got := State(k.splice(1).State); got != Dead {
		t.Errorf("leg: got %v, want dead", got)
	}
}

// When a surrogate goes down, sessions of whose request it has acknowledged nothing are routed again. It may be
// working on others, which stay.
func TestAbandon(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _ := fresh(t, f)
		events := k.events()
		if n, err := k.Abandon(2); err != nil || n != 0 {
			t.Errorf("another surrogate: %d, %v", n, err)
		}
		if n, err := k.Abandon(1); err != nil || n != 1 {
			t.Errorf("abandoned: %d, %v, want 1", n, err)
		}
		events.want(Event{End: Abandoned, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 1})
		next := k.idle(2, f)
		c.seq -= packet.Seq(len(plainRequest))
		exchange(c, next, plainRequest, plainResponse, routerVerdictHANDOFF)
		if n, err := k.Abandon(1); err != nil || n != 0 {
			t.Errorf("with a response: %d, %v, want 0", n, err)
		}
	})
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := fresh(t, f)
		s.send(packet.ACK, "", routerVerdictTO_CLIENT, actRedirect)
		if n, err := k.Abandon(1); err != nil || n != 0 {
			t.Errorf("with an acknowledged request: %d, %v, want 0", n, err)
		}
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	})
}

// A session that waits for the response to a later request, which has moved there, is reset.
func TestAbandonAMovedRequest(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _, two := twoPools(t, f)
		events := k.events()
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
		if n, err := k.Abandon(2); err != nil || n != 1 {
			t.Errorf("abandoned: %d, %v, want 1", n, err)
		}
		events.want(Event{End: Expired, Class: f.class(), Surrogate: 2, Splice: two.number, Requests: 1})
		c.seq -= packet.Seq(len(otherRequest))
		c.send(packet.ACK, otherRequest, routerVerdictRESET_SENT, actRedirect)
	})
}

// The options that a cookie cannot carry survive a failed first handoff.
func TestOptionsSurviveAFailedHandoff(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, fail := range []func(k *rig, s *surrogate){
			func(k *rig, s *surrogate) { s.send(packet.RST, "", routerVerdictCONSUMED, actShot) },
			func(k *rig, s *surrogate) {
				if n, err := k.Abandon(1); err != nil || n != 1 {
					t.Fatalf("abandoned: %d, %v, want 1", n, err)
				}
			},
		} {
			k := newRig(t)
			k.vip(f)
			options := packet.Options{}.AppendMSS(f.mss).AppendSACKPermitted().AppendNOP(1).AppendWindowScale(5)
			noTS := func(s *routerSplice) {
				s.LegClass &^= 1
				s.Flags &^= uint32(routerSpliceFlagSPLICE_TS)
			}
			s := k.idle(1, f, noTS)
			c := newClient(k, f, options)
			c.connect(routerVerdictSYN_ANSWERED)
			s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
			fail(k, s)
			next := k.idle(2, f, noTS)
			c.seq -= packet.Seq(len(plainRequest))
			next.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
			const want = routerSpliceFlagSPLICE_CLIENT_SACK | routerSpliceFlagSPLICE_CLIENT_WSCALE
			if got := k.splice(2); routerSpliceFlag(got.Flags)&want != want || got.ClientShift != 5 {
				t.Errorf("flags %#x, shift %d", got.Flags, got.ClientShift)
			}
		}
	})
}
