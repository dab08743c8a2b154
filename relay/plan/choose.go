package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Choose answers a question. The error is about the question; that there is no route is an answer.
func Choose(question Question) (*Plan, error) {
	q := question.withDefaults()
	if err := q.check(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p := &Plan{Client: q.Client, Server: q.Server, Size: q.Size, Sizes: q.Sizes}
	relays := q.named()
	p.Missing = q.unmeasured(relays)
	for _, cloud := range q.clouds() {
		p.look(newGroup(&q, slices.DeleteFunc(slices.Clone(relays), func(r Relay) bool { return r.Cloud != cloud })))
	}
	if len(q.clouds()) > 1 {
		p.look(newGroup(&q, relays))
	}
	p.pick(&q)
	slices.SortStableFunc(p.Missing, func(a, b Missing) int { return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To)) })
	p.Missing = slices.Compact(p.Missing)
	if rtt, ok := q.RTTs.RTT(q.Client, q.Server); ok {
		t := q.times([]hop{q.hop(q.Client, q.Server, rtt)})
		p.Direct = &t
	} else {
		p.Missing = append(p.Missing, Missing{q.Client, q.Server, "whether relays are faster than the direct path"})
	}
	p.compare()
	return p, nil
}

// unmeasured lists relays that cannot be the first or the last, for lack of measurements.
func (q *Question) unmeasured(relays []Relay) []Missing {
	var out []Missing
	for _, r := range relays {
		if _, ok := q.RTTs.RTT(q.Client, r.Name); !ok {
			out = append(out, Missing{q.Client, r.Name, "whether the relay is near to the client"})
		}
		if _, ok := q.RTTs.RTT(r.Name, q.Server); !ok {
			out = append(out, Missing{r.Name, q.Server, "whether the relay is near to the server"})
		}
	}
	return out
}

// look adds the routes over a group of relays: the one that the rules choose, and the others with the reason against each.
func (p *Plan) look(g *group) {
	first, last, missing, ok := g.ends()
	p.Missing = append(p.Missing, missing...)
	if !ok {
		return
	}
	if first == last {
		p.offer(g.route([]int{first}, "nearest to both ends"), "")
		return
	}
	paths := g.divide(first, last)
	best := g.route(paths[0].relays, "nearest to each end")
	for i, path := range paths[1:] {
		if g.longest(path) >= g.longest(paths[i]) {
			continue // one more relay does not shorten the longest leg
		}
		r := g.route(path.relays, "")
		gain := float64(best.Longest) / float64(r.Longest)
		r.Why = fmt.Sprintf("divides the longest trunk by %.2f", gain)
		wanted := math.Pow(g.q.Gain, float64(len(r.Relays)-len(best.Relays)))
		switch slower := r.Times.size - best.Times.size; {
		case gain < wanted:
			p.offer(r, fmt.Sprintf("it divides the longest trunk by %.2f, but %.2f is required", gain, wanted))
		case slower > 0:
			p.offer(r, fmt.Sprintf("with shorter trunks it takes %s more for %s", text(slower), bytes(g.q.Size)))
		default:
			p.offer(best, "a further relay "+r.Why)
			best = r
		}
	}
	p.offer(best, "")
}

// offer records a route once; not is "" if the rules would choose it.
func (p *Plan) offer(r Route, not string) {
	same := func(c Candidate) bool { return slices.Equal(c.Relays, r.Relays) }
	if i := slices.IndexFunc(p.Others, same); i < 0 {
		p.Others = append(p.Others, Candidate{r, not})
	} else if not == "" {
		p.Others[i].Not = ""
	}
}

func (g *group) route(relays []int, why string) Route {
	r := Route{Why: why}
	var hops []hop
	leg := func(from, to string, rtt time.Duration) {
		h := g.q.hop(from, to, rtt)
		hops = append(hops, h)
		r.Legs = append(r.Legs, Leg{from, to, Span(rtt), h.rate})
	}
	leg(g.q.Client, g.relays[relays[0]].Name, g.toClient[relays[0]])
	for i, at := range relays {
		r.Relays, r.Clouds = append(r.Relays, g.relays[at].Name), append(r.Clouds, g.relays[at].Cloud)
		if i > 0 {
			rtt := g.between[relays[i-1]][at]
			leg(g.relays[relays[i-1]].Name, g.relays[at].Name, rtt)
			r.Longest = max(r.Longest, Span(rtt))
		}
	}
	last := relays[len(relays)-1]
	leg(g.relays[last].Name, g.q.Server, g.toServer[last])
	r.Times = g.q.times(hops)
	return r
}

// mixed reports whether a route passes relays of several clouds.
func (r *Route) mixed() bool { return len(slices.Compact(slices.Clone(r.Clouds))) > 1 }

func faster(a, b *Route) int {
	return cmp.Or(cmp.Compare(a.Times.size, b.Times.size), cmp.Compare(a.Times.RTT, b.Times.RTT),
		cmp.Compare(len(a.Relays), len(b.Relays)), slices.Compare(a.Relays, b.Relays))
}

// pick moves the best candidate to Plan.Route, and records why the others were not chosen.
func (p *Plan) pick(q *Question) {
	slices.SortFunc(p.Others, func(a, b Candidate) int { return faster(&a.Route, &b.Route) })
	best := -1
	for i, c := range p.Others {
		switch {
		case c.Not != "" || q.Clouds == OneCloud && c.mixed():
		case best < 0:
			best = i
		case q.Clouds == PreferOne && p.Others[best].mixed() && !c.mixed() && !q.worth(p.Others[best].Times.size, c.Times.size):
			best = i
		}
	}
	for i := range p.Others {
		if c := &p.Others[i]; c.Not == "" && i != best {
			c.Not = q.unchosen(c, p.Others, best)
		}
	}
	if best >= 0 {
		r := p.Others[best].Route
		p.Route = &r
		p.Others = slices.Delete(p.Others, best, best+1)
	}
}

// worth reports whether a mixed route is faster by the required margin.
func (q *Question) worth(mixed, one time.Duration) bool {
	return float64(mixed)*(1+q.Margin) <= float64(one)
}

func (q *Question) unchosen(c *Candidate, all []Candidate, best int) string {
	switch {
	case c.mixed() && q.Clouds == OneCloud:
		return "it mixes clouds"
	case c.mixed() && c.Times.size < all[best].Times.size:
		return fmt.Sprintf("it mixes clouds and is only faster by %s, but %.0f %% is required", percent(all[best].Times.size, c.Times.size), 100*q.Margin)
	}
	return fmt.Sprintf("it takes %s more for %s", text(c.Times.size-all[best].Times.size), bytes(q.Size))
}

// compare decides between relays and the direct path.
func (p *Plan) compare() {
	switch {
	case p.Route == nil && p.Direct == nil:
		p.Use, p.Why = UseNone, "no path from one end to the other is measured"
	case p.Route == nil:
		p.Use, p.Why = UseDirect, "no route over relays is measured"
	case p.Direct == nil:
		p.Use, p.Why = UseRelays, "the direct path is not measured"
	default:
		relays, direct := p.Route.Times.size, p.Direct.size
		p.Use = UseRelays
		if direct <= relays {
			p.Use = UseDirect
		}
		p.Why = fmt.Sprintf("%s takes %s over the relays, %s directly", bytes(p.Size), text(relays), text(direct))
		p.Why += p.otherwise()
	}
}

// otherwise names the sizes for which the answer would be different.
func (p *Plan) otherwise() string {
	var others []string
	direct := func(a, b Span) bool { return b <= a }
	if direct(p.Route.Times.New, p.Direct.New) != (p.Use == UseDirect) {
		others = append(others, "the first byte")
	}
	for i, size := range p.Sizes {
		if direct(p.Route.Times.Sizes[i], p.Direct.Sizes[i]) != (p.Use == UseDirect) {
			others = append(others, bytes(size))
		}
	}
	if len(others) == 0 {
		return ""
	}
	other := UseDirect
	if p.Use == UseDirect {
		other = UseRelays
	}
	return fmt.Sprintf("; %s would be faster for %s", other, list(others))
}
