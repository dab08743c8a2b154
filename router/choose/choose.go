// Package choose implements the policies of pools. It is pure: surrogates and their state go in, a table of slots comes out, from
// which both the kernel program and user space choose. Same input, same table.
package choose

import (
	"baton/router/config"
)

// Slots is the size limit of a table. It is prime, as required by Maglev.
const Slots = 1021

// Candidate is a surrogate of a pool and its state.
type Candidate struct {
	Name     string
	Weight   int  // as config.Surrogate.Weight
	Up       bool // by its health checks
	Draining bool // by the operator: keeps its sessions, gets no new ones
	Priority int  // as config.Surrogate.Priority
	Standby  bool // one of a lower priority number is available
}

// Candidates lists the pool's surrogates, in the file's order, with their state. A table's slots are indices into it, and so into
// pool.Surrogates.
func Candidates(pool *config.Pool, state func(name string) (up, draining bool)) []Candidate {
	out := make([]Candidate, len(pool.Surrogates))
	for i, s := range pool.Surrogates {
		up, draining := state(s.Name)
		out[i] = Candidate{Name: s.Name, Weight: s.Weight, Up: up, Draining: draining, Priority: s.Priority}
	}
	Rank(out)
	return out
}

// Rank makes candidates standby while one of a lower priority number is available (RFC 2782).
func Rank(candidates []Candidate) {
	best, some := 0, false
	for i := range candidates {
		c := &candidates[i]
		c.Standby = false
		if c.Excluded() == "" && (!some || c.Priority < best) {
			best, some = c.Priority, true
		}
	}
	for i := range candidates {
		candidates[i].Standby = some && candidates[i].Priority > best
	}
}

// Excluded is the reason for which the candidate gets no new sessions, "" if it can be chosen.
func (c *Candidate) Excluded() string {
	switch {
	case c.Draining:
		return "draining"
	case !c.Up:
		return "down"
	case c.Weight <= 0:
		return "weight 0"
	case c.Standby:
		return "standby"
	}
	return ""
}

// Table returns the slots of a pool, at most Slots indices of candidates; empty if none is available. The policy determines how a
// slot is chosen:
//
//   - round-robin: each candidate once; the next slot (Pick).
//   - weighted: each candidate as often as its weight, evenly spread (smooth weighted round-robin); the next slot.
//   - least-sessions: each candidate once; the one with the fewest sessions (Least).
//   - hash: Maglev's table; the slot of the hash (Slot).
//   - nearest: each candidate once, as round-robin, for clients of no zone; Nearest returns the zones' tables.
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

// Pick returns the surrogate of the next slot; turn is the pool's round-robin counter. False for an empty table.
func Pick(table []uint16, turn uint64) (uint16, bool) {
	if len(table) == 0 {
		return 0, false
	}
	return table[turn%uint64(len(table))], true
}

// Least returns the surrogate with the fewest sessions; ties are broken by round-robin. False for an empty table.
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
