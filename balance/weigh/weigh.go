// Package weigh makes weights of what is known of links: how many of the new flows each gets. It is pure.
package weigh

import (
	"math"
	"slices"
	"time"

	"baton/balance/config"
	"baton/balance/measure"
)

// Link is what a weight depends on.
type Link struct {
	Fixed int // the configuration's weight; 0: it is measured
	measure.Figures
}

// Weigher remembers which weights are in force. Its zero value with a configuration is ready.
type Weigher struct {
	Config config.Weights

	last           time.Duration // when it was asked before
	received, sent float64       // bits of late, forgotten bit by bit: what the host does, not what it does this moment

	since   time.Duration // when the weights were put in force
	ratios  []float64     // that they stand for
	weights []uint16
}

// lately is in what time half of what the host did is forgotten.
const lately = time.Minute

// hysteresis is by what part a weight differs, to others, from the one in force before any is changed: less is noise of the measures, and
// each change costs a round of messages.
const hysteresis = 0.1

// Weigh says which weights are in force from now on, and whether they are others than before. They are changed Config.Every at most, and
// not for little. The clock is one that only goes forward. The slice is the Weigher's own.
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

// downShare is the part of the host's traffic of late that comes in; 1 when there is none: hosts download.
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

// acknowledgements: with less than that share of the bytes a direction carries little else, and does not count.
const acknowledgements = 0.1

// ratios are what the links' weights stand for: those of the configuration as they are, if there are any, and measured ones on the same
// scale. Else their mean is 1.
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

// goodputs are what new flows can expect of the links, in relation to each other. The mean is 1.
//
// Of the two directions each counts as much as the host uses it.
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

// relative are capacities in relation to each other; nil if none is known. A link that is not known gets the mean of those that are, or
// what it has carried, if that is more: by that it is used, and becomes known.
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

// usualLoss is what TCP makes of a queue that is full: a link that is well used has it, and is not to lose weight for that, or weights
// would swing.
const usualLoss = 0.01

// lossFactor is by how much a link's flows stay behind its capacity. One connection carries in inverse proportion to the root of the loss
// (Mathis et al., The macroscopic behavior of the TCP congestion avoidance algorithm, CCR 27(3), 1997), and of what it sends the lost part
// is of no use.
func lossFactor(loss float64) float64 {
	if loss <= usualLoss {
		return 1
	}
	return math.Sqrt(usualLoss/loss) * (1 - min(loss, 0.9))
}

// bound keeps relations to the mean within the configuration's bounds, and none at 0.
func bound(ratios []float64, bounds config.Weights) {
	for i := range ratios {
		ratios[i] = max(min(ratios[i], float64(bounds.Most)/100), float64(bounds.Least)/100)
	}
}

// scaleOf is what a measured relation of 1 is in the configuration's weights: as the links with such a weight have been measured, or are on
// the average.
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
	// mostWeight is the highest of weights that are measured alone.
	mostWeight = 1000
	// exact is by what part a weight may differ from what it stands for, if smaller numbers do: with small ones the links take turns more
	// evenly.
	exact = 0.02
)

// integers are the smallest weights in such relations, from 1 to 1000, or to the highest that is fixed. Fixed ones are multiplied by the
// same number, or are as they are.
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
