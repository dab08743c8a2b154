package choice

import (
	"fmt"
	"slices"
	"time"

	"baton/relay/plan"
)

// End points in a plan's matrix: no relay has such a name.
const (
	client = "(client)"
	server = "(server)"
)

// mostAlternatives is how many ways are kept for when the one in use cannot be reached.
const mostAlternatives = 3

// Decide looks again at the ways of at most so many destinations for which something has changed. More: there are others.
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

// view says which relays a way may pass.
type view uint8

const (
	measured view = iota // all that is known of
	up                   // those that can be reached
	settled              // and have been for long enough
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
		if !ok { // nobody has had an answer: the way stays as it was
			if !first {
				p.known, p.others, c.stale = c.exists(p.used), nil, true
			}
			return
		}
		have, is := c.estimate(p, p.chosen)
		switch {
		case first:
			p.chosen, why = chosen, "it is measured"
		case !is || !c.isValid(p, p.chosen, measured):
			p.chosen, why = chosen, "the other is no way any more"
		case chosen != p.chosen && float64(takes)*(1+c.o.Margin) <= float64(have):
			why = fmt.Sprintf("1 MB take %s there and %s %s", short(takes), short(have), p.chosen)
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

// complete tells whether all have been asked that can be, so that the first choice is not one of who was the first to answer.
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

// use sets the way in use: the chosen one, or what comes nearest to it as long as that cannot be had.
func (c *Chooser) use(p *record, first bool, why string) {
	if c.isValid(p, p.chosen, settled) {
		if why == "" {
			why = "it can be reached again"
		}
		p.set(p.chosen, why)
		return
	}
	best, takes, ok := c.best(p, settled, nil)
	if !ok {
		best, takes, ok = c.best(p, up, nil)
	}
	if !ok { // as good as any
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
		p.set(best, fmt.Sprintf("1 MB take %s there and %s %s", short(takes), short(have), p.used))
		return
	}
	p.set(best, fmt.Sprintf("%s cannot be had", p.chosen))
}

func (p *record) set(w Route, why string) {
	if w != p.used || !p.known {
		p.used, p.why = w, why
	}
}

// alternatives are ways with other first relays than the one in use, the best first.
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

// isValid tells whether a way is one, as far as is known: its relays can be asked for the next, and there is room for so many.
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

// exists tells whether the relays of a way are still peers.
func (c *Chooser) exists(w Route) bool {
	return !slices.ContainsFunc(w.Relays(), func(name string) bool { return c.node(name) == nil })
}

func (n *node) in(v view) bool {
	return n.here || v == measured || !n.down && (v == up || n.back.IsZero())
}

// joined tells whether one relay can send flows to another.
func (c *Chooser) joined(from, to string, v view) bool {
	pair := plan.Pair{From: from, To: to}
	if _, broken := c.broken[pair]; broken && v != measured {
		return false
	}
	h := c.legs[pair]
	return h != nil && h.rtt() > 0
}

// rtt is how far a relay is from a destination, 0 if that is not known or it may not go there.
func (c *Chooser) rtt(p *record, relay string) time.Duration {
	if h := p.seen[relay]; h != nil {
		return h.rtt()
	}
	return 0
}

// best plans the way to a destination; without are the relays that are not to be the first, "" among them that it is not to be direct.
func (c *Chooser) best(p *record, v view, without []string) (w Route, takes time.Duration, ok bool) {
	q := c.question(p, v, without)
	for { // each turn has a pair less
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
		// The plan takes two relays to be joined if either has measured the other.
		delete(q.RTTs, apart)
		delete(q.RTTs, plan.Pair{From: apart.To, To: apart.From})
	}
}

// gap gives the first two relays of a way of which the former cannot send flows to the latter.
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

// estimate estimates a way, whatever speaks against it.
func (c *Chooser) estimate(p *record, w Route) (time.Duration, bool) {
	q := c.question(p, measured, nil)
	t, ok := plan.Along(q, append([]string{c.o.Self}, w.Relays()...))
	if !ok {
		return 0, false
	}
	return time.Duration(t.Sizes[0]), true
}

// size is what ways are compared by, as plans are: see plan.Question.
const size = 1e6

// question is of ways from this relay on: its client is next to it, and nobody else is near to that.
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

// short is a time to a tenth of a millisecond.
func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
