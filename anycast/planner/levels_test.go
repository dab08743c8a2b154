package planner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// three are sites of one capacity, at plain announcements.
func three(loads ...float64) []View {
	var out []View
	for i, load := range loads {
		out = append(out, View{
			Name: fmt.Sprintf("s%d", i), Fresh: true, Up: true, Load: load, Capacity: 100, Steps: []int{1, 2, 3},
		})
	}
	return out
}

func TestLevels(t *testing.T) {
	const settle = 2 * time.Minute
	type step struct {
		at     time.Duration
		views  []View
		want   string // proposals
		reason string
	}
	with := func(views []View, change func(v []View)) []View {
		change(views)
		return views
	}
	at := func(level int, views []View) []View { return with(views, func(v []View) { v[0].Level = level }) }
	m := time.Minute
	tests := []struct {
		name  string
		steps []step
	}{
		{"nothing is full", []step{{0, three(0.5, 0.6, 0.2), "000", "no site is full"}}},
		{"the fullest sheds, a step at a time", []step{
			{0, three(0.95, 1.1, 0.1), "010", "site s1 is 110 % full"},
			{1 * m, three(0.95, 1.1, 0.1), "010", "settles for 1m0s"},
			{2 * m, with(three(0.95, 0.85, 0.1), func(v []View) { v[1].Level = 1 }), "110", "site s0 is 95 % full"},
			{4 * m, with(three(0.7, 0.92, 0.1), func(v []View) { v[0].Level, v[1].Level = 1, 1 }), "120", "site s1 is 92 % full"},
		}},
		{"no site has headroom", []step{{0, three(1.2, 0.85, 0.8), "000", "no other has headroom"}}},
		{"too little headroom", []step{{0, three(1.5, 0.75), "00", "no other has headroom"}}},
		{"never all of them", []step{
			{0, three(0.95, 0.2), "10", "site s0 is 95 % full"},
			{3 * m, at(1, three(0.2, 0.95)), "10", "no other has a plain announcement"},
		}},
		{"back when it fits", []step{
			{0, three(1, 0.1), "10", ""},
			{2 * m, at(1, three(0.5, 0.6)), "10", "no site is full"}, // it would be 100 % again
			{4 * m, at(1, three(0.35, 0.6)), "00", "site s0 would be 70 % full a level higher"},
		}},
		{"a site that has not followed yet is not pushed further", []step{
			{0, three(1, 0.1), "10", ""}, {3 * m, three(1, 0.1), "10", "no site is full"},
		}},
		{"a site that an operator has instructed is left alone", []step{
			{0, with(three(1, 0.1), func(v []View) { v[0].Instructed = true }), "00", "no site is full"},
			{0, with(three(1, 0.1), func(v []View) { v[1].Instructed = true }), "00", "no other has headroom"},
		}},
		{"a site that is down adds no headroom", []step{
			{0, with(three(1, 0.1), func(v []View) { v[1].Up = false }), "00", "no other has headroom"},
		}},
		{"what is not known is neither full nor headroom", []step{{0, three(-1, -1), "00", "no site is full"}}},
		{"a new planner goes on where another has ended", []step{
			{0, at(2, three(0.5, 0.5)), "10", "site s0 would be 50 % full a level higher"},
		}},
		{"and leaves what no planner has proposed", []step{
			{0, at(4, three(0.5, 0.5)), "00", "no site is full"},
		}},
		{"a site that does not report is forgotten", []step{
			{0, three(1, 0.1), "10", ""},
			{3 * m, with(three(1, 0.1), func(v []View) { v[0].Fresh = false }), "00", "no site is full"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLevels(settle)
			for i, step := range tt.steps {
				before := proposals(l, step.views)
				changed := l.Step(step.at, step.views)
				got := proposals(l, step.views)
				if got != step.want || !strings.Contains(l.Why(), step.reason) {
					t.Fatalf("step %d: proposals %s because %q; want %s, %q", i, got, l.Why(), step.want, step.reason)
				}
				if changed && before == got && i > 0 {
					t.Errorf("step %d: a change is reported although there is none", i)
				}
			}
		})
	}
}

func proposals(l *Levels, views []View) (out string) {
	for _, v := range views {
		out += fmt.Sprint(l.Proposal(v.Name))
	}
	return out
}

// TestLevelsRandom holds what must be so whatever sites report.
func TestLevelsRandom(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	changes := 0
	for range 100 {
		const settle = time.Minute
		l := NewLevels(settle)
		views := three(0.5, 0.5, 0.5, 0.5)
		last := -time.Hour
		for at := time.Duration(0); at < 3*time.Hour; at += time.Duration(random.IntN(20)+1) * time.Second {
			for i := range views {
				v := &views[i]
				if v.Load = max(-1, v.Load+random.NormFloat64()*0.1); v.Load > 2 {
					v.Load = 0
				}
				switch random.IntN(100) {
				case 0:
					v.Fresh = !v.Fresh
				case 1:
					v.Up = !v.Up
				case 2:
					v.Instructed = !v.Instructed
				case 3, 4, 5, 6, 7, 8, 9:
					v.Level = l.Proposal(v.Name) // it follows
				}
			}
			alive, plain := 0, 0
			changed := l.Step(at, views)
			for i := range views {
				w := l.Proposal(views[i].Name)
				if w < 0 || w > 3 {
					t.Fatalf("seed %d: proposal %d", seed, w)
				}
				if views[i].alive() && !views[i].Instructed {
					alive++
					if w == 0 {
						plain++
					}
				}
			}
			if !changed {
				continue
			}
			changes++
			if at-last < settle {
				t.Fatalf("seed %d: a change %v after another", seed, at-last)
			}
			last = at
			if shed := strings.HasSuffix(l.Why(), "full"); shed && plain == 0 && alive > 0 {
				t.Fatalf("seed %d: proposals %s: no site that is up announces plainly", seed, proposals(l, views))
			}
		}
	}
	if changes < 200 {
		t.Errorf("%d changes: the loads are badly chosen", changes)
	}
}
