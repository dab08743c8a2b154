package compile

import "baton/openflow"

// A select group has from leastSlots to mostSlots slots. A bucket of average weight has perBucket of them, so that its share is accurate to
// half a slot in as many.
const (
	leastSlots = 256
	mostSlots  = 16384
	perBucket  = 64
)

// Slots assigns slots, a power of two, to buckets in proportion to their weights, for selection by hash. Without weights there are none. The
// slots of a bucket are spread evenly.
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
	// Smooth weighted round-robin: each round everyone earns its weight, and the one with the most credit pays the total.
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
