package experiments

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestEstimate(t *testing.T) {
	tests := []struct {
		name    string
		samples []float64
		want    Estimate
	}{
		{"one", []float64{7}, Estimate{Median: 7, Low: 7, High: 7, Rounds: 1}},
		{"two", []float64{9, 7}, Estimate{Median: 8, Low: 7, High: 9, Coverage: 0.5, Rounds: 2}},
		{"five: all of them", []float64{5, 1, 4, 2, 3}, Estimate{Median: 3, Low: 1, High: 5, Coverage: 0.9375, Rounds: 5}},
		{"six", []float64{6, 5, 1, 4, 2, 3}, Estimate{Median: 3.5, Low: 1, High: 6, Coverage: 0.96875, Rounds: 6}},
		{"eight: seven would do", []float64{8, 7, 6, 5, 1, 4, 2, 3}, Estimate{Median: 4.5, Low: 1, High: 8, Coverage: 0.9921875, Rounds: 8}},
		{"nine: the outermost are left out", []float64{9, 8, 7, 6, 5, 1, 4, 2, 3}, Estimate{Median: 5, Low: 2, High: 8, Coverage: 0.9609375, Rounds: 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := estimate(tt.samples); got != tt.want {
				t.Errorf("estimate: %+v, want %+v", got, tt.want)
			}
		})
	}
	if e := estimate(nil); e.Rounds != 0 || !math.IsNaN(e.Median) {
		t.Errorf("of nothing: %+v", e)
	}
}

// TestCoverageHolds draws samples whose median is known, and counts how often the interval holds it.
func TestCoverageHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const runs = 20000
	for _, n := range []int{5, 9, 20} {
		held, coverage := 0, 0.0
		for range runs {
			samples := make([]float64, n)
			for i := range samples {
				samples[i] = random.ExpFloat64() // skewed: its median is ln 2
			}
			e := estimate(samples)
			coverage = e.Coverage
			if e.Low <= math.Ln2 && math.Ln2 <= e.High {
				held++
			}
		}
		if got := float64(held) / runs; math.Abs(got-coverage) > 0.01 {
			t.Errorf("%d rounds: the interval holds the median in %.4f of all runs, and says %.4f", n, got, coverage)
		}
	}
}
