package endhost

import "slices"

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

// perfect chooses links with perfect knowledge.
type perfect struct {
	capacity func(link int) int64 // bits a second, now
	left     []int                // requests that each link should have yet; nil: as many as it takes
}

// choose chooses the link with the fewest requests under way for what it takes, of those that should have more; where they are alike, the
// one that has most before it.
func (p *perfect) choose(open []int) int {
	best := -1
	var least, most float64
	for i, n := range open {
		takes := float64(p.capacity(i))
		if takes == 0 || p.left != nil && p.left[i] == 0 {
			continue
		}
		load, before := float64(n+1)/takes, 0.0
		if p.left != nil {
			before = float64(p.left[i]) / takes
		}
		if best < 0 || load < least || load == least && before > most {
			best, least, most = i, load, before
		}
	}
	if best < 0 { // nothing is right: a request that is repeated, or no link that works
		return 0
	}
	if p.left != nil {
		p.left[best]--
	}
	return best
}

// oracle divides so many requests; 0: an unknown number.
func (t *Topology) oracle(requests int) *perfect {
	p := &perfect{capacity: func(i int) int64 { return t.used[i].capacity.Load() }}
	if requests > 0 {
		var weights []int64
		for i := range t.used {
			weights = append(weights, p.capacity(i))
		}
		p.left = split(requests, weights)
	}
	return p
}

// fastest are the n links that take most, in their order.
func fastest(links []*uplink, n int) []*uplink {
	list := slices.Clone(links)
	slices.SortStableFunc(list, func(a, b *uplink) int { return int(b.capacity.Load() - a.capacity.Load()) })
	return list[:n]
}
