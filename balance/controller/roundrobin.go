package controller

import "baton/balance/tables"

// turns is smooth weighted round robin: each turn every link gets its weight, the one that then has most is chosen and pays for all. With equal
// weights it is the paper's: flowCounter mod N.
type roundRobin map[int]int // what a link has, by its place

// next chooses among the links that have a weight. There is one at least.
func (t roundRobin) next(options []tables.Option) int {
	best, sum := -1, 0
	weighted := make(map[int]bool, len(options))
	for _, o := range options {
		if o.Weight == 0 {
			continue
		}
		weighted[o.Place] = true
		t[o.Place] += int(o.Weight)
		sum += int(o.Weight)
		if best < 0 || t[o.Place] > t[best] {
			best = o.Place
		}
	}
	for place := range t {
		if !weighted[place] { // it begins anew when it is back
			delete(t, place)
		}
	}
	t[best] -= sum
	return best
}
