package experiments

import (
	"math"
	"slices"
)

// level is the coverage that an interval should reach; fewer than six rounds never do, and their interval is all samples.
const level = 0.95

// Estimate is a median over rounds, with an interval that contains the true median with the probability Coverage, for any distribution of
// the samples.
type Estimate struct {
	Median   float64 `json:"median"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Coverage float64 `json:"coverage"` // 0 for a single round: no interval
	Rounds   int     `json:"rounds"`
}

// estimate computes the interval from the order statistics: each of n samples is below the true median with probability one half, so the
// k-th smallest and the k-th largest enclose it unless fewer than k are on one side.
func estimate(samples []float64) Estimate {
	n := len(samples)
	if n == 0 {
		return Estimate{Median: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(samples))
	k, coverage := 1, coverageOf(n, 1)
	for next := 2; 2*next <= n; next++ {
		c := coverageOf(n, next)
		if c < level {
			break
		}
		k, coverage = next, c
	}
	return Estimate{Median: median(sorted), Low: sorted[k-1], High: sorted[n-k], Coverage: coverage, Rounds: n}
}

// coverageOf returns the probability that the interval from the k-th smallest to the k-th largest of n samples contains the median: 1 - 2
// P(B < k), B binomial with n trials of probability one half.
func coverageOf(n, k int) float64 {
	outside, term := 0.0, math.Pow(0.5, float64(n))
	for i := range k {
		outside += term
		term *= float64(n-i) / float64(i+1)
	}
	return 1 - 2*outside
}

// median of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[n/2]
}
