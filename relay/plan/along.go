package plan

import "slices"

// Along estimates a given route, whatever the rules say about it; without relays it is the direct one. It returns false if a round-trip
// time is unknown. The question is not checked, and its relays are ignored.
func Along(question Question, relays []string) (Times, bool) {
	q := question.withDefaults()
	nodes := slices.Concat([]string{q.Client}, relays, []string{q.Server})
	var hops []hop
	for i, to := range nodes[1:] {
		rtt, ok := q.RTTs.RTT(nodes[i], to)
		if !ok {
			return Times{}, false
		}
		hops = append(hops, q.hop(nodes[i], to, rtt))
	}
	return q.times(hops), true
}
