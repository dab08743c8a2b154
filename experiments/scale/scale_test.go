package scale_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/handoff"
	"baton/experiments/scale"
	"baton/lab"
)

// TestRun has a thousand sessions with every contender, as briefly as can be: the figures mean nothing, but each session must be
// spliced by the router's own account, and each that is asked again must answer with its own name.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	path := experimentstest.Program(t)
	for _, e := range []experiments.Experiment[*handoff.Topology]{scale.Experiment(), scale.Proxies()} {
		t.Run(e.Name, func(t *testing.T) {
			r, err := e.Run(t.Context(), experiments.Options{Quick: true, Duration: 100 * time.Millisecond, Program: path,
				Progress: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(r.Samples), len(e.Contenders)*len(e.Measures); got != want {
				t.Fatalf("%d samples, want %d", got, want)
			}
			for _, s := range r.Samples {
				if s.Errors != 0 {
					t.Errorf("%+v", s)
				}
				if s.Measure == "set-up" && s.Single.Count != 1000 || s.Measure == "cold session" && s.Single.Count == 0 {
					t.Errorf("%s of %s: %d answers", s.Measure, s.Contender, s.Single.Count)
				}
				// The kernel's memory is the whole machine's: others may give back more than a thousand sessions take. Its processor
				// time is counted in ticks of 10 ms, and may be none of them.
				if s.Contender == "baton" && s.Value <= 0 && s.Measure != "kernel memory" && s.Measure != "at rest" {
					t.Errorf("%s: %v", s.Measure, s.Value)
				}
			}
		})
	}
}
