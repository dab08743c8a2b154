package endhost

import (
	"slices"
	"testing"
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

// TestPerfect: all requests are divided by the rates, links that fail have none, and what is under way at a time is divided by the rates, too.
func TestPerfect(t *testing.T) {
	rates := []int64{10, 20}
	p := &perfect{capacity: func(i int) int64 { return rates[i] }, left: split(30, rates)}
	open, all := make([]int, 2), make([]int, 2)
	for range 9 {
		i := p.choose(open)
		open[i]++
		all[i]++
	}
	if !slices.Equal(open, []int{3, 6}) {
		t.Errorf("%v under way, want 3 and 6", open)
	}
	for n := 9; n < 30; n++ { // whatever ends first
		open[n%2]--
		i := p.choose(open)
		open[i]++
		all[i]++
	}
	if !slices.Equal(all, []int{10, 20}) {
		t.Errorf("%v in all, want 10 and 20", all)
	}
	p.left, rates[1] = nil, 0
	for range 5 {
		if i := p.choose([]int{100, 0}); i != 0 {
			t.Errorf("link %d has failed, and was chosen", i)
		}
	}
}
