package planner

import (
	"fmt"
	"math"
	"time"

	"baton/anycast/assign"
)

// Ingress is an ingress point as the planner sees it.
type Ingress struct {
	Name string
	Live time.Duration // how long a download lasts
	Cost []float64     // of a byte, by site
	// Site is the site that the ingress leads to, assign.Nowhere without a rule. Known is false while its forwarder is not connected: then
	// its state is unknown, and it cannot be moved.
	Site  int
	Known bool
	Bytes float64 // received per second since the last look; negative if unknown
}

// Plan is the step to make now, and the target.
type Plan struct {
	Moves  []assign.Move // one step; ingresses by index
	Next   [][]assign.Move
	Target []int
	Demand []float64 // bytes per second that the ingress causes at its site
	Value  assign.Value
	Exact  bool
	Why    string
}

// Mapper moves ingresses to sites: one step, then nothing until it has settled. Ingresses without a live site are moved at once.
type Mapper struct {
	settle time.Duration
	step   float64 // share of all demand that one step moves at most
	move   float64 // cost of an interrupted byte

	looked, moved time.Duration
	begun         bool
	known         map[string]estimate
}

// estimate is the demand of an ingress.
type estimate struct {
	rate float64 // bytes per second
	by   source
}

// source is the basis of an estimate; later ones are better.
type source int

const (
	byNothing source = iota
	byBytes          // received bytes: what clients send
	byLoad           // the site's reported load: what clients are sent
)

// NewMapper makes a Mapper that has moved nothing.
func NewMapper(settle time.Duration, step, move float64) *Mapper {
	return &Mapper{settle: settle, step: step, move: move, known: make(map[string]estimate)}
}

// Step evaluates everything again; it does not follow earlier plans.
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

// choose takes the first step if it is due.
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

// occupy subtracts the demand of an ingress that cannot be moved from its site's capacity.
func (m *Mapper) occupy(p *assign.Problem, in *Ingress, demand float64) {
	if in.Site >= 0 {
		s := &p.Sites[in.Site]
		s.Capacity = max(0, s.Capacity-demand)
	}
}

// isolated explains why nothing is moved: when fewer than half of the sites report, the planner is more likely to be cut off than they are
// to be down.
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

// share estimates demands from received bytes. Clients send less than they receive, so a site's load is divided among its ingresses in
// proportion to their received bytes. If the load is unknown, the bytes count as they are.
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

// mostLoad limits the load that a site can claim, so that a wrong report cannot take over all other sites.
const mostLoad = 4

// smooth lets the demand follow the measurement with half of the settling time. A site with an unknown load is not empty: while anything is
// received, the demand from its last known load is kept.
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
