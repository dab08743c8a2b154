package relaycost_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/relaycost"
	"baton/lab"
)

// TestRun puts all measures to every contender, as briefly as can be: the figures mean nothing, but every answer must be whole.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	for _, e := range []experiments.Experiment[*relaycost.Topology]{relaycost.Experiment(), relaycost.Flows()} {
		t.Run(e.Name, func(t *testing.T) {
			r, err := e.Run(t.Context(), experiments.Options{Quick: true, Duration: 100 * time.Millisecond, Program: program, Progress: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(r.Samples), len(e.Contenders)*len(e.Measures); got != want {
				t.Fatalf("%d samples, want %d", got, want)
			}
			for _, s := range r.Samples {
				if s.Errors != 0 || s.Work > 0 && s.Value <= 0 || s.Measure == "held" && s.Value != 500 {
					t.Errorf("%+v", s)
				}
			}
			for _, c := range e.Claims {
				if _, err := c.Ours(r); err != nil && e.Name == "relay-cost" {
					t.Errorf("%s: %v", c.What, err)
				}
			}
		})
	}
}
