package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Pair is two nodes by name: the source and the target of a measurement.
type Pair struct{ From, To string }

func (p Pair) String() string { return p.From + " to " + p.To }

// Matrix holds round-trip times between nodes, both relays and end points. It may lack pairs that were not measured or did not answer.
type Matrix map[Pair]time.Duration

// Set records a measurement.
func (m Matrix) Set(from, to string, rtt time.Duration) { m[Pair{from, to}] = rtt }

// RTT returns the round-trip time between two nodes, and whether it is known. Both directions measure the same path, so the smaller value
// counts: queues and load only add to it.
func (m Matrix) RTT(a, b string) (time.Duration, bool) {
	there, ok := m[Pair{a, b}]
	back, found := m[Pair{b, a}]
	if ok && found {
		return min(there, back), true
	}
	return max(there, back), ok || found
}

// longestRTT is an upper bound: a longer time is a mistake of units.
const longestRTT = time.Minute

func (m Matrix) check() error {
	for _, p := range sorted(m) {
		if rtt := m[p]; rtt <= 0 || rtt > longestRTT {
			return fmt.Errorf("round-trip time %s: %s is invalid (more than 0, at most %s)", p, rtt, longestRTT)
		}
	}
	return nil
}

// sorted returns the pairs of a map in order, for deterministic errors.
func sorted[V any](m map[Pair]V) []Pair {
	return slices.SortedFunc(maps.Keys(m), func(a, b Pair) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
}
