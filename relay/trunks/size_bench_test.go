package trunks

import (
	"testing"
	"time"
)

// BenchmarkTook: what a flow costs.
func BenchmarkTook(b *testing.B) {
	s, now := NewSizer(4, 256, 100*time.Millisecond, func() float64 { return 0 }), time.Duration(0)
	for b.Loop() {
		now += time.Millisecond
		s.Took(now)
		s.Open(now, 50, 100)
	}
}
