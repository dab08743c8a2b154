package handoff_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/handoff"
	"baton/lab"
)

// TestRun runs all measures on every contender briefly, over both families: the figures mean nothing, but every response must be
// correct to the byte.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	path := experimentstest.Program(t)
	for _, family := range []struct {
		name     string
		measures []string // none: all
	}{{"IPv4", nil}, {"IPv6", []string{"bulk", "time to first byte"}}} {
		t.Run(family.name, func(t *testing.T) {
			r, err := handoff.Experiment().Run(t.Context(), experiments.Options{Quick: true, Duration: 100 * time.Millisecond,
				IPv6: family.name == "IPv6", Measures: family.measures, Program: path, Progress: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(r.Samples), 5*len(r.Measures); got != want {
				t.Fatalf("%d samples, want %d", got, want)
			}
			for _, s := range r.Samples {
				if s.Value <= 0 || s.Errors != 0 || s.CPU == nil || s.Single == nil || s.Single.Count == 0 {
					t.Errorf("%+v", s)
				}
			}
			for _, name := range []string{"nginx", "haproxy"} {
				if r.Versions[name] == "" {
					t.Errorf("no version of %s", name)
				}
			}
			for _, c := range handoff.Experiment().About().Claims {
				if e, err := c.Ours(r); len(family.measures) == 0 && (err != nil || e.Median <= 0) {
					t.Errorf("%s: %+v, %v", c.What, e, err)
				}
			}
		})
	}
}
