package relaycost

import (
	"testing"

	"baton/experiments"
)

func TestFigures(t *testing.T) {
	r := &experiments.Results{}
	sample := func(round int, contender, measure string, value, machine, own float64) {
		r.Samples = append(r.Samples, experiments.Sample{Round: round, Contender: contender, Measure: measure, Value: value,
			CPU: &experiments.Usage{Machine: machine, Contender: own}})
	}
	for round := 1; round <= 3; round++ {
		sample(round, "direct", newName, 100, 10e-6, 0)
		sample(round, "baton", newName, 140, 60e-6, 20e-6)
	}
	sample(1, "haproxy", newName, 90, 110e-6, 40e-6) // the other rounds were interrupted
	tests := []struct {
		name   string
		figure experiments.Figure
		want   float64
		rounds int
	}{
		{"added", added(newName, "baton", "haproxy"), 0.5, 1},
		{"own", own(newName, "baton", "haproxy"), 0.5, 1},
		{"later", later(newName), 40, 3},
		{"flows of a processor", flowsOfAProcessor, 20_000, 3},
		{"flows of its own time", flowsOfOwn, 50_000, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := tt.figure(r)
			if err != nil || e.Rounds != tt.rounds || e.Median < tt.want*0.999 || e.Median > tt.want*1.001 {
				t.Errorf("%+v, %v; want %v of %d rounds", e, err, tt.want, tt.rounds)
			}
		})
	}
	if _, err := later(oneName)(r); err == nil {
		t.Error("a figure of nothing")
	}
}
