package endhost

import (
	"math"
	"slices"

	"baton/experiments/load"
)

// split divides a whole by weights. Every part is at least 1 where the whole suffices, and the largest remainders are rounded up.
func split(whole int, weights []int64) []int {
	var sum int64
	for _, w := range weights {
		sum += w
	}
	parts := make([]int, len(weights))
	left := whole
	for i := range parts { // what everyone has first
		if left > 0 && whole >= len(parts) {
			parts[i] = 1
			left--
		}
	}
	for ; left > 0; left-- { // one after the other to who is furthest behind
		best := 0
		for i := range parts {
			if float64(parts[i]+1)/float64(weights[i]) < float64(parts[best]+1)/float64(weights[best]) {
				best = i
			}
		}
		parts[best]++
	}
	return parts
}

// soonest is the link that would have a file of so many bytes first, after what is still to come by it.
func soonest(from []load.Underway, size int64, rate func(link int) int64) int {
	best, least := 0, math.Inf(1)
	for i, u := range from {
		if took := float64(u.Bytes+size) / float64(rate(i)); took < least { // a link of no rate takes for ever
			best, least = i, took
		}
	}
	return best
}

// oracle chooses a link of the case.
func (t *Topology) oracle(from []load.Underway, size int64) int {
	return soonest(from, size, func(i int) int64 { return t.used[i].capacity.Load() })
}

// fastest are the n links that take most, in their order.
func fastest(links []*uplink, n int) []*uplink {
	list := slices.Clone(links)
	slices.SortStableFunc(list, func(a, b *uplink) int { return int(b.capacity.Load() - a.capacity.Load()) })
	return list[:n]
}
