package plan

import "slices"

// Along estimates the way over relays that are given, from the first to the last, whatever the rules say of it; without any it is the
// direct way. False: a round-trip time on it is not known. The question's relays are of no interest, and it is not checked.
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
