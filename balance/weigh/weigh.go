// Package weigh computes weights of links, their shares of new flows, from measurements. It is pure.
package weigh

import (
	"math"
	"slices"
	"time"

	"baton/balance/config"
	"baton/balance/measure"
)

// Link is the input for a weight.
type Link struct {
	Fixed int // configured weight; 0: measured
	measure.Figures
}

// Weigher keeps the current weights. Its zero value with a configuration is ready.
type Weigher struct {
	Config config.Weights

	last           time.Duration // time of the last call
	received, sent float64       // recent bits, with exponential decay: the host's average, not its momentary traffic

	since   time.Duration // when the weights were activated
	ratios  []float64     // that the weights approximate
	weights []uint16
}

// lately is the half-life of the host's recent traffic.
const lately = time.Minute

// hysteresis is the relative difference to the current weights that is needed for a change: less is noise, and each change costs a round of
// messages.
const hysteresis = 0.1

// Weigh returns the current weights, and whether they have changed. They change at most every Config.Every, and only for a significant
// difference. The clock is monotonic. The slice belongs to the Weigher.
func (w *Weigher) Weigh(now time.Duration, links []Link) ([]uint16, bool) {
	ratios := ratios(links, w.Config, w.downShare(now, links))
	if len(w.ratios) == len(ratios) && (now-w.since < w.Config.Every || alike(w.ratios, ratios)) {
		return w.weights, false
	}
	before := w.weights
	w.since, w.ratios, w.weights = now, ratios, integers(links, ratios)
	return w.weights, !slices.Equal(before, w.weights)
}

func alike(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > hysteresis*a[i] {
			return false
		}
	}
	return true
}

// downShare returns the incoming share of the host's recent traffic; 1 without traffic, because hosts mostly download.
func (w *Weigher) downShare(now time.Duration, links []Link) float64 {
	between := max(now-w.last, 0).Seconds()
	w.last = now
	left := math.Exp2(-between / lately.Seconds())
	w.received, w.sent = w.received*left, w.sent*left
	for _, l := range links {
		w.received += l.ReceivedRate * between
		w.sent += l.SentRate * between
	}
	switch share := w.received / (w.received + w.sent); {
	case w.received+w.sent <= 0 || share > 1-acknowledgements:
		return 1
	case share < acknowledgements:
		return 0
	default:
		return share
	}
}

// acknowledgements: a direction with less than this share of the bytes mostly carries acknowledgements, and does not count.
const acknowledgements = 0.1

// ratios returns the links' relative weights: configured ones unchanged, and measured ones on the same scale. Without configured ones the
// mean is 1.
func ratios(links []Link, bounds config.Weights, downShare float64) []float64 {
	measured := goodputs(links, downShare)
	bound(measured, bounds)
	scale := scaleOf(links, measured)
	out := make([]float64, len(links))
	for i, l := range links {
		if out[i] = measured[i] * scale; l.Fixed > 0 {
			out[i] = float64(l.Fixed)
		}
	}
	return out
}

// goodputs returns what new flows can expect of the links, relative to each other. The mean is 1.
//
// Each direction counts by the host's use of it.
func goodputs(links []Link, received float64) []float64 {
	down := relative(links, func(f measure.Figures) measure.Capacity { return f.Down })
	up := relative(links, func(f measure.Figures) measure.Capacity { return f.Up })
	switch {
	case down == nil && up == nil:
		down, received = slices.Repeat([]float64{1}, len(links)), 1
	case up == nil:
		received = 1
	case down == nil:
		received = 0
	}
	out := make([]float64, len(links))
	for i, l := range links {
		if received > 0 {
			out[i] += received * down[i]
		}
		if received < 1 {
			out[i] += (1 - received) * up[i]
		}
		out[i] *= lossFactor(l.Loss)
	}
	normalize(out)
	return out
}

// relative returns capacities relative to each other; nil if none is known. An unknown link gets the mean of the known ones, or what it has
// carried if that is more: so it is used, and becomes known.
func relative(links []Link, of func(measure.Figures) measure.Capacity) []float64 {
	sum, known := 0.0, 0
	for _, l := range links {
		if c := of(l.Figures); c.Known() {
			sum += c.Rate
			known++
		}
	}
	if known == 0 {
		return nil
	}
	mean := sum / float64(known)
	out := make([]float64, len(links))
	for i, l := range links {
		if c := of(l.Figures); c.Known() {
			out[i] = c.Rate
		} else {
			out[i] = max(mean, c.Rate)
		}
	}
	normalize(out)
	return out
}

// usualLoss is what TCP causes by filling a queue: a well-used link has it, and must not lose weight for that, or weights would oscillate.
const usualLoss = 0.01

// lossFactor is the share of a link's capacity that its flows reach. A connection's rate is inversely proportional to the square root of
// the loss (Mathis et al., The macroscopic behavior of the TCP congestion avoidance algorithm, CCR 27(3), 1997), and the lost part is
// useless.
func lossFactor(loss float64) float64 {
	if loss <= usualLoss {
		return 1
	}
	return math.Sqrt(usualLoss/loss) * (1 - min(loss, 0.9))
}

// bound limits the ratios to the configuration's bounds, and none to 0.
func bound(ratios []float64, bounds config.Weights) {
	for i := range ratios {
		ratios[i] = max(min(ratios[i], float64(bounds.Most)/100), float64(bounds.Least)/100)
	}
}

// scaleOf returns the configured weight that corresponds to a measured ratio of 1: the average over the links with a configured weight.
func scaleOf(links []Link, measured []float64) float64 {
	var fixed, same float64
	for i, l := range links {
		if l.Fixed > 0 {
			fixed += float64(l.Fixed)
			same += measured[i]
		}
	}
	if fixed == 0 {
		return 1
	}
	return fixed / same
}

func normalize(v []float64) {
	var sum float64
	for _, x := range v {
		sum += x
	}
	for i := range v {
		v[i] *= float64(len(v)) / sum
	}
}

const (
	// mostWeight is the highest weight if all are measured.
	mostWeight = 1000
	// exact is the relative error that is accepted for smaller numbers, with which round-robin is more even.
	exact = 0.02
)

// integers returns the smallest weights in these ratios, from 1 to 1000 or to the highest configured one. Configured weights are all
// multiplied by the same number, or left unchanged.
func integers(links []Link, ratios []float64) []uint16 {
	if len(links) == 0 {
		return nil
	}
	highest, fixed, most := slices.Max(ratios), 0, mostWeight
	for _, l := range links {
		fixed = max(fixed, l.Fixed)
	}
	most = max(most, fixed)
	if fixed == 0 {
		for n := 1; n < most; n++ {
			if out, good := rounded(ratios, float64(n)/highest, most); good {
				return out
			}
		}
		out, _ := rounded(ratios, float64(most)/highest, most)
		return out
	}
	for n := 1; n*fixed <= most; n++ {
		if out, good := rounded(ratios, float64(n), most); good {
			return out
		}
	}
	out, _ := rounded(ratios, float64(max(1, min(most/fixed, int(float64(most)/highest)))), most)
	return out
}

func rounded(ratios []float64, scale float64, most int) (out []uint16, good bool) {
	good = true
	for _, r := range ratios {
		exactly := r * scale
		n := max(1, min(math.Round(exactly), float64(most)))
		good = good && math.Abs(n-exactly) <= exact*exactly
		out = append(out, uint16(n))
	}
	return out, good
}
