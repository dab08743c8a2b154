package anycastflashcrowd

import "math"

// mean and swing of a series: its mean, and its standard deviation beside the mean.
func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}

func swing(x []float64) float64 {
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	if m == 0 {
		return 0
	}
	return math.Sqrt(sum/float64(len(x))) / m
}

// rhythm is how much a series repeats itself: the greatest autocorrelation at a lag, beyond the one at which it has first fallen below
// zero. Noise has little; downloads that ramp up and back off together, and go on to do so, come near 1.
func rhythm(x []float64) float64 {
	m, power := mean(x), 0.0
	for _, v := range x {
		power += (v - m) * (v - m)
	}
	if power == 0 {
		return 0
	}
	best, fallen := 0.0, false
	for lag := 1; lag <= len(x)/2; lag++ {
		sum := 0.0
		for i := lag; i < len(x); i++ {
			sum += (x[i] - m) * (x[i-lag] - m)
		}
		// As many products at each lag: the unbiased estimate.
		r := sum / float64(len(x)-lag) / (power / float64(len(x)))
		fallen = fallen || r < 0
		if fallen {
			best = max(best, r)
		}
	}
	return best
}
