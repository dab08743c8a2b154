package accesslog_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/accesslog"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun runs all measures on every contender briefly: the figures mean nothing, but every response must be correct to the byte, and every
// request in the log.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	r, err := accesslog.Experiment().Run(t.Context(), experiments.Options{
		Quick: true, Duration: 100 * time.Millisecond, Program: experimentstest.Program(t), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Samples), 6*len(r.Measures); got != want {
		t.Fatalf("%d samples, want %d", got, want)
	}
	for _, s := range r.Samples {
		if (s.Value == 0) != (s.Measure == "lost") || s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	}
}
