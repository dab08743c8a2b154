package clientaddress_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/clientaddress"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun runs all measures on every contender briefly: the figures mean nothing, but every response must be correct to the byte.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	r, err := clientaddress.Experiment().Run(t.Context(), experiments.Options{
		Quick: true, Duration: 100 * time.Millisecond, Program: experimentstest.Program(t), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Samples), 6*len(r.Measures); got != want {
		t.Fatalf("%d samples, want %d", got, want)
	}
	for _, s := range r.Samples {
		if s.Value <= 0 || s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	}
	for _, c := range clientaddress.Experiment().About().Claims {
		if e, err := c.Ours(r); err != nil || e.Median <= 0 {
			t.Errorf("%s: %+v, %v", c.What, e, err)
		}
	}
}

// TestLogs: each server names the right client for each connection.
func TestLogs(t *testing.T) {
	lab.NeedRoot(t)
	const n = 60
	r, err := clientaddress.Logs().Run(t.Context(), experiments.Options{Quick: true, Connections: n, Program: experimentstest.Program(t), Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Samples {
		want := map[string]float64{"right": n, "wrong": 0, "not logged": 0, "failed": 0}
		if w, ok := want[s.Measure]; ok && s.Value != w {
			t.Errorf("%+v", s)
		}
	}
}
