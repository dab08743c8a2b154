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
	const kase = "every 1 s, loss 0.01 %, rtt 50 ms"
	chosen := []string{"undisturbed", "baton", "baton-route", "curl", "aria2"}
	e := anycastresets.Experiment()
	r, err := e.Run(t.Context(), experiments.Options{Rounds: 1, Duration: 4 * time.Second, Cases: []string{kase}, Contenders: chosen, Program: path, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(chosen); len(r.Samples) != want {
		t.Errorf("%d samples, want %d", len(r.Samples), want)
	}
	for _, s := range r.Samples {
		if s.Value < 1 || s.Value > 10 || s.Errors != 0 || (s.Also["resets"] >= 2) != (s.Contender != "undisturbed") {
			t.Errorf("%+v", s)
		}
	}
}
