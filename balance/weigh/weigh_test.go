package weigh

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/measure"
)

var wide = config.Weights{Every: 5 * time.Second, Least: 1, Most: 10000}

func known(mbit float64) measure.Capacity { return measure.Capacity{Rate: mbit * 1e6} }

func atLeast(mbit float64) measure.Capacity { return measure.Capacity{Rate: mbit * 1e6, Bound: true} }

func down(c measure.Capacity) Link { return Link{Figures: measure.Figures{Down: c}} }

func fixed(n int, c measure.Capacity) Link {
	return Link{Fixed: n, Figures: measure.Figures{Down: c}}
}

func lossy(mbit, loss float64) Link {
	return Link{Figures: measure.Figures{Down: known(mbit), Loss: loss}}
}

func TestWeights(t *testing.T) {
	both := func(d, u float64, received, sent float64) Link {
		return Link{Figures: measure.Figures{Down: known(d), Up: known(u), ReceivedRate: received, SentRate: sent}}
	}
	tests := []struct {
		name   string
		bounds config.Weights
		links  []Link
		want   []uint16
	}{
		{"no link", wide, nil, nil},
		{"nothing is known", wide, []Link{{}, {}, {}}, []uint16{1, 1, 1}},
		{"the paper's", wide, []Link{down(known(10)), down(known(20))}, []uint16{1, 2}},
		{"nearly", wide, []Link{down(known(9.95)), down(known(20.1))}, []uint16{1, 2}},
		{"3 to 2 to 7", wide, []Link{down(known(30)), down(known(20)), down(known(70))}, []uint16{3, 2, 7}},
		{"far apart", wide, []Link{down(known(1)), down(known(500))}, []uint16{1, 196}}, // the least is 1 % of the mean: 1 to 200, in the smallest numbers
		{"one is not known: the mean", wide, []Link{down(known(10)), down(known(30)), {}}, []uint16{1, 3, 2}},
		{"it has carried more", wide, []Link{down(known(10)), down(known(30)), down(atLeast(60))}, []uint16{1, 3, 6}},
		{"it has carried less", wide, []Link{down(known(10)), down(known(30)), down(atLeast(1))}, []uint16{1, 3, 2}},
		{"bounds alone say nothing", wide, []Link{down(atLeast(1)), down(atLeast(50))}, []uint16{1, 1}},
		{"bounded", config.Weights{Least: 50, Most: 150}, []Link{down(known(1)), down(known(99))}, []uint16{1, 3}},
		{"fixed are left alone", wide, []Link{fixed(7, known(1)), fixed(1000, known(1))}, []uint16{7, 1000}},
		{"fixed, beyond 1000", wide, []Link{fixed(7, known(1)), fixed(60000, known(1))}, []uint16{7, 60000}},
		{"one is fixed", wide, []Link{fixed(4, known(10)), down(known(20))}, []uint16{4, 8}},
		{"one is fixed, the other far less", wide, []Link{fixed(1, known(10)), down(known(1))}, []uint16{10, 1}},
		{"one is fixed, nothing is known", wide, []Link{fixed(5, measure.Capacity{}), {}}, []uint16{5, 5}},
		{"usual loss", wide, []Link{lossy(10, 0.01), lossy(20, 0.002)}, []uint16{1, 2}},
		{"a lossy link", wide, []Link{lossy(20, 0.04), lossy(20, 0)}, []uint16{8, 17}}, // √(1/4) · 0.96
		{"hopeless", wide, []Link{lossy(20, 1), lossy(20, 0)}, []uint16{1, 99}},
		{"acknowledgements do not count", wide, []Link{both(10, 9, 8e6, 3e5), both(20, 1, 8e6, 3e5)}, []uint16{1, 2}},
		{"who uploads", wide, []Link{both(10, 9, 3e5, 8e6), both(20, 3, 3e5, 8e6)}, []uint16{3, 1}},
		{"half and half", wide, []Link{both(10, 3, 4e6, 4e6), both(10, 1, 4e6, 4e6)}, []uint16{5, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := Weigher{Config: tt.bounds}
			if got, _ := w.Weigh(time.Second, tt.links); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestChanges: weights change for much, not for little, and not too often.
func TestChanges(t *testing.T) {
	w := Weigher{Config: wide}
	steps := []struct {
		at      time.Duration
		other   float64 // the second link's capacity; the first has 10
		want    []uint16
		changed bool
	}{
		{0, 10, []uint16{1, 1}, true},
		{6 * time.Second, 10.9, []uint16{1, 1}, false},
		{12 * time.Second, 9.5, []uint16{1, 1}, false},
		{18 * time.Second, 20, []uint16{1, 2}, true},
		{19 * time.Second, 100, []uint16{1, 2}, false}, // too early
		{22 * time.Second, 10, []uint16{1, 2}, false},
		{23 * time.Second, 100, []uint16{1, 10}, true},
		{time.Hour, 100.4, []uint16{1, 10}, false},
		{2 * time.Hour, 40, []uint16{1, 4}, true},
	}
	for _, s := range steps {
		got, changed := w.Weigh(s.at, []Link{down(known(10)), down(known(s.other))})
		if !slices.Equal(got, s.want) || changed != s.changed {
			t.Errorf("at %v: %v, changed %v", s.at, got, changed)
		}
	}
	if got, changed := w.Weigh(2*time.Hour+1, []Link{{}, {}, {}}); len(got) != 3 || !changed {
		t.Errorf("another number of links: %v, %v", got, changed)
	}
}

// TestMoment: a moment in which the host does something else changes nothing.
func TestMoment(t *testing.T) {
	w := Weigher{Config: wide}
	links := func(received, sent float64) []Link {
		return []Link{
			{Figures: measure.Figures{Down: known(10), Up: known(1), ReceivedRate: received, SentRate: sent}},
			{Figures: measure.Figures{Down: known(10), Up: known(9), ReceivedRate: received, SentRate: sent}},
		}
	}
	for at := time.Second; at < time.Minute; at += time.Second {
		w.Weigh(at, links(1e7, 1e5))
	}
	if got, _ := w.Weigh(62*time.Second, links(0, 1e6)); !slices.Equal(got, []uint16{1, 1}) {
		t.Errorf("after a moment: %v", got)
	}
	for at := 63 * time.Second; at < 10*time.Minute; at += time.Second {
		w.Weigh(at, links(0, 1e6))
	}
	if got, _ := w.Weigh(time.Hour, links(0, 0)); !slices.Equal(got, []uint16{1, 9}) {
		t.Errorf("after ten minutes: %v", got)
	}
}

// TestAny: whatever is known, weights are in their bounds, in the order of capacities, and as exact as small numbers can be.
func TestAny(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		w := Weigher{Config: config.Weights{Least: 1 + random.IntN(100), Most: 100 + random.IntN(9900)}}
		links := make([]Link, 1+random.IntN(16))
		anyFixed := false
		for i := range links {
			links[i] = down(measure.Capacity{Rate: math.Exp2(random.Float64() * 30), Bound: random.IntN(4) == 0})
			if links[i].Loss = random.Float64() * 0.2; random.IntN(3) == 0 {
				links[i].Up = known(random.Float64() * 10)
				links[i].SentRate, links[i].ReceivedRate = random.Float64(), random.Float64()
			}
			if random.IntN(20) == 0 {
				links[i].Fixed = 1 + random.IntN(65535)
				anyFixed = true
			}
		}
		got, _ := w.Weigh(time.Second, links)
		want := w.ratios
		for i := range links {
			if got[i] < 1 || !anyFixed && got[i] > 1000 {
				t.Fatalf("seed %d: %v of %+v", seed, got, links)
			}
			for k := range links {
				if want[i] < want[k] && got[i] > got[k] {
					t.Fatalf("seed %d: %v is out of order, of %v", seed, got, want)
				}
			}
			if share := want[i] / slices.Max(want); !anyFixed && share > 0.03 {
				if is := float64(got[i]) / float64(slices.Max(got)); math.Abs(is-share) > 0.03*share {
					t.Fatalf("seed %d: %v, %v", seed, got, want)
				}
			}
		}
	}
}
