package choose

import (
	"fmt"
	"slices"
	"testing"

	"baton/router/config"
)

// TestStandby: candidates of a higher priority number serve while none of a lower one is available, under every policy.
func TestStandby(t *testing.T) {
	all := func() []Candidate {
		return []Candidate{
			{Name: "a", Weight: 1, Up: true, Priority: 10}, {Name: "b", Weight: 1, Up: true, Priority: 20},
			{Name: "c", Weight: 1, Up: true, Priority: 20}, {Name: "d", Weight: 1, Up: true, Priority: 30},
		}
	}
	for _, tt := range []struct {
		name   string
		change func([]Candidate)
		want   []uint16
	}{
		{"all are up", func([]Candidate) {}, []uint16{0}},
		{"the first is down", func(c []Candidate) { c[0].Up = false }, []uint16{1, 2}},
		{"the first drains", func(c []Candidate) { c[0].Draining = true }, []uint16{1, 2}},
		{"the first has no weight", func(c []Candidate) { c[0].Weight = 0 }, []uint16{1, 2}},
		{"one of the second is down, too", func(c []Candidate) { c[0].Up, c[1].Up = false, false }, []uint16{2}},
		{"the last alone", func(c []Candidate) { c[0].Up, c[1].Up, c[2].Up = false, false, false }, []uint16{3}},
		{"none", func(c []Candidate) {
			for i := range c {
				c[i].Up = false
			}
		}, nil},
	} {
		for _, policy := range []config.Policy{config.RoundRobin, config.Weighted, config.LeastSessions, config.Hash, config.Nearest} {
			t.Run(fmt.Sprint(tt.name, "/", policy), func(t *testing.T) {
				c := all()
				tt.change(c)
				Rank(c)
				got := slices.Clone(Table(policy, c))
				slices.Sort(got)
				if got = slices.Compact(got); !slices.Equal(got, tt.want) {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			})
		}
	}
}
