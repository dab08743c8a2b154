package anycastflashcrowd_test

import (
	"testing"

	"baton/experiments"
	"baton/experiments/anycastflashcrowd"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun asks briefly: the figures mean little, but no download may fail, begin again or have a wrong byte; those that move with the
// routes must have met two sites, and those that are bound one.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	e := anycastflashcrowd.Experiment()
	r, err := e.Run(t.Context(), experiments.Options{Quick: true, Program: experimentstest.Program(t), Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(e.Contenders) * len(e.Measures); len(r.Samples) != want {
		t.Errorf("%d samples, want %d", len(r.Samples), want)
	}
	courses := 0
	for _, s := range r.Samples {
		if s.Errors != 0 || s.Also["restarts"] != 0 || s.Also["downloads"] < 30 || (s.Also["switches"] > 0) != (s.Contender == "anycast") {
			t.Errorf("%+v", s)
		}
		if s.Course != nil && len(s.Course.Values) > 10 {
			courses++
		}
	}
	if courses != 4 {
		t.Errorf("%d courses", courses)
	}
	if files, err := r.Report(t.TempDir(), e.About()); err != nil || len(files) != 1+len(e.Plots) {
		t.Errorf("report: %v, %v", files, err)
	}
}
