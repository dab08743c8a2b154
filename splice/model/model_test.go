package model

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// budgets of the adversary, explored separately: together they would be too many.
var budgets = []Budget{{Losses: 1, Retransmissions: 1}, {Repeats: 1, Stale: 1}}

// mostStates limits an exploration, which is breadth-first.
const mostStates = 60_000

func (b Budget) plus(more Budget) Budget {
	b.Closes += more.Closes
	b.Unsolicited += more.Unsolicited
	b.Repeats += more.Repeats
	b.Losses += more.Losses
	b.Retransmissions += more.Retransmissions
	b.Stale += more.Stale
	b.Strangers += more.Strangers
	b.Lies += more.Lies
	return b
}

func report(t *testing.T, s *Scenario, res Result) {
	t.Helper()
	t.Errorf("%s: %v after\n\t%s", s.Name, res.Violation, strings.Join(res.Path, "\n\t"))
}

// TestInvariant explores every scenario with all rules in force.
func TestInvariant(t *testing.T) {
	var recycled, moved, ended, compared int
	explore := func(s Scenario, b Budget, most int) {
		s.Budget = b.plus(s.Budget)
		s.kernel = &beside{}
		res := s.Explore(All(), most)
		if s.kernel.drift != "" {
			t.Errorf("%s: %s", s.Name, s.kernel.drift)
		}
		compared += s.kernel.calls
		if res.Violation != None {
			report(t, &s, res)
		}
		recycled, moved, ended = recycled+res.Recycled, moved+res.Moved, ended+res.Ended
		t.Logf("%s: %d states, all of them %v; %d with a leg used again, %d with all responses", s.Name, res.States, res.Whole, res.Recycled, res.Ended)
	}
	for _, s := range slices.Concat(honest, moves, lying, held, marked, edited) {
		most := mostStates
		if s.Insert || s.Edit {
			most /= 2
		}
		for _, b := range budgets {
			explore(s, b, most)
		}
		explore(s, Budget{Strangers: 1}, most/3) // whose packets have no effect
	}
	for _, s := range append(clocks(), spokenTo) {
		explore(s, Budget{}, mostStates)
	}
	t.Logf("%d transitions compared with the kernel's machine", compared)
	if compared == 0 || recycled == 0 || moved == 0 || ended == 0 {
		t.Errorf("states with a leg used again %d, a client moved %d, all responses there %d: the model stands still", recycled, moved, ended)
	}
}

// TestHeldRequestsAreServed: held requests are retransmitted, routed, and answered by the right surrogate.
func TestHeldRequestsAreServed(t *testing.T) {
	for _, s := range held[:2] {
		s.Scripts[1] = nil
		s.Budget = Budget{Retransmissions: 2}
		res := s.Explore(All(), 4*mostStates)
		if res.Violation != None {
			report(t, &s, res)
		}
		if res.Moved == 0 || res.Ended == 0 {
			t.Errorf("%s: states with the client moved %d, all responses there %d, of %d", s.Name, res.Moved, res.Ended, res.States)
		}
	}
}

// TestLiarsAreNotHeld shows a known limitation: a request that its surrogate drops and then receives in another version is not
// the one that was routed.
func TestLiarsAreNotHeld(t *testing.T) {
	s := Scenario{
		Name:    "held, two versions of one request",
		Scripts: [2][]Segment{{{Data: get(1, 0, 1), Forged: get(1, 0, 0)}}, nil},
		Hold:    true,
	}
	if res := s.Explore(All(), mostStates); res.Violation != Misrouted {
		t.Errorf("violation: got %v, want %v", res.Violation, Misrouted)
	}
}

// TestKernelKeepsInvariant explores honest clients that stay, with only the rules they need.
func TestKernelKeepsInvariant(t *testing.T) {
	for _, s := range honest {
		s.Budget = budgets[0].plus(s.Budget)
		s.Ignore = []Violation{Replayed}
		rules := Kernel()
		rules.FinAhead = true
		if res := s.Explore(rules, mostStates); res.Violation != None {
			report(t, &s, res)
		}
	}
}

func named(t *testing.T, name string) Scenario {
	t.Helper()
	for _, s := range slices.Concat(honest, moves, held, lying, marked, edited, append(clocks(), spokenTo)) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return Scenario{}
}

// found are violations, each the first of its kind.
type found []Violation

// TestEveryRuleIsNeeded switches rules off one by one; the model must find what they prevent.
func TestEveryRuleIsNeeded(t *testing.T) {
	const visits, urgentName, clock = "a visit each", "a body of urgent data", "a clock that jumps, the router's at 0"
	tests := []struct {
		name     string
		off      func(*Rules)
		scenario string
		extra    Budget
		want     found
	}{
		{"TupleCheck", func(r *Rules) { r.TupleCheck = false }, visits, Budget{Repeats: 1, Stale: 1}, found{LostResponse}},
		{"RcvBase", func(r *Rules) { r.RcvBase, r.AckFloor = false, false }, visits, Budget{Retransmissions: 1}, found{ForeignResponse}}, // AckFloor has the same effect
		{"AllAckedByClient", func(r *Rules) { r.AllAckedByClient = false }, "half-close with the request outstanding", Budget{Losses: 1, Retransmissions: 1}, found{LostResponse}},
		{"AllAckedByServer", func(r *Rules) { r.AllAckedByServer = false }, "upload in two segments, answered early", Budget{Losses: 1}, found{FalseAck}},
		{"QuietFraming", func(r *Rules) { r.QuietFraming = false }, "half-close with the request outstanding", Budget{}, found{UncleanIdle}},
		{"FinExact", func(r *Rules) { r.FinExact, r.FinAhead = false, false }, "keep-alive, and the FIN close behind the request", Budget{}, found{FalseAck}},     // FinAhead has the same effect
		{"StartMissing", func(r *Rules) { r.StartMissing, r.SentOnce = false, false }, "keep-alive, then pipelined in two packets", Budget{}, found{UncleanIdle}}, // SentOnce has the same effect
		{"PipelinedIsOpaque", func(r *Rules) { r.PipelinedIsOpaque = false }, "pipelined in one packet, FIN before the last response", Budget{}, found{UncleanIdle}},
		{"Marked", func(r *Rules) { r.Marked, r.StartMissing, r.LeftQuiet = false, false, false }, "move of a request in two segments", Budget{}, found{UncleanIdle}}, // the others have the same effect
		{"Unheard", func(r *Rules) { r.Unheard = false }, "move of a request in two segments", Budget{Closes: 1}, found{ShutOut}},
		{"FinAhead", func(r *Rules) { r.FinAhead = false }, "move, and the FIN close behind the request", Budget{}, found{UncleanIdle}},
		{"SentOnce", func(r *Rules) { r.SentOnce = false }, "two versions of one segment", Budget{}, found{UncleanIdle}},
		{"AckFloor", func(r *Rules) { r.AckFloor = false }, visits, Budget{Unsolicited: 1}, found{UnsolicitedResponse}},
		{"AckFloor where a client moves to", func(r *Rules) { r.AckFloor = false }, "move, and the next surrogate sends an unsolicited response", Budget{}, found{UnsolicitedResponse}},
		{"Linger", func(r *Rules) { r.Linger = false }, visits, Budget{Repeats: 1}, found{Replayed}},
		{"Window", func(r *Rules) { r.Window = false }, visits, Budget{Strangers: 1}, found{Bent, ForeignResponse}},
		{"NoUrgent", func(r *Rules) { r.NoUrgent = false }, urgentName, Budget{}, found{UncleanIdle, ForeignRequest}},
		{"TimeEchoed", func(r *Rules) { r.TimeEchoed, r.TimeNear = false, false }, clock, Budget{}, found{Stuck}}, // TimeNear has the same effect
		{"TimeNear", func(r *Rules) { r.TimeNear = false }, clock, Budget{}, found{Stuck}},
		{"Hold", func(r *Rules) { r.Hold = false }, "held, in two packets", Budget{}, found{Misrouted}},
		{"InFront", func(r *Rules) { r.InFront = false }, "marked, a move", Budget{Repeats: 1}, found{Unmarked}},
		{"InFront of a head", func(r *Rules) { r.InFront = false }, "edited, keep-alive", Budget{Repeats: 1}, found{Unmarked}},
		{"HeadWhole", func(r *Rules) { r.HeadWhole = false }, "edited, heads in parts", Budget{Losses: 1, Retransmissions: 1}, found{Unmarked}},
		{"HeadWhole where the packet grows", func(r *Rules) { r.HeadWhole = false }, "edited, heads in parts, that grow", Budget{Losses: 1, Retransmissions: 1}, found{Unmarked}},
		{"SameHead", func(r *Rules) { r.SameHead = false }, "edited, two versions of a head", Budget{}, found{Unmarked}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := named(t, tt.scenario)
			s.Budget = tt.extra.plus(s.Budget)
			rules := All()
			if res := s.Explore(rules, mostStates); res.Violation != None {
				report(t, &s, res)
			}
			tt.off(&rules)
			s.kernel = &beside{}
			for _, want := range tt.want {
				res := s.Explore(rules, 10*mostStates)
				if res.Violation != want {
					t.Errorf("violation: got %v, want %v, after %d states, all of them %v", res.Violation, want, res.States, res.Whole)
				}
				t.Logf("%v after %d states:\n\t%s", res.Violation, res.States, strings.Join(res.Path, "\n\t"))
				s.Ignore = append(s.Ignore, want)
			}
			if elsewhere := tt.name == "Linger" || tt.name == "NoUrgent" || tt.name == "Hold"; elsewhere == (s.kernel.drift != "") {
				t.Errorf("the kernel's machine, which has the rule unless it is elsewhere (%t): drift %q", elsewhere, s.kernel.drift)
			}
		})
	}
}

// TestRandomWalks goes beyond the explorations: the full adversary, to the end.
func TestRandomWalks(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	everything := Budget{Losses: 2, Repeats: 3, Retransmissions: 4, Closes: 1, Stale: 2, Strangers: 3}
	scenarios := slices.Concat(honest, moves, held, lying, marked, edited, clocks())
	ended := 0
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
		s := scenarios[rng.IntN(len(scenarios))]
		lies := s.Budget.Lies
		s.Budget = everything
		s.Budget.Lies = lies
		s.kernel = &beside{}
		res := s.Walk(All(), rng, 200)
		if s.kernel.drift != "" {
			t.Fatalf("%s: %s", s.Name, s.kernel.drift)
		}
		if res.Violation != None {
			report(t, &s, res)
			return
		}
		ended += min(res.Ended, 1)
	}
	if ended == 0 {
		t.Error("no walk ever got to all responses")
	}
	t.Logf("%d walks got all responses", ended)
}
