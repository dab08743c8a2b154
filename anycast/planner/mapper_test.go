package planner

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/anycast/assign"
)

// world is what a planner has before it: sites that are what it says, and forwarders that obey.
type world struct {
	views     []View
	ingresses []Ingress
	demand    []float64 // what clients want, bytes per second
}

// newWorld has ingresses of one demand each, all at the first site.
func newWorld(demand []float64, capacity ...float64) *world {
	w := &world{demand: demand}
	for i, c := range capacity {
		w.views = append(w.views, View{Name: string(rune('a' + i)), Fresh: true, Up: true, Capacity: c})
	}
	for i := range demand {
		in := Ingress{Name: string(rune('p' + i)), Live: time.Minute, Known: true, Cost: make([]float64, len(capacity))}
		for j := range in.Cost {
			in.Cost[j] = math.Abs(float64(j - i%len(capacity)))
		}
		w.ingresses = append(w.ingresses, in)
	}
	return w
}

// measure has sites report loads, and forwarders what has come in, of which clients send a thirtieth of what they get.
func (w *world) measure() {
	load := make([]float64, len(w.views))
	for i := range w.ingresses {
		in := &w.ingresses[i]
		in.Bytes = w.demand[i] / 30
		if in.Site >= 0 {
			load[in.Site] += w.demand[i]
		}
	}
	for j := range w.views {
		w.views[j].Load = load[j] / w.views[j].Capacity
	}
}

func (w *world) apply(p *Plan) {
	for _, m := range p.Moves {
		w.ingresses[m.Ingress].Site = m.To
	}
}

func (w *world) sites() (out []int) {
	for i := range w.ingresses {
		out = append(out, w.ingresses[i].Site)
	}
	return out
}

func (w *world) overload() (sum float64) {
	load := make([]float64, len(w.views))
	for i := range w.ingresses {
		if s := w.ingresses[i].Site; s >= 0 {
			load[s] += w.demand[i]
		}
	}
	for j := range load {
		sum += max(0, load[j]-w.views[j].Capacity)
	}
	return sum
}

const settle = 2 * time.Minute

// TestMapperSpreadsAMove takes overload off a site, a bounded share at a time.
func TestMapperSpreadsAMove(t *testing.T) {
	w := newWorld([]float64{10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, 50, 60)
	m := NewMapper(settle, 0.1, 0.01)
	last := -time.Hour
	steps := 0
	for at := time.Duration(0); at < 2*time.Hour; at += 10 * time.Second {
		w.measure()
		p := m.Step(at, w.views, w.ingresses)
		if len(p.Moves) > 0 {
			if at-last < settle {
				t.Fatalf("a step %v after another", at-last)
			}
			if len(p.Moves) > 1 {
				t.Fatalf("a step of %d moves, of a tenth of the demand each", len(p.Moves))
			}
			last, steps = at, steps+1
		}
		w.apply(&p)
	}
	if over := w.overload(); over > 0 || steps < 5 {
		t.Errorf("overload %v after %d steps: %v", over, steps, w.sites())
	}
	w.measure()
	if p := m.Step(3*time.Hour, w.views, w.ingresses); len(p.Moves) > 0 || p.Why != "nothing is better" {
		t.Errorf("it does not come to rest: %+v", p)
	}
}

func TestMapper(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		want   []int
		why    string
	}{
		{"from nowhere, at once", func(w *world) {
			for i := range w.ingresses {
				w.ingresses[i].Site = assign.Nowhere
			}
		}, []int{0, 1, 0, 1}, "what is at no site that is up"},
		{"a site down", func(w *world) { w.views[0].Up = false }, []int{1, 1, 1, 1}, "what is at no site that is up"},
		{"a site that does not report, the other does", func(w *world) { w.views[0].Fresh = false }, []int{1, 1, 1, 1}, "what is at no site that is up"},
		{"no site reports", func(w *world) { w.views[0].Fresh, w.views[1].Fresh = false, false }, []int{0, 0, 0, 0}, "0 of 2 sites report"},
		{"all are down", func(w *world) { w.views[0].Up, w.views[1].Up = false, false }, []int{0, 0, 0, 0}, "nothing is better"},
		{"a site that is drained", func(w *world) { w.views[0].Instructed = true }, []int{1, 0, 0, 0}, "a step"},
		{"more than all can serve", func(w *world) {
			w.views[0].Capacity, w.views[1].Capacity = 5, 0
		}, []int{0, 0, 0, 0}, "demand exceeds the capacity of all sites"},
		{"forwarders that are not connected", func(w *world) {
			for i := range w.ingresses {
				w.ingresses[i].Known = false
			}
			w.views[0].Up = false
		}, []int{0, 0, 0, 0}, "nothing is better"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld([]float64{10, 10, 10, 10}, 100, 100)
			for i := range w.ingresses {
				w.ingresses[i].Cost = []float64{0, 0}
			}
			if tt.name == "from nowhere, at once" {
				w = newWorld([]float64{10, 10, 10, 10}, 100, 100)
			}
			tt.change(w)
			w.measure()
			m := NewMapper(settle, 0.25, 0.01)
			p := m.Step(0, w.views, w.ingresses)
			w.apply(&p)
			if !slices.Equal(w.sites(), tt.want) || !strings.Contains(p.Why, tt.why) {
				t.Errorf("the map is %v because %q; want %v, %q", w.sites(), p.Why, tt.want, tt.why)
			}
		})
	}
}

// TestMapperRescuesAtOnce has a site die while a step settles.
func TestMapperRescuesAtOnce(t *testing.T) {
	w := newWorld([]float64{10, 10, 10}, 20, 20, 40)
	m := NewMapper(settle, 0.1, 0.01)
	w.measure()
	p := m.Step(0, w.views, w.ingresses)
	if len(p.Moves) != 1 {
		t.Fatalf("first step: %+v", p)
	}
	w.apply(&p)
	w.views[0].Up = false
	w.measure()
	p = m.Step(time.Second, w.views, w.ingresses)
	w.apply(&p)
	if slices.Contains(w.sites(), 0) {
		t.Errorf("a second later the map is %v, because %q", w.sites(), p.Why)
	}
}

// TestLiarIsBounded has a site say that it is loaded a thousandfold: it gives away its own ingresses, and no other site has to.
func TestLiarIsBounded(t *testing.T) {
	w := newWorld([]float64{10, 10, 10, 10}, 100, 100)
	for i := range w.ingresses {
		w.ingresses[i].Site = i % 2
	}
	m := NewMapper(settle, 0.3, 0.01)
	moved := 0
	for at := time.Duration(0); at < time.Hour; at += 10 * time.Second {
		w.measure()
		w.views[0].Load = 1000
		p := m.Step(at, w.views, w.ingresses)
		for _, mv := range p.Moves {
			moved++
			if mv.From == 1 && w.ingresses[mv.Ingress].Site == 1 && moved > 100 {
				t.Fatalf("at %v the map still moves", at)
			}
		}
		w.apply(&p)
		if p.Demand[0] > mostLoad*100 {
			t.Fatalf("demand %v is believed", p.Demand[0])
		}
	}
}

// TestMapperKeepsDemand has a site stop to say how full it is, while clients go on sending: its ingresses have not become small, and no
// other is moved to it.
func TestMapperKeepsDemand(t *testing.T) {
	w := newWorld([]float64{60, 40, 60, 40}, 130, 130)
	for i := range w.ingresses {
		w.ingresses[i].Site, w.ingresses[i].Cost = i/2, []float64{1, 2}
	}
	m := NewMapper(settle, 0.3, 0.01)
	for at := time.Duration(0); at < time.Hour; at += 10 * time.Second {
		w.measure()
		if at > 10*time.Minute {
			w.views[0].Load = -1
		}
		p := m.Step(at, w.views, w.ingresses)
		if len(p.Moves) > 0 {
			t.Fatalf("at %v: moves %+v, of demands %v", at, p.Moves, p.Demand)
		}
	}
	w.demand = []float64{0, 0, 0, 0}
	for at := time.Hour; at < 2*time.Hour; at += 10 * time.Second {
		w.measure()
		w.views[0].Load = -1
		if p := m.Step(at, w.views, w.ingresses); at > 90*time.Minute && p.Demand[0] > 1e-3 {
			t.Fatalf("at %v: a demand of %v, and nothing comes in", at, p.Demand[0])
		}
	}
}

// TestMapperSucceeds has a planner end after each step of a move, and its successor go on: nothing is moved twice, or back.
func TestMapperSucceeds(t *testing.T) {
	w := newWorld([]float64{10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, 50, 60)
	moved := make(map[int]int)
	for at := time.Duration(0); at < time.Hour; at += 10 * time.Second {
		m := NewMapper(settle, 0.1, 0.01)
		w.measure()
		p := m.Step(at, w.views, w.ingresses)
		for _, mv := range p.Moves {
			moved[mv.Ingress]++
		}
		w.apply(&p)
	}
	for i, n := range moved {
		if n > 1 {
			t.Errorf("ingress %d is moved %d times", i, n)
		}
	}
	if over := w.overload(); over > 0 || len(moved) < 5 {
		t.Errorf("overload %v after %d moves: %v", over, len(moved), w.sites())
	}
}

// TestMapperRandom has sites and forwarders come and go: moves lead to sites that are up, and overload ends when it can.
func TestMapperRandom(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	moves := 0
	for range 20 {
		demand := make([]float64, 6)
		for i := range demand {
			demand[i] = 5 + 10*random.Float64()
		}
		w := newWorld(demand, 60, 60, 60)
		m := NewMapper(settle, 0.2, 0.01)
		last := -time.Hour
		for at := time.Duration(0); at < 2*time.Hour; at += 20 * time.Second {
			if random.IntN(30) == 0 {
				v := &w.views[random.IntN(3)]
				v.Up = !v.Up
			}
			if random.IntN(30) == 0 {
				in := &w.ingresses[random.IntN(6)]
				in.Known = !in.Known
			}
			w.measure()
			p := m.Step(at, w.views, w.ingresses)
			chosen := false
			for _, mv := range p.Moves {
				moves++
				in := &w.ingresses[mv.Ingress]
				if !in.Known || mv.From != in.Site || !w.views[mv.To].alive() {
					t.Fatalf("seed %d: move %+v of %+v", seed, mv, in)
				}
				chosen = chosen || mv.From != assign.Nowhere && w.views[mv.From].alive()
			}
			if chosen && at-last < settle {
				t.Fatalf("seed %d: a step %v after another", seed, at-last)
			}
			if len(p.Moves) > 0 {
				last = at
			}
			w.apply(&p)
		}
		for i := range w.views {
			w.views[i].Up = true
		}
		for i := range w.ingresses {
			w.ingresses[i].Known = true
		}
		for at := 3 * time.Hour; at < 5*time.Hour; at += 20 * time.Second {
			w.measure()
			p := m.Step(at, w.views, w.ingresses)
			w.apply(&p)
		}
		if over := w.overload(); over > 0 {
			t.Errorf("seed %d: overload %v is left, of demands %v", seed, over, demand)
		}
	}
	if moves < 50 {
		t.Errorf("%d moves: the world is badly chosen", moves)
	}
}
