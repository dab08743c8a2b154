package anycastresets_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/anycastresets"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun asks briefly for one case: the figures mean little, but everyone must get on in spite of resets, and not one byte may be wrong.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	path := experimentstest.Program(t)
	e := anycastresets.Experiment()
	r, err := e.Run(t.Context(), experiments.Options{Rounds: 1, Duration: 4 * time.Second, Cases: []string{"every 1 s, loss 0.01 %, rtt 50 ms"}, Program: path, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(e.Contenders); len(r.Samples) != want {
		t.Errorf("%d samples, want %d", len(r.Samples), want)
	}
	for _, s := range r.Samples {
		if s.Value < 1 || s.Value > 10 || s.Errors != 0 || (s.Also["resets"] >= 2) != (s.Contender != "undisturbed") {
			t.Errorf("%+v", s)
		}
	}
}

// TestGrid: a whole run is bounded, and every goal is one of a case that is asked about.
func TestGrid(t *testing.T) {
	about := anycastresets.Experiment().About()
	e := anycastresets.Experiment()
	if whole := time.Duration(len(about.Cases)*e.Rounds) * e.Duration; whole > 25*time.Minute {
		t.Errorf("%d cases take up to %s", len(about.Cases), whole)
	}
	for _, x := range []experiments.Experiment[*anycastresets.Topology]{e, anycastresets.Grid()} {
		r := &experiments.Results{Cases: x.About().Cases}
		for _, c := range r.Cases {
			for _, contender := range []string{"undisturbed", "baton"} {
				r.Samples = append(r.Samples, experiments.Sample{Round: 1, Case: c.Name, Contender: contender, Measure: "goodput", Value: 8})
			}
		}
		if len(x.Claims) != 16 {
			t.Errorf("%s has %d goals", x.Name, len(x.Claims))
		}
		for _, c := range x.Claims {
			if e, err := c.Ours(r); err != nil || e.Median != 1 {
				t.Errorf("%s: %s: %v, %v", x.Name, c.What, e, err)
			}
		}
	}
}
