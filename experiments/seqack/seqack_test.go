package seqack_test

import (
	"testing"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/seqack"
	"baton/lab"
)

// TestRun sends some mebibytes through every contender: the figures mean nothing, but a session whose numbers are not right at both
// ends does not get there.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	e := seqack.Experiment()
	r, err := e.Run(t.Context(), experiments.Options{Quick: true, Program: experimentstest.Program(t), Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Samples), len(r.Cases)*len(e.Contenders)*len(e.Measures); got != want {
		t.Fatalf("%d samples, want %d", got, want)
	}
	for _, s := range r.Samples {
		if s.Value <= 0 {
			t.Errorf("%+v", s)
		}
	}
}
