package assign

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// problem has costs of 1 at the ingress's own site and of 2 elsewhere, as far as nothing else is said.
func problem(capacity []float64, demand []float64, at []int) *Problem {
	p := &Problem{Move: 0.01}
	for _, c := range capacity {
		p.Sites = append(p.Sites, Site{Capacity: c, Up: true})
	}
	for i, d := range demand {
		in := Ingress{Demand: d, Live: 10 * d, Site: at[i], Cost: make([]float64, len(capacity))}
		for j := range in.Cost {
			in.Cost[j] = 2
		}
		in.Cost[i%len(capacity)] = 1
		p.Ingresses = append(p.Ingresses, in)
	}
	return p
}

func TestSolve(t *testing.T) {
	tests := []struct {
		name string
		p    *Problem
		down []int
		want []int
		over float64
	}{
		{"nothing to map", problem([]float64{1}, nil, nil), nil, []int{}, 0},
		{"the nearest, from nowhere", problem([]float64{10, 10}, []float64{3, 3}, []int{-1, -1}), nil, []int{0, 1}, 0},
		{"what is right stays", problem([]float64{10, 10}, []float64{3, 3}, []int{0, 1}), nil, []int{0, 1}, 0},
		{"overload goes first, least bytes with it", problem([]float64{10, 10}, []float64{7, 5, 4}, []int{0, 1, 0}), nil, []int{0, 1, 1}, 0},
		{"a site down", problem([]float64{10, 10}, []float64{3, 3}, []int{0, 1}), []int{1}, []int{0, 0}, 0},
		{"all down: all stays", problem([]float64{10, 10}, []float64{3, 3}, []int{1, -1}), []int{0, 1}, []int{1, -1}, 0},
		{"more than the capacity", problem([]float64{4, 4}, []float64{5, 5}, []int{0, 1}), nil, []int{0, 1}, 2},
		{"one exchange", problem([]float64{5, 6}, []float64{6, 5}, []int{0, 1}), nil, []int{1, 0}, 0},
		{"a site without capacity", problem([]float64{0, 6}, []float64{3}, []int{0}), nil, []int{1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, j := range tt.down {
				tt.p.Sites[j].Up = false
			}
			m := Solve(tt.p)
			if !slices.Equal(m.Sites, tt.want) || math.Abs(m.Value.Overload-tt.over) > 1e-9 {
				t.Errorf("Solve: %v, overload %v; want %v, %v", m.Sites, m.Value.Overload, tt.want, tt.over)
			}
		})
	}
}

// random makes problems where capacity is scarce.
func random(r *rand.Rand, ingresses, sites int) *Problem {
	p := &Problem{Move: []float64{0, 0.01, 1}[r.IntN(3)]}
	total := 0.0
	for range ingresses {
		in := Ingress{Demand: math.Round(r.ExpFloat64()*100) / 10, Site: r.IntN(sites+1) - 1}
		in.Live = in.Demand * r.Float64() * 20
		for range sites {
			in.Cost = append(in.Cost, float64(r.IntN(10)))
		}
		total += in.Demand
		p.Ingresses = append(p.Ingresses, in)
	}
	for range sites {
		p.Sites = append(p.Sites, Site{Capacity: total / float64(sites) * (0.5 + r.Float64()), Up: r.IntN(8) > 0})
	}
	return p
}

// brute tries all maps.
func brute(p *Problem) (best Value, found bool) {
	sites := make([]int, len(p.Ingresses))
	var try func(i int)
	try = func(i int) {
		if i == len(sites) {
			v := Judge(p, sites)
			if !found || v.Overload < best.Overload-1e-6 || v.Overload < best.Overload+1e-6 && v.Cost < best.Cost {
				best, found = v, true
			}
			return
		}
		for j := range p.Sites {
			if p.Sites[j].Up {
				sites[i] = j
				try(i + 1)
			}
		}
	}
	try(0)
	return best, found
}

func TestSolveLikeBruteForce(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	feasible := 0
	for range 400 {
		p := random(r, r.IntN(6)+1, r.IntN(4)+1)
		want, found := brute(p)
		got := Solve(p)
		if !found {
			continue
		}
		if want.Overload == 0 {
			feasible++
		}
		if !got.Exact || math.Abs(got.Value.Overload-want.Overload) > 1e-6 || got.Value.Cost > want.Cost*(1+1e-6)+1e-6 {
			t.Fatalf("seed %d: %+v (exact %v), and there is %+v, of %+v", seed, got.Value, got.Exact, want, p)
		}
		if again := Solve(p); !slices.Equal(again.Sites, got.Sites) {
			t.Fatalf("seed %d: %v, and then %v", seed, got.Sites, again.Sites)
		}
	}
	if feasible < 50 {
		t.Errorf("%d problems have a map without overload: they are badly chosen", feasible)
	}
}

// TestSolveWithoutSearch holds what is left of it when a problem is too great for the search.
func TestSolveWithoutSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	best, all, over := 0.0, 0.0, 0
	const problems = 200
	for range problems {
		p := random(r, 6, 3)
		want, found := brute(p)
		if !found {
			continue
		}
		s := newSearch(p)
		_, got := s.local()
		if got.Overload > want.Overload+1e-6 {
			over++
			continue
		}
		best, all = best+want.Cost, all+got.Cost
	}
	t.Logf("%d of %d maps have more overload than needed, the others cost %.3f times the least", over, problems, all/best)
	if over > problems/20 || all > 1.1*best {
		t.Error("that is too much")
	}
}

func TestSolveMany(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	p := random(r, 200, 8)
	m := Solve(p)
	before := make([]int, len(p.Ingresses))
	free, demand := 0.0, 0.0
	for i := range p.Ingresses {
		before[i] = p.Ingresses[i].Site
		demand += p.Ingresses[i].Demand
	}
	for _, s := range p.Sites {
		if s.Up {
			free += s.Capacity
		}
	}
	// With demands as small as here there is a map that wastes next to nothing of the capacity.
	if m.Value.Overload > max(0, demand-free)+demand/100 {
		t.Errorf("overload %.1f, of %.1f that come and %.1f of capacity", m.Value.Overload, demand, free)
	}
}

func TestSchedule(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	moves := 0
	for range 2000 {
		p := random(r, r.IntN(9), r.IntN(4)+1)
		m := Solve(p)
		total := 0.0
		for _, in := range p.Ingresses {
			total += in.Demand
		}
		most := total * r.Float64()
		steps := Schedule(p, m.Sites, most)
		at := make([]int, len(p.Ingresses))
		for i := range at {
			at[i] = p.Ingresses[i].Site
		}
		for k, step := range steps {
			demand := 0.0
			for _, mv := range step {
				if at[mv.Ingress] != mv.From || mv.From == mv.To {
					t.Fatalf("seed %d: step %d takes ingress %d from %d, and it is at %d", seed, k, mv.Ingress, mv.From, at[mv.Ingress])
				}
				at[mv.Ingress] = mv.To
				moves++
				if mv.From == Nowhere || !p.Sites[mv.From].Up {
					if k != 0 {
						t.Fatalf("seed %d: ingress %d waits for step %d", seed, mv.Ingress, k)
					}
					continue
				}
				demand += p.Ingresses[mv.Ingress].Demand
			}
			if len(step) == 0 || demand > most*(1+1e-6) && len(step) > 1 {
				t.Fatalf("seed %d: step %d moves %v in %d moves, more than %v", seed, k, demand, len(step), most)
			}
		}
		if !slices.Equal(at, m.Sites) {
			t.Fatalf("seed %d: the steps lead to %v, not to %v", seed, at, m.Sites)
		}
	}
	if moves < 1000 {
		t.Errorf("%d moves: the problems are badly chosen", moves)
	}
}

// TestScheduleFreesCapacityFirst checks that a site takes over only what fits at that step.
func TestScheduleFreesCapacityFirst(t *testing.T) {
	p := problem([]float64{10, 10, 10}, []float64{8, 7, 1}, []int{0, 1, 2})
	steps := Schedule(p, []int{1, 2, 2}, 1)
	want := [][]Move{{{1, 1, 2}}, {{0, 0, 1}}}
	if len(steps) != 2 || !slices.Equal(steps[0], want[0]) || !slices.Equal(steps[1], want[1]) {
		t.Errorf("Schedule: %v, want %v", steps, want)
	}
}

func BenchmarkSolve(b *testing.B) {
	p := random(rand.New(rand.NewPCG(5, 6)), 40, 5)
	for b.Loop() {
		Solve(p)
	}
}
