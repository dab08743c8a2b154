package endhost_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/endhost"
	"baton/lab"
)

func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	r, err := endhost.Experiment().Run(t.Context(), experiments.Options{Rounds: 1, Duration: time.Second, Cases: []string{"100 kB, 10 + 20 Mbit/s", "100 kB, 10 + 10 Mbit/s"}, Contenders: []string{"one-link", "ideal", "oracle", "mptcp"}, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	r.Text(t.Output(), endhost.Experiment().About())
	for _, s := range r.Samples {
		t.Log(s.Contender, s.Case, s.Measure, s.Value, s.Also, s.Errors, s.First)
	}
}
