package endhost

import (
	"slices"
	"testing"

	"baton/experiments/load"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		whole   int
		weights []int64
		want    []int
	}{
		{100, []int64{10, 10}, []int{50, 50}},
		{100, []int64{10, 10, 10}, []int{34, 33, 33}},
		{100, []int64{10, 20}, []int{33, 67}},
		{2, []int64{10, 20}, []int{1, 1}},
		{3, []int64{10, 20}, []int{1, 2}},
		{20, []int64{10, 20}, []int{7, 13}},
		{5, []int64{1, 100}, []int{1, 4}},
		{1, []int64{10, 20}, []int{0, 1}},
		{0, []int64{10, 20}, []int{0, 0}},
	}
	for _, tt := range tests {
		if got := split(tt.whole, tt.weights); !slices.Equal(got, tt.want) {
			t.Errorf("%d by %v are %v, want %v", tt.whole, tt.weights, got, tt.want)
		}
	}
}

func TestSoonest(t *testing.T) {
	tests := []struct {
		name  string
		bytes []int64 // still to come by each link
		rates []int64
		want  int
	}{
		{"both are empty", []int64{0, 0}, []int64{10, 20}, 1},
		{"the slow one, as the fast one has much before it", []int64{0, 150}, []int64{10, 20}, 0},
		{"alike", []int64{70, 30}, []int64{10, 10}, 1},
		{"one has failed", []int64{1000, 0}, []int64{10, 0}, 0},
		{"all have", []int64{1000, 0}, []int64{0, 0}, 0},
	}
	for _, tt := range tests {
		var from []load.Underway
		for _, n := range tt.bytes {
			from = append(from, load.Underway{Bytes: n})
		}
		if got := soonest(from, 100, func(i int) int64 { return tt.rates[i] }); got != tt.want {
			t.Errorf("%s: link %d, want %d", tt.name, got, tt.want)
		}
	}
}
