package forwarder_test

import (
	"strings"
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/forwarder"
	"baton/lab"
)

// TestRun puts the measures to every contender, as briefly as can be: the figures mean nothing, but everything must pass.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	for _, e := range []experiments.Experiment[*forwarder.Topology]{forwarder.Experiment(), forwarder.ControlPlane()} {
		t.Run(e.Name, func(t *testing.T) {
			r, err := e.Run(t.Context(), experiments.Options{Quick: true, Duration: 50 * time.Millisecond, Program: program, Progress: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(r.Samples), len(e.Contenders)*len(e.Measures); got != want {
				t.Fatalf("%d samples, want %d", got, want)
			}
			for _, s := range r.Samples {
				none := strings.HasPrefix(s.Measure, "program") && !strings.HasPrefix(s.Contender, "baton")
				if s.Value <= 0 && !none {
					t.Errorf("%+v", s)
				}
			}
			for _, c := range e.Claims {
				if f, err := c.Ours(r); err != nil || f.Median <= 0 {
					t.Errorf("%s: %+v, %v", c.What, f, err)
				}
			}
		})
	}
}
