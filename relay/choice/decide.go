package choice

import (
	"fmt"
	"slices"
	"time"

	"baton/relay/plan"
)

// End points in a plan's matrix; no relay can have such a name.
const (
	client = "(client)"
	server = "(server)"
)

// mostAlternatives limits the routes kept for when the one in use is unreachable.
const mostAlternatives = 3

// Decide decides the routes of at most so many destinations whose inputs have changed. It reports whether there are more.
func (c *Chooser) Decide(now time.Time, most int) (more bool) {
	c.endDwell(now)
	for most > 0 && len(c.dirty) > 0 {
		p := c.dirty[0]
		c.dirty = c.dirty[1:]
		p.queued = false
		if !p.gone {
			c.decide(now, p)
			most--
		}
	}
	return len(c.dirty) > 0
}

// view selects the relays that a route may pass.
type view uint8

const (
	measured view = iota // measured ones
	up                   // reachable ones
	settled              // reachable ones after their dwell time
)

func (c *Chooser) decide(now time.Time, p *record) {
	if !p.known && !c.complete(p) {
		return
	}
	before, others, first := p.used, p.others, !p.known
	why := ""
	if p.moved || first || !c.isValid(p, p.chosen, measured) {
		p.moved = false
		chosen, takes, ok := c.best(p, measured, nil)
		if !ok { // nothing has answered: keep the route
			if !first {
				p.known, p.others, c.stale = c.exists(p.used), nil, true
			}
			return
		}
		have, is := c.estimate(p, p.chosen)
		switch {
		case first:
			p.chosen, why = chosen, "first measurement"
		case !is || !c.isValid(p, p.chosen, measured):
			p.chosen, why = chosen, "the old route is no longer valid"
		case chosen != p.chosen && float64(takes)*(1+c.o.Margin) <= float64(have):
			why = fmt.Sprintf("1 MB takes %s, and %s %s", short(takes), short(have), p.chosen)
			p.chosen = chosen
		}
	}
	c.use(p, first, why)
	p.others = c.alternatives(p)
	p.known = true
	if first || p.used != before || !slices.Equal(others, p.others) {
		c.stale = true
	}
	if !first && p.used == before {
		return
	}
	p.since = now
	c.changed++
	c.changes = append(c.changes, Change{p.of, before, p.used, first, p.why})
}

// complete reports whether all measurements were tried, so that the first choice does not depend on which came first.
func (c *Chooser) complete(p *record) bool {
	for _, n := range c.nodes {
		if n.down {
			continue
		}
		if h := p.seen[n.Name]; h == nil || !h.tried {
			return false
		}
		if h := c.legs[plan.Pair{From: c.o.Self, To: n.Name}]; !n.here && (h == nil || !h.tried) {
			return false
		}
	}
	return true
}

// use sets the route in use: the chosen one, or the best substitute while that is unreachable.
func (c *Chooser) use(p *record, first bool, why string) {
	if c.isValid(p, p.chosen, settled) {
		if why == "" {
			why = "it is reachable again"
		}
		p.set(p.chosen, why)
		return
	}
	best, takes, ok := c.best(p, settled, nil)
	if !ok {
		best, takes, ok = c.best(p, up, nil)
	}
	if !ok { // no route is reachable: keep the chosen one
		if first || !c.isValid(p, p.used, measured) {
			p.set(p.chosen, why)
		}
		return
	}
	if !first && c.isValid(p, p.used, up) {
		have, is := c.estimate(p, p.used)
		if is && float64(takes)*(1+c.o.Margin) > float64(have) {
			return
		}
		p.set(best, fmt.Sprintf("1 MB takes %s, and %s %s", short(takes), short(have), p.used))
		return
	}
	p.set(best, fmt.Sprintf("%s is unreachable", p.chosen))
}

func (p *record) set(w Route, why string) {
	if w != p.used || !p.known {
		p.used, p.why = w, why
	}
}

// alternatives are routes through other first relays than the one in use, best first.
func (c *Chooser) alternatives(p *record) []Route {
	var out []Route
	without := []string{p.used.first()}
	for _, v := range []view{settled, up} {
		for len(out) < mostAlternatives {
			w, _, ok := c.best(p, v, without)
			if !ok {
				break
			}
			out, without = append(out, w), append(without, w.first())
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// isValid reports whether a route's hops have been measured in a view, and its length is allowed.
func (c *Chooser) isValid(p *record, w Route, v view) bool {
	if w == Direct {
		return p.direct && c.rtt(p, c.o.Self) > 0
	}
	relays := w.Relays()
	if len(relays)+1 > c.o.Most {
		return false
	}
	from := c.o.Self
	for _, name := range relays {
		if n := c.node(name); n == nil || !n.in(v) || !c.joined(from, name, v) {
			return false
		}
		from = name
	}
	return c.rtt(p, from) > 0
}

// exists reports whether all relays of a route are still peers.
func (c *Chooser) exists(w Route) bool {
	return !slices.ContainsFunc(w.Relays(), func(name string) bool { return c.node(name) == nil })
}

func (n *node) in(v view) bool {
	return n.here || v == measured || !n.down && (v == up || n.back.IsZero())
}

// joined reports whether one relay can send flows to another.
func (c *Chooser) joined(from, to string, v view) bool {
	pair := plan.Pair{From: from, To: to}
	if _, broken := c.broken[pair]; broken && v != measured {
		return false
	}
	h := c.legs[pair]
	return h != nil && h.rtt() > 0
}

// rtt is a relay's round-trip time to a destination, 0 if it is unknown or not allowed.
func (c *Chooser) rtt(p *record, relay string) time.Duration {
	if h := p.seen[relay]; h != nil {
		return h.rtt()
	}
	return 0
}

// best plans the route to a destination. without lists relays that must not be the first; "" excludes the direct route.
func (c *Chooser) best(p *record, v view, without []string) (w Route, takes time.Duration, ok bool) {
	q := c.question(p, v, without)
	for { // each iteration removes a pair
		made, err := plan.Choose(q)
		if err != nil || made.Use == plan.UseNone {
			return Direct, 0, false
		}
		if made.Use == plan.UseDirect {
			return Direct, time.Duration(made.Direct.Sizes[0]), true
		}
		w := routeOf(made.Route.Relays[1:])
		apart, is := c.gap(w, v)
		if !is {
			return w, time.Duration(made.Route.Times.Sizes[0]), true
		}
		// The plan assumes that two relays are connected if either has measured the other.
		delete(q.RTTs, apart)
		delete(q.RTTs, plan.Pair{From: apart.To, To: apart.From})
	}
}

// gap returns the first two relays on a route of which one cannot send flows to the other.
func (c *Chooser) gap(w Route, v view) (plan.Pair, bool) {
	from := c.o.Self
	for _, name := range w.Relays() {
		if !c.joined(from, name, v) {
			return plan.Pair{From: from, To: name}, true
		}
		from = name
	}
	return plan.Pair{}, false
}

// estimate estimates a route, valid or not.
func (c *Chooser) estimate(p *record, w Route) (time.Duration, bool) {
	q := c.question(p, measured, nil)
	t, ok := plan.Along(q, append([]string{c.o.Self}, w.Relays()...))
	if !ok {
		return 0, false
	}
	return time.Duration(t.Sizes[0]), true
}

// size is the size by which routes are compared, as in plans: see plan.Question.
const size = 1e6

// question is about routes from this relay on: the client is next to it, and far from all others.
func (c *Chooser) question(p *record, v view, without []string) plan.Question {
	q := plan.Question{
		Client: client, Server: server, RTTs: make(plan.Matrix), Clouds: c.o.Clouds, Most: c.o.Most, Start: c.o.Start,
		Size: size, Sizes: []int64{size},
	}
	const near = 1 // ns
	q.RTTs.Set(client, c.o.Self, near)
	for _, n := range c.nodes {
		if !n.in(v) {
			continue
		}
		q.Relays = append(q.Relays, plan.Relay{Name: n.Name, Cloud: n.Cloud})
		rtt := c.rtt(p, n.Name)
		switch {
		case rtt == 0:
		case !n.here:
			q.RTTs.Set(n.Name, server, rtt)
		case p.direct && !slices.Contains(without, ""):
			q.RTTs.Set(n.Name, server, rtt)
			q.RTTs.Set(client, server, rtt+near)
		}
		for _, m := range c.nodes[1:] {
			if n.here && slices.Contains(without, m.Name) || !c.joined(n.Name, m.Name, v) {
				continue
			}
			q.RTTs.Set(n.Name, m.Name, c.legs[plan.Pair{From: n.Name, To: m.Name}].rtt())
		}
	}
	return q
}

// short rounds a time to a tenth of a millisecond.
func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
