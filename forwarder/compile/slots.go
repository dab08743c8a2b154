package compile

import "baton/openflow"

// leastSlots and mostSlots bound how many slots a select group has; each bucket of the mean weight has perBucket of them, so that a share is
// right to half a slot in as many.
const (
	leastSlots = 256
	mostSlots  = 16384
	perBucket  = 64
)

// Slots gives each of a power of two of slots to a bucket, in proportion to the weights: what a hash chooses from. Without any
// weight there are none. The slots of a bucket are spread over all.
func Slots(buckets []openflow.Bucket) []uint32 {
	total := 0
	for _, b := range buckets {
		total += int(b.Weight)
	}
	if total == 0 {
		return nil
	}
	n := leastSlots
	for n < mostSlots && n < perBucket*len(buckets) {
		n *= 2
	}
	// Smooth weighted round robin: in each turn everyone earns its weight, and the richest pays the total.
	slots := make([]uint32, n)
	earned := make([]int, len(buckets))
	for i := range slots {
		richest := 0
		for b := range buckets {
			earned[b] += int(buckets[b].Weight)
			if earned[b] > earned[richest] {
				richest = b
			}
		}
		earned[richest] -= total
		slots[i] = uint32(richest)
	}
	return slots
}
