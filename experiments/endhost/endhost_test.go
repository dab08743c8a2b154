package endhost_test

import (
	"slices"
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/endhost"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun asks briefly, of each experiment one case: the figures mean little, but every byte is checked, a contender that does not use all
// links does not start, and nothing can come sooner than the links allow.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	tests := []struct {
		of         experiments.Experiment[*endhost.Topology]
		cases      []string
		contenders []string // none: all
		measures   []string // none: all
		least      float64  // value
	}{
		// Twenty files at 30 Mbit/s; one-link has 10 of it.
		{of: endhost.Experiment(), cases: []string{"100 kB, 10 + 20 Mbit/s"}, least: 20 * 100e3 * 8 / 30e6,
			contenders: []string{"one-link", "ideal", "oracle", "ovs-controller", "ovs-hash", "mptcp"}},
		{of: endhost.Concurrency(), contenders: []string{"oracle", "round-robin", "even"}, cases: []string{"2 at a time, 10 + 10 Mbit/s"},
			measures: []string{"time"}, least: 20 * 100e3 * 8 / 20e6},
		{of: endhost.Links(), contenders: []string{"one-link", "ideal", "even"}, cases: []string{"5 × 10 Mbit/s, 20 at a time"}, measures: []string{"time"},
			least: 20 * 100e3 * 8 / 50e6},
		{of: endhost.Switch(), cases: []string{"whole frames"}, contenders: []string{"none", "baton", "ovs"}, measures: []string{"download", "requests", "first packet"}, least: 0.001},
		{of: endhost.Change(), contenders: []string{"oracle", "even"}, cases: []string{"carrier lost"}},
		{of: endhost.Datagrams(), contenders: []string{"one-link", "oracle", "hash", "fastest"}, cases: []string{"8 datagrams, 10 + 20 Mbit/s"},
			least: 40 * 8 * 1200 * 8 / 30e6},
	}
	for _, tt := range tests {
		t.Run(tt.of.Name, func(t *testing.T) {
			r, err := tt.of.Run(t.Context(), experiments.Options{Quick: true, Duration: time.Second, Cases: tt.cases, Contenders: tt.contenders, Measures: tt.measures,
				Program: program, Progress: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for _, c := range r.Cases {
				for _, k := range tt.of.Contenders {
					for _, m := range r.Measures {
						if (tt.contenders == nil || slices.Contains(tt.contenders, k.Name)) && (k.Skips == nil || !k.Skips(c, m.Name)) {
							want++
						}
					}
				}
			}
			if len(r.Samples) != want {
				t.Errorf("%d samples, want %d", len(r.Samples), want)
			}
			for _, s := range r.Samples {
				if s.Errors != 0 || s.Value < tt.least {
					t.Errorf("%s of %s: %v, want %v at least; %d errors (%s)", s.Measure, s.Contender, s.Value, tt.least, s.Errors, s.First)
				}
			}
		})
	}
}

// TestOneLinkOnce: cases that ask the same of one link share its time, each round has one of its own, and the ideal is computed from it.
func TestOneLinkOnce(t *testing.T) {
	lab.NeedRoot(t)
	const rounds, one, five = 2, "1 × 10 Mbit/s, 20 at a time", "5 × 10 Mbit/s, 20 at a time"
	r, err := endhost.Links().Run(t.Context(), experiments.Options{Quick: true, Rounds: rounds, Cases: []string{one, five}, Contenders: []string{"one-link", "ideal"},
		Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	value := func(round int, kase, contender string) float64 {
		i := slices.IndexFunc(r.Samples, func(s experiments.Sample) bool { return s.Round == round && s.Case == kase && s.Contender == contender })
		if i < 0 {
			t.Fatalf("no sample of %s in round %d of %s", contender, round, kase)
		}
		return r.Samples[i].Value
	}
	for round := 1; round <= rounds; round++ {
		took := value(round, one, "one-link")
		if got := value(round, five, "one-link"); got != took {
			t.Errorf("round %d: one link takes %v s beside four others, %v s alone", round, got, took)
		}
		if got := value(round, five, "ideal"); got < took/5.001 || got > took/4.999 {
			t.Errorf("round %d: ideal takes %v s by five links, one takes %v s", round, got, took)
		}
	}
	if value(1, one, "one-link") == value(2, one, "one-link") {
		t.Error("both rounds have the same time: it was not asked again")
	}
}

// TestParts: a contender that an experiment asks is one that there is, and has something to say in it.
func TestParts(t *testing.T) {
	for _, e := range all() {
		about := e.About()
		for _, k := range e.Contenders {
			if k.Skips != nil && !slices.ContainsFunc(about.Cases, func(c endhost.Case) bool {
				return slices.ContainsFunc(about.Measures, func(m experiments.MeasureInfo) bool { return !k.Skips(c, m.Name) })
			}) {
				t.Errorf("%s: %s is never asked", e.Name, k.Name)
			}
		}
		for _, c := range about.Cases {
			if len(e.Contenders) == 0 || e.Contenders[0].Skips != nil && e.Contenders[0].Skips(c, about.Measures[0].Name) {
				t.Errorf("%s, %s: what all stand beside is not asked", e.Name, c.Name)
			}
		}
	}
}

func all() []experiments.Experiment[*endhost.Topology] {
	return []experiments.Experiment[*endhost.Topology]{endhost.Experiment(), endhost.Concurrency(), endhost.Links(), endhost.Switch(), endhost.Change(), endhost.Datagrams()}
}

// TestClaims: every goal is of a case, a measure and a contender that the experiment has.
func TestClaims(t *testing.T) {
	for _, e := range all() {
		about := e.About()
		r := &experiments.Results{Cases: about.Cases}
		for _, c := range about.Cases {
			for _, k := range e.Contenders {
				for _, m := range about.Measures {
					if k.Skips == nil || !k.Skips(c, m.Name) {
						r.Samples = append(r.Samples, experiments.Sample{Round: 1, Case: c.Name, Contender: k.Name, Measure: m.Name, Value: 1,
							Single: &experiments.Distribution{P50: 1, P99: 1}})
					}
				}
			}
		}
		if len(e.Claims) == 0 {
			t.Errorf("%s has no goals", e.Name)
		}
		for _, c := range e.Claims {
			if _, err := c.Ours(r); err != nil {
				t.Errorf("%s: %s: %v", e.Name, c.What, err)
			}
		}
		for _, p := range e.Plots {
			if !slices.ContainsFunc(about.Measures, func(m experiments.MeasureInfo) bool { return m.Name == p.Measure }) {
				t.Errorf("%s has a plot of %q", e.Name, p.Measure)
			}
		}
	}
}
