package planner

import (
	"fmt"
	"math"
	"time"

	"baton/anycast/assign"
)

// Ingress is an ingress point as a planner sees it.
type Ingress struct {
	Name string
	Live time.Duration // how long a download lasts
	Cost []float64     // of a byte, by site
	// Site is where it goes to, assign.Nowhere without a rule for it. Known is false while its forwarder is not connected: then nothing is
	// known of it, and nothing can be done.
	Site  int
	Known bool
	Bytes float64 // per second that have come in there since the last look; negative when that is not known
}

// Plan is what is to be done now, and where it leads.
type Plan struct {
	Moves  []assign.Move // now, one step; ingresses by their place
	Next   [][]assign.Move
	Target []int
	Demand []float64 // bytes per second that the ingress asks of its site
	Value  assign.Value
	Exact  bool
	Why    string
}

// Mapper moves ingresses to sites: a step, then nothing until that has settled. What no site serves is moved at once.
type Mapper struct {
	settle time.Duration
	step   float64 // share of all demand that one step moves at most
	move   float64 // cost of a byte that is interrupted

	looked, moved time.Duration
	begun         bool
	known         map[string]estimate
}

// estimate is what an ingress asks of its site, as far as is known.
type estimate struct {
	rate float64 // bytes per second
	by   source
}

// source is what an estimate is made of, the better the later.
type source int

const (
	byNothing source = iota
	byBytes          // that came in: what clients send
	byLoad           // that a site has said: what they are sent
)

// NewMapper makes a Mapper that has moved nothing.
func NewMapper(settle time.Duration, step, move float64) *Mapper {
	return &Mapper{settle: settle, step: step, move: move, known: make(map[string]estimate)}
}

// Step looks at everything anew; what an earlier step meant to do next is of no account.
func (m *Mapper) Step(at time.Duration, views []View, ingresses []Ingress) Plan {
	demand := m.smooth(at, m.share(views, ingresses), ingresses)
	p := &assign.Problem{Move: m.move}
	for i := range views {
		v := &views[i]
		s := assign.Site{Name: v.Name, Capacity: v.Capacity, Up: v.alive()}
		if v.Instructed {
			s.Capacity = 0
		}
		p.Sites = append(p.Sites, s)
	}
	var places []int // of the problem's ingresses
	for i := range ingresses {
		in := &ingresses[i]
		if !in.Known {
			m.occupy(p, in, demand[i])
			continue
		}
		places = append(places, i)
		p.Ingresses = append(p.Ingresses, assign.Ingress{
			Name: in.Name, Demand: demand[i], Live: demand[i] * in.Live.Seconds(), Cost: in.Cost, Site: in.Site,
		})
	}
	plan := Plan{Target: make([]int, len(ingresses)), Demand: demand}
	for i := range ingresses {
		plan.Target[i] = ingresses[i].Site
	}
	if why := isolated(views); why != "" {
		plan.Why = why
		return plan
	}
	best := assign.Solve(p)
	plan.Value, plan.Exact = best.Value, best.Exact
	total := 0.0
	for k, i := range places {
		plan.Target[i] = best.Sites[k]
		total += demand[i]
	}
	steps := assign.Schedule(p, best.Sites, m.step*total)
	for _, s := range steps {
		for k := range s {
			s[k].Ingress = places[s[k].Ingress]
		}
	}
	m.choose(at, p, steps, &plan)
	return plan
}

// choose takes the first step, if it is time for it.
func (m *Mapper) choose(at time.Duration, p *assign.Problem, steps [][]assign.Move, plan *Plan) {
	if len(steps) == 0 {
		plan.Why = "nothing is better"
		if plan.Value.Overload > 0 {
			plan.Why = "demand exceeds the capacity of all sites"
		}
		return
	}
	first := steps[0][0]
	rescue := first.From == assign.Nowhere || !p.Sites[first.From].Up
	if end := m.moved + m.settle; !rescue && m.begun && at < end {
		plan.Next = steps
		plan.Why = fmt.Sprintf("the last step settles for %s", (end - at).Round(time.Second))
		return
	}
	plan.Moves, plan.Next = steps[0], steps[1:]
	plan.Why = "a step to less overload, distance or interruption"
	if rescue {
		plan.Why = "what is at no site that is up"
	}
	m.moved, m.begun = at, true
}

// occupy takes what cannot be moved off its site's capacity.
func (m *Mapper) occupy(p *assign.Problem, in *Ingress, demand float64) {
	if in.Site >= 0 {
		s := &p.Sites[in.Site]
		s.Capacity = max(0, s.Capacity-demand)
	}
}

// isolated says that a planner sees too little to move anything: when fewer than half of the sites report, it is likelier to be cut off
// than they are to be down.
func isolated(views []View) string {
	fresh := 0
	for i := range views {
		if views[i].Fresh {
			fresh++
		}
	}
	if 2*fresh < len(views) || fresh == 0 {
		return fmt.Sprintf("%d of %d sites report: nothing is moved", fresh, len(views))
	}
	return ""
}

// share makes demands of what has come in. What clients send is not what they are sent: a site's load is shared out to its ingresses
// by what has come in there, and where it is not known, bytes count as they are.
func (m *Mapper) share(views []View, ingresses []Ingress) []estimate {
	in := make([]float64, len(views))
	for i := range ingresses {
		if g := &ingresses[i]; g.Site >= 0 && g.Bytes > 0 {
			in[g.Site] += g.Bytes
		}
	}
	out := make([]estimate, len(ingresses))
	for i := range ingresses {
		g := &ingresses[i]
		if g.Bytes < 0 || math.IsNaN(g.Bytes) || math.IsInf(g.Bytes, 0) {
			continue
		}
		out[i] = estimate{g.Bytes, byBytes}
		if g.Site < 0 {
			continue
		}
		if v := &views[g.Site]; v.alive() && v.Load >= 0 && v.Capacity > 0 {
			out[i] = estimate{0, byLoad}
			if g.Bytes > 0 {
				out[i].rate = min(v.Load, mostLoad) * v.Capacity * g.Bytes / in[g.Site]
			}
		}
	}
	return out
}

// mostLoad is how much a site is believed to be loaded with: one that lies must not take all other sites for itself.
const mostLoad = 4

// smooth has a demand follow what is measured with half of the settling time. A site whose load is not known any more has not become
// empty: while anything comes in, what was known by its load stays.
func (m *Mapper) smooth(at time.Duration, measured []estimate, ingresses []Ingress) []float64 {
	weight := 1 - math.Exp2(-2*float64(at-m.looked)/float64(m.settle))
	m.looked = at
	out := make([]float64, len(measured))
	kept := make(map[string]estimate, len(measured))
	for i, e := range measured {
		before := m.known[ingresses[i].Name]
		switch {
		case e.by == byNothing, e.by < before.by && e.rate > 0:
			e = before
		case e.by <= before.by:
			e = estimate{before.rate + (e.rate-before.rate)*weight, before.by}
		}
		out[i], kept[ingresses[i].Name] = e.rate, e
	}
	m.known = kept
	return out
}
