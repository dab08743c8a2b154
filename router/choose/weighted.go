package choose

// weighted returns nginx's smooth weighted round-robin as a sequence: at each step every candidate gains its weight, and the one
// with most pays the sum. A candidate of weight w is in it w times, divided by the weights' common divisor.
func weighted(candidates []Candidate) []uint16 {
	shares, length := shares(candidates)
	table := make([]uint16, 0, length)
	credit := make([]int, len(candidates))
	for range length {
		best := -1
		for i, share := range shares {
			credit[i] += share
			if share > 0 && (best < 0 || credit[i] > credit[best]) {
				best = i
			}
		}
		credit[best] -= length
		table = append(table, uint16(best))
	}
	return table
}

// shares returns how many slots each candidate has, and their sum: the weights in lowest terms or, if that exceeds Slots, scaled
// to it with at least one slot for each.
func shares(candidates []Candidate) ([]int, int) {
	out := make([]int, len(candidates))
	sum, divisor, count := 0, 0, 0
	for _, i := range eligible(candidates) {
		out[i] = candidates[i].Weight
		sum += out[i]
		divisor = gcd(divisor, out[i])
		count++
	}
	if sum == 0 {
		return out, 0
	}
	if sum /= divisor; sum <= Slots {
		for i := range out {
			out[i] /= divisor
		}
		return out, sum
	}
	// One slot for each, and the rest in proportion: the running sum is rounded down, not each share, so that no slot is
	// lost.
	free, before, total := Slots-count, 0, 0
	for i := range out {
		weight := out[i] / divisor
		if weight == 0 {
			continue
		}
		out[i] = 1 + free*(before+weight)/sum - free*before/sum
		before += weight
		total += out[i]
	}
	return out, total
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
