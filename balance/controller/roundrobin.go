package controller

import "baton/balance/tables"

// roundRobin is smooth weighted round-robin: each time, every link gets its weight; the link with the most is chosen and pays the sum. With
// equal weights it is the paper's: flowCounter mod N.
type roundRobin map[int]int // credit, by place of the link

// next chooses among the weighted links. There is at least one.
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
		if !weighted[place] { // it starts over when it is back
			delete(t, place)
		}
	}
	t[best] -= sum
	return best
}
