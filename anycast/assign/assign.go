// Package assign maps ingress points to sites: a generalised assignment problem (Alzoubi et al., "Anycast CDNs revisited", 2008), solved for
// the least overload, then for the least distance and the fewest interrupted bytes. It is pure and deterministic.
package assign

import (
	"cmp"
	"slices"
)

// Nowhere is the site of an ingress that has none.
const Nowhere = -1

// Ingress is a port where clients' packets enter; all of its traffic goes to one site.
type Ingress struct {
	Name   string
	Demand float64 // bytes per second
	Live   float64 // bytes of running downloads, which a move interrupts
	Cost   []float64
	Site   int // at present, or Nowhere
}

// Site is a place where clients are served.
type Site struct {
	Name     string
	Capacity float64 // bytes per second
	Up       bool
}

// Problem is an assignment problem. Cost of an Ingress has an entry for each site: the cost of a byte per second there.
type Problem struct {
	Ingresses []Ingress
	Sites     []Site
	Move      float64 // cost of an interrupted byte
}

// Value rates a map: less is better, and overload is compared first.
type Value struct {
	Overload    float64 // bytes per second above the sites' capacities
	Cost        float64 // distance and interruptions
	Interrupted float64 // bytes
}

// Map is a solution.
type Map struct {
	Sites []int // by ingress
	Value Value
	Exact bool // proven optimal
}

// searchNodes limits the search to about 0.1 s. It is exact for some ten ingresses and four sites.
const searchNodes = 400_000

// Solve returns a map to sites that are up. If none is up, nothing is moved: a planner that sees no site is more likely to be wrong than all
// sites are to be down.
func Solve(p *Problem) Map {
	s := newSearch(p)
	if len(s.open) == 0 {
		sites := make([]int, len(p.Ingresses))
		for i := range p.Ingresses {
			sites[i] = p.Ingresses[i].Site
		}
		return Map{Sites: sites, Value: Judge(p, sites)}
	}
	s.best, s.value = s.local()
	s.branch(0, Value{})
	return Map{Sites: s.best, Value: Judge(p, s.best), Exact: s.left > 0}
}

// Judge rates a map.
func Judge(p *Problem, sites []int) Value {
	var v Value
	load := make([]float64, len(p.Sites))
	for i, j := range sites {
		if j == Nowhere {
			continue
		}
		in := &p.Ingresses[i]
		load[j] += in.Demand
		v.Cost += p.cost(i, j)
		if p.interrupts(i, j) {
			v.Interrupted += in.Live
		}
	}
	for j := range load {
		v.Overload += max(0, load[j]-p.Sites[j].Capacity)
	}
	return v
}

// interrupts reports whether a move to another site breaks running downloads: those at a site that is down are broken already.
func (p *Problem) interrupts(i, j int) bool {
	at := p.Ingresses[i].Site
	return at != j && at != Nowhere && p.Sites[at].Up
}

func (p *Problem) cost(i, j int) float64 {
	in := &p.Ingresses[i]
	c := in.Demand * in.Cost[j]
	if p.interrupts(i, j) {
		c += p.Move * in.Live
	}
	return c
}

// tolerance is the relative difference below which floating point sums are equal.
const tolerance = 1e-9

func less(a, b, scale float64) int {
	if d := a - b; d > tolerance*scale {
		return 1
	} else if d < -tolerance*scale {
		return -1
	}
	return 0
}

// search is the state of Solve.
type search struct {
	p     *Problem
	open  []int // sites that are up
	order []int // ingresses, the greatest demand first
	// From an index in order to the end: the remaining demand, and a lower bound of its cost.
	demand, floor []float64
	scale         Value // of the sums, for tolerance

	load  []float64 // by site, of what is placed
	sites []int
	best  []int
	value Value
	left  int // nodes
}

func newSearch(p *Problem) *search {
	n := len(p.Ingresses)
	s := &search{p: p, load: make([]float64, len(p.Sites)), sites: make([]int, n), left: searchNodes,
		demand: make([]float64, n+1), floor: make([]float64, n+1)}
	for j := range p.Sites {
		if p.Sites[j].Up {
			s.open = append(s.open, j)
		}
	}
	for i := range p.Ingresses {
		s.order = append(s.order, i)
		s.sites[i] = Nowhere
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(p.Ingresses[b].Demand, p.Ingresses[a].Demand) })
	for k := n - 1; k >= 0 && len(s.open) > 0; k-- {
		i := s.order[k]
		least, most := p.cost(i, s.open[0]), p.cost(i, s.open[0])
		for _, j := range s.open[1:] {
			least, most = min(least, p.cost(i, j)), max(most, p.cost(i, j))
		}
		s.demand[k] = s.demand[k+1] + p.Ingresses[i].Demand
		s.floor[k] = s.floor[k+1] + least
		s.scale.Cost += most
	}
	s.scale.Overload = s.demand[0]
	return s
}

// compare is negative if a is better than b, positive if b is.
func (s *search) compare(a, b Value) int {
	if c := less(a.Overload, b.Overload, s.scale.Overload); c != 0 {
		return c
	}
	return less(a.Cost, b.Cost, s.scale.Cost)
}

// local returns the better of the local optima reached from the greedy and from the present map.
func (s *search) local() ([]int, Value) {
	a, b := s.descend(s.greedy()), s.descend(s.present())
	va, vb := Judge(s.p, a), Judge(s.p, b)
	if s.compare(vb, va) < 0 {
		return b, vb
	}
	return a, va
}

// present returns the present map, without sites that are down.
func (s *search) present() []int {
	out := s.greedy()
	for i := range out {
		if at := s.p.Ingresses[i].Site; at != Nowhere && s.p.Sites[at].Up {
			out[i] = at
		}
	}
	return out
}

// greedy places the greatest demands first, each where it adds least.
func (s *search) greedy() []int {
	out := make([]int, len(s.sites))
	load := make([]float64, len(s.load))
	for _, i := range s.order {
		best, at := Value{}, Nowhere
		for _, j := range s.open {
			if v := s.added(load, i, j); at == Nowhere || s.compare(v, best) < 0 {
				best, at = v, j
			}
		}
		out[i] = at
		load[at] += s.p.Ingresses[i].Demand
	}
	return out
}

// added is what an ingress adds to a site with some load.
func (s *search) added(load []float64, i, j int) Value {
	d, c := s.p.Ingresses[i].Demand, s.p.Sites[j].Capacity
	return Value{Overload: max(0, load[j]+d-c) - max(0, load[j]-c), Cost: s.p.cost(i, j)}
}

// descend moves single ingresses and swaps pairs while that improves the map. Each round takes the best change.
func (s *search) descend(sites []int) []int {
	value := Judge(s.p, sites)
	for range 4 * (len(sites) + 1) {
		best, next := value, []int(nil)
		try := func(changed []int) {
			if v := Judge(s.p, changed); s.compare(v, best) < 0 {
				best, next = v, slices.Clone(changed)
			}
		}
		work := slices.Clone(sites)
		for a := range sites {
			for _, j := range s.open {
				if work[a] = j; j != sites[a] {
					try(work)
				}
			}
			work[a] = sites[a]
			for b := range a {
				if len(sites) <= swapLimit && sites[a] != sites[b] {
					work[a], work[b] = sites[b], sites[a]
					try(work)
					work[a], work[b] = sites[a], sites[b]
				}
			}
		}
		if next == nil {
			break
		}
		sites, value = next, best
	}
	return sites
}

// swapLimit is the number of ingresses up to which pairs are tried: the time grows with its cube.
const swapLimit = 64

// branch tries all sites for the ingress at index k of order, given the value so far, and prunes what cannot improve.
func (s *search) branch(k int, so Value) {
	if s.left == 0 {
		return
	}
	s.left--
	if k == len(s.order) {
		if s.compare(so, s.value) < 0 {
			s.best, s.value = slices.Clone(s.sites), so
		}
		return
	}
	free := 0.0
	for _, j := range s.open {
		free += max(0, s.p.Sites[j].Capacity-s.load[j])
	}
	if s.compare(Value{Overload: so.Overload + max(0, s.demand[k]-free), Cost: so.Cost + s.floor[k]}, s.value) >= 0 {
		return
	}
	i := s.order[k]
	type candidate struct {
		site  int
		value Value
	}
	all := make([]candidate, 0, len(s.open))
	for _, j := range s.open {
		all = append(all, candidate{j, s.added(s.load, i, j)})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return s.compare(a.value, b.value) })
	for _, c := range all {
		s.sites[i] = c.site
		s.load[c.site] += s.p.Ingresses[i].Demand
		s.branch(k+1, Value{Overload: so.Overload + c.value.Overload, Cost: so.Cost + c.value.Cost})
		s.load[c.site] -= s.p.Ingresses[i].Demand
	}
	s.sites[i] = Nowhere
}
