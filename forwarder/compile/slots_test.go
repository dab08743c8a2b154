package compile

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"baton/openflow"
)

// TestSlotsFollowWeights: each bucket has its share of the slots, to 2 %.
func TestSlotsFollowWeights(t *testing.T) {
	tests := [][]uint16{
		{1}, {1, 1}, {1, 2}, {1, 10}, {3, 5, 7}, {1000, 3000}, slices.Repeat([]uint16{1}, 100), slices.Repeat([]uint16{7}, 256),
		slices.Concat(slices.Repeat([]uint16{2}, 50), slices.Repeat([]uint16{3}, 50)),
	}
	for _, weights := range tests {
		t.Run(fmt.Sprintf("%d buckets from %d", len(weights), weights[0]), func(t *testing.T) {
			total := 0
			var buckets []openflow.Bucket
			for _, w := range weights {
				total += int(w)
				buckets = append(buckets, openflow.Bucket{Weight: w})
			}
			slots := Slots(buckets)
			if n := len(slots); n == 0 || n&(n-1) != 0 {
				t.Fatalf("%d slots", n)
			}
			count := make([]int, len(weights))
			for _, b := range slots {
				count[b]++
			}
			for i, n := range count {
				want := float64(weights[i]) / float64(total)
				if is := float64(n) / float64(len(slots)); math.Abs(is-want) > 0.02*want {
					t.Errorf("bucket %d has %.4f of the slots, want %.4f", i, is, want)
				}
			}
		})
	}
}

// TestSlotsWithoutWeight: no bucket is chosen by its weight, so that the first that lives is.
func TestSlotsWithoutWeight(t *testing.T) {
	for _, buckets := range [][]openflow.Bucket{nil, {{}}, {{}, {}}} {
		if slots := Slots(buckets); slots != nil {
			t.Errorf("%d buckets without a weight have %d slots", len(buckets), len(slots))
		}
	}
	if slots := Slots([]openflow.Bucket{{Weight: 0}, {Weight: 5}}); slices.Contains(slots, 0) {
		t.Error("a bucket without a weight has slots")
	}
}
