package choose

import (
	"cmp"
	"math"
	"slices"
)

// maglev returns the lookup table of Eisenbud et al., "Maglev" (NSDI 2016, section 3.4), with weights.
//
// The table is first filled with every candidate that has a weight, available or not; each slot of an unavailable one then goes
// to the available candidate with the highest score for it (weighted rendezvous hashing). So a surrogate that goes down or drains
// moves only its own slots, and gets the same ones back; plain Maglev would move a few more. The table depends on names and
// weights, not on the order in the file.
func maglev(candidates []Candidate) []uint16 {
	if len(eligible(candidates)) == 0 {
		return nil
	}
	order := make([]int, 0, len(candidates))
	heaviest := 0
	for i, c := range candidates {
		if c.Weight > 0 {
			order = append(order, i)
			heaviest = max(heaviest, c.Weight)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(candidates[a].Name, candidates[b].Name) })

	table := make([]uint16, Slots)
	owner := fill(candidates, order, heaviest)
	for slot := range table {
		i := owner[slot]
		if candidates[i].Excluded() != "" {
			i = heir(candidates, order, slot)
		}
		table[slot] = uint16(i)
	}
	return table
}

// fill assigns slots to the candidates in turn, in proportion to their weights; each takes the first free slot of its
// permutation.
func fill(candidates []Candidate, order []int, heaviest int) []int {
	owner := make([]int, Slots)
	for slot := range owner {
		owner[slot] = -1
	}
	next, skip, credit := make([]uint64, len(order)), make([]uint64, len(order)), make([]int, len(order))
	for k, i := range order {
		h := hashName(candidates[i].Name)
		next[k] = mix(h) % Slots
		skip[k] = mix(h+1)%(Slots-1) + 1
	}
	for taken := 0; ; {
		for k, i := range order {
			if credit[k] += candidates[i].Weight; credit[k] < heaviest {
				continue
			}
			credit[k] -= heaviest
			for owner[next[k]] >= 0 {
				next[k] = (next[k] + skip[k]) % Slots
			}
			owner[next[k]] = i
			if taken++; taken == Slots {
				return owner
			}
		}
	}
}

// heir returns the available candidate with the highest score for the slot: weight / -ln(u), with u uniform in (0,1) by name and
// slot, so that each wins in proportion to its weight.
func heir(candidates []Candidate, order []int, slot int) int {
	best, highest := -1, 0.0
	for _, i := range order {
		if candidates[i].Excluded() != "" {
			continue
		}
		u := (float64(mix(hashName(candidates[i].Name)^mix(uint64(slot)+1))>>11) + 0.5) / (1 << 53)
		if score := float64(candidates[i].Weight) / -math.Log(u); best < 0 || score > highest {
			best, highest = i, score
		}
	}
	return best
}

func hashName(name string) uint64 { return fnv1a(offset64, []byte(name)) }

// mix is the finalizer of splitmix64: similar names get unrelated values.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
