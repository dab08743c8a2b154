package model

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// budgets of the adversary that are explored one by one: together they would be too many.
var budgets = []Budget{{Losses: 1, Retransmissions: 1}, {Repeats: 1, Stale: 1}}

// mostStates bounds an exploration: what is nearest to the start is seen first.
const mostStates = 80_000

func (b Budget) plus(more Budget) Budget {
	b.Closes += more.Closes
	b.Unasked += more.Unasked
	b.Repeats += more.Repeats
	b.Losses += more.Losses
	b.Retransmissions += more.Retransmissions
	return b
}

func report(t *testing.T, s *Scenario, res Result) {
	t.Helper()
	t.Errorf("%s: %v after\n\t%s", s.Name, res.Violation, strings.Join(res.Path, "\n\t"))
}

// TestInvariant explores every scenario with all rules in force.
func TestInvariant(t *testing.T) {
	var recycled, moved, ended int
	for _, s := range append(append([]Scenario(nil), honest...), append(moves, liar)...) {
		for _, b := range budgets {
			s := s
			s.Budget = b.plus(s.Budget)
			res := s.Explore(All(), mostStates)
			if res.Violation != None {
				report(t, &s, res)
			}
			recycled, moved, ended = recycled+res.Recycled, moved+res.Moved, ended+res.Ended
			t.Logf("%s: %d states, all of them %v", s.Name, res.States, res.Whole)
		}
	}
	if recycled == 0 || moved == 0 || ended == 0 {
		t.Errorf("states with a leg used again %d, a client moved %d, all responses there %d: the model stands still", recycled, moved, ended)
	}
}

// TestKernelKeepsInvariant explores honest clients that stay, with no more of the rules than they need.
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
	for _, s := range append(append([]Scenario(nil), honest...), moves...) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return Scenario{}
}

// TestEveryRuleIsNeeded switches rules off one by one, and wants the model to find what they prevent.
func TestEveryRuleIsNeeded(t *testing.T) {
	tests := []struct {
		name     string
		off      func(*Rules)
		scenario string
		extra    Budget
		want     Violation
	}{
		{"TupleCheck", func(r *Rules) { r.TupleCheck = false }, "a visit each", Budget{Repeats: 1, Stale: 1}, Replayed},
		{"RcvBase", func(r *Rules) { r.RcvBase, r.AckFloor = false, false }, "a visit each", Budget{Retransmissions: 1}, ForeignResponse}, // AckFloor has the same effect
		{"AllAckedByClient", func(r *Rules) { r.AllAckedByClient = false }, "half-close with the request outstanding", Budget{Losses: 1, Retransmissions: 1}, LostResponse},
		{"AllAckedByServer", func(r *Rules) { r.AllAckedByServer = false }, "upload in two segments, answered early", Budget{Losses: 1}, FalseAck},
		{"QuietFraming", func(r *Rules) { r.QuietFraming = false }, "half-close with the request outstanding", Budget{}, UncleanIdle},
		{"FinExact", func(r *Rules) { r.FinExact, r.FinAhead = false, false }, "keep-alive, and the FIN close behind the request", Budget{}, FalseAck},     // FinAhead has the same effect
		{"StartMissing", func(r *Rules) { r.StartMissing, r.SentOnce = false, false }, "keep-alive, then pipelined in two packets", Budget{}, UncleanIdle}, // SentOnce has the same effect
		{"PipelinedIsOpaque", func(r *Rules) { r.PipelinedIsOpaque = false }, "pipelined in one packet, FIN before the last response", Budget{}, UncleanIdle},
		{"Marked", func(r *Rules) { r.Marked, r.StartMissing = false, false }, "move of a request in two segments", Budget{}, UncleanIdle}, // StartMissing has the same effect
		{"Unheard", func(r *Rules) { r.Unheard = false }, "move of a request in two segments", Budget{Closes: 1, Retransmissions: 1, Stale: 1}, Replayed},
		{"FinAhead", func(r *Rules) { r.FinAhead = false }, "move, and the FIN close behind the request", Budget{}, UncleanIdle},
		{"SentOnce", func(r *Rules) { r.SentOnce = false }, liar.Name, Budget{}, UncleanIdle},
		{"AckFloor", func(r *Rules) { r.AckFloor = false }, "a visit each", Budget{Unasked: 1}, UnaskedResponse},
		{"Linger", func(r *Rules) { r.Linger = false }, "a visit each", Budget{Repeats: 1}, Replayed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := liar
			if tt.scenario != liar.Name {
				s = named(t, tt.scenario)
			}
			s.Budget = tt.extra.plus(s.Budget)
			s.Budget.Stale = tt.extra.Stale
			rules := All()
			if res := s.Explore(rules, mostStates); res.Violation != None {
				report(t, &s, res)
			}
			tt.off(&rules)
			res := s.Explore(rules, 10*mostStates)
			if res.Violation != tt.want {
				t.Errorf("violation: got %v, want %v, after %d states, all of them %v", res.Violation, tt.want, res.States, res.Whole)
			}
			t.Logf("%v after %d states:\n\t%s", res.Violation, res.States, strings.Join(res.Path, "\n\t"))
		})
	}
}

// TestRandomWalks goes where the explorations do not reach: all of the adversary at once, to the end.
func TestRandomWalks(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	everything := Budget{Losses: 2, Repeats: 3, Retransmissions: 4, Closes: 1, Stale: 2}
	scenarios := append(append([]Scenario(nil), honest...), append(moves, liar)...)
	ended := 0
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
		s := scenarios[rng.IntN(len(scenarios))]
		s.Budget = everything
		res := s.Walk(All(), rng, 200)
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
