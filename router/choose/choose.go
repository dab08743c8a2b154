// Package choose picks a surrogate of a pool: the one place where each policy lives. It is pure: the surrogates and what
// is known of them go in, a table of slots comes out, from which the program in the kernel and the router in user space
// both choose. Same input, same table.
package choose

import (
	"baton/router/config"
)

// Slots is the most that a table holds. It is prime, as Maglev's permutations need.
const Slots = 1021

// Candidate is a surrogate of a pool and what is known of it at the moment.
type Candidate struct {
	Name     string
	Weight   int  // as config.Surrogate.Weight
	Up       bool // by its health checks
	Draining bool // by the operator: keeps its sessions, gets no new ones
}

// Candidates puts the pool's surrogates, in the file's order, together with their state. A table's slots are indices of
// the result, and so of pool.Surrogates.
func Candidates(pool *config.Pool, state func(name string) (up, draining bool)) []Candidate {
	out := make([]Candidate, len(pool.Surrogates))
	for i, s := range pool.Surrogates {
		up, draining := state(s.Name)
		out[i] = Candidate{Name: s.Name, Weight: s.Weight, Up: up, Draining: draining}
	}
	return out
}

// Excluded says why the candidate is chosen for nothing new, "" when it can be chosen.
func (c *Candidate) Excluded() string {
	switch {
	case c.Draining:
		return "draining"
	case !c.Up:
		return "down"
	case c.Weight <= 0:
		return "weight 0"
	}
	return ""
}

// Table gives the slots of a pool, at most Slots indices of candidates; empty when none can be chosen. How a slot is found
// depends on the policy:
//
//   - round-robin: each candidate once; the next turn is the next slot (Pick).
//   - weighted: each candidate as often as its weight says, spread evenly (smooth weighted round-robin); the next turn is
//     the next slot.
//   - least-sessions: each candidate once; the one with the fewest sessions (Least).
//   - hash: Maglev's table; the slot of the hash (Slot).
//   - nearest: each candidate once, for clients of no zone, as round-robin; Nearest gives the tables of the zones.
func Table(policy config.Policy, candidates []Candidate) []uint16 {
	switch policy {
	case config.Weighted:
		return weighted(candidates)
	case config.Hash:
		return maglev(candidates)
	}
	return eligible(candidates)
}

func eligible(candidates []Candidate) []uint16 {
	var table []uint16
	for i := range candidates {
		if candidates[i].Excluded() == "" && len(table) < Slots {
			table = append(table, uint16(i))
		}
	}
	return table
}

// Pick gives the surrogate whose turn it is; the caller counts the turns of the pool. It is false for an empty table.
func Pick(table []uint16, turn uint64) (uint16, bool) {
	if len(table) == 0 {
		return 0, false
	}
	return table[turn%uint64(len(table))], true
}

// Least gives the surrogate with the fewest sessions; of several, the first from the slot whose turn it is, so that ties
// rotate. It is false for an empty table.
func Least(table []uint16, turn uint64, sessions func(surrogate uint16) uint64) (uint16, bool) {
	best, ok := Pick(table, turn)
	if !ok {
		return 0, false
	}
	fewest := sessions(best)
	for i := 1; i < len(table); i++ {
		candidate := table[(turn%uint64(len(table))+uint64(i))%uint64(len(table))]
		if n := sessions(candidate); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best, true
}
