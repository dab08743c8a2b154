package anycastflashcrowd

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestRhythm(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	series := func(of func(i int) float64) []float64 {
		x := make([]float64, 300)
		for i := range x {
			x[i] = of(i)
		}
		return x
	}
	tests := []struct {
		name        string
		x           []float64
		least, most float64
		swing       float64
	}{
		{"noise", series(func(int) float64 { return 100 + 10*random.NormFloat64() }), 0, 0.35, 0.1},
		{"a wave", series(func(i int) float64 { return 100 + 10*math.Sin(float64(i)/3) }), 0.9, 1.1, 0.07},
		{"a wave in noise", series(func(i int) float64 { return 100 + 20*math.Sin(float64(i)/3) + 5*random.NormFloat64() }), 0.7, 1.1, 0.15},
		{"full and empty alternately", series(func(i int) float64 { return float64(i / 10 % 2 * 417) }), 0.9, 1.1, 1},
		{"a slope", series(func(i int) float64 { return 100 + float64(i)/10 }), 0, 0.2, 0.075},
		{"nothing", series(func(int) float64 { return 0 }), 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if r := rhythm(tt.x); r < tt.least || r > tt.most {
				t.Errorf("rhythm %.2f, want %.2f to %.2f", r, tt.least, tt.most)
			}
			if s := swing(tt.x); math.Abs(s-tt.swing) > 0.02 {
				t.Errorf("swing %.3f, want %.3f", s, tt.swing)
			}
		})
	}
}
