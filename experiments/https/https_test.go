package https_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/https"
	"baton/lab"
)

// TestRun runs all measures on every contender briefly: the figures mean nothing, but every response must be complete.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	r, err := https.Experiment().Run(t.Context(), experiments.Options{
		Quick: true, Duration: 100 * time.Millisecond, Program: experimentstest.Program(t), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Samples), 4*len(r.Measures); got != want {
		t.Fatalf("%d samples, want %d", got, want)
	}
	for _, s := range r.Samples {
		if s.Value <= 0 || s.Errors != 0 || s.CPU == nil || s.Single == nil {
			t.Errorf("%+v", s)
		}
	}
	for _, c := range https.Experiment().About().Claims {
		if e, err := c.Ours(r); err != nil || e.Median <= 0 {
			t.Errorf("%s: %+v, %v", c.What, e, err)
		}
	}
}
