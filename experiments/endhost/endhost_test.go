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
		{of: endhost.Experiment(), cases: []string{"20 kB, 10 + 20 Mbit/s"}, least: 20 * 20e3 * 8 / 30e6,
			contenders: []string{"one-link", "ideal", "oracle", "ovs-controller", "ovs-hash", "controller", "least", "ecmp", "mptcp"}},
		{of: endhost.Concurrency(), contenders: []string{"oracle", "turns"}, cases: []string{"3 at a time, 10 + 10 Mbit/s"},
			measures: []string{"time"}, least: 20 * 100e3 * 8 / 20e6},
		{of: endhost.Links(), contenders: []string{"one-link", "ideal", "least"}, cases: []string{"5 × 10 Mbit/s, 20 at a time"}, measures: []string{"time"},
			least: 20 * 100e3 * 8 / 50e6},
		{of: endhost.Switch(), cases: []string{"whole frames"}, contenders: []string{"none", "baton", "ovs"}, measures: []string{"download", "requests", "first packet"}, least: 0.001},
		{of: endhost.Change(), contenders: []string{"oracle", "default"}, cases: []string{"carrier lost"}},
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

// TestClaims: every goal is of a case, a measure and a contender that the experiment has.
func TestClaims(t *testing.T) {
	for _, e := range []experiments.Experiment[*endhost.Topology]{endhost.Experiment(), endhost.Concurrency(), endhost.Links(), endhost.Switch(), endhost.Change(),
		endhost.Datagrams()} {
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
