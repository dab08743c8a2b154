package experiments

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"baton/experiments/load"
)

// Distribution summarizes a histogram of times, in seconds.
type Distribution struct {
	Count int64   `json:"count"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// NewDistribution converts a histogram of nanoseconds.
func NewDistribution(h *hdrhistogram.Histogram) *Distribution {
	at := func(quantile float64) float64 { return float64(h.ValueAtQuantile(quantile)) / 1e9 }
	return &Distribution{h.TotalCount(), float64(h.Min()) / 1e9, at(50), at(90), at(99), at(99.9), float64(h.Max()) / 1e9}
}

// Loaded returns the sample of a run of the load generator: its value, the times of its complete requests, its errors. A run without a
// single response is an error.
func Loaded(r load.Result, value, work float64) (Sample, error) {
	if r.Requests == 0 {
		return Sample{}, fmt.Errorf("no request was answered: %w", r.First)
	}
	s := Sample{Value: value, Work: work, Single: NewDistribution(r.Total), Errors: r.Errors}
	if r.First != nil {
		s.First = r.First.Error()
	}
	if r.Reopened > 0 {
		s.Also = map[string]float64{"reopened": float64(r.Reopened)}
	}
	return s, nil
}
