package choice

import (
	"net/netip"
	"time"

	"baton/relay/plan"
)

// Task is a due measurement: a relay sends Samples probes to an address, one per Pace.
type Task struct {
	By      string // the relay that measures
	Target  netip.AddrPort
	To      string      // the target is this peer
	Of      Destination // the target is a server of this destination
	node    *node
	record  *record
	history *history
}

// Next returns a due measurement and marks it as running until Done. A relay makes one at a time.
func (c *Chooser) Next(now time.Time) (Task, bool) {
	for _, n := range c.nodes {
		if n.busy || n.down || now.Before(n.ready) {
			continue
		}
		t := c.dueOf(n, now)
		if t.history == nil || t.history.due.After(now) {
			n.idle, n.ready = true, now.Add(refreshed)
			if t.history != nil && t.history.due.Before(n.ready) {
				n.ready = t.history.due
			}
			continue
		}
		t.history.pending, n.busy = true, true
		n.ready = now.Add(Samples * Pace)
		return t, true
	}
	return Task{}, false
}

// refreshed is when a relay without due measurements is checked again.
const refreshed = time.Minute

// wakeAll checks all relays for due measurements.
func (c *Chooser) wakeAll() {
	for _, n := range c.nodes {
		if n.idle {
			n.idle, n.ready = false, time.Time{}
		}
	}
}

// dueOf returns the measurement of a relay that has been due for the longest; without a history there is none.
func (c *Chooser) dueOf(n *node, now time.Time) (best Task) {
	offer := func(h *history, t Task) {
		if h.pending {
			return
		}
		if best.history == nil || h.due.Before(best.history.due) || h.due.Equal(best.history.due) && t.before(&best) {
			best = t
			best.history = h
		}
	}
	for _, p := range c.nodes[1:] {
		if p != n && !p.down {
			offer(c.leg(n.Name, p.Name, now), Task{By: n.Name, Target: p.Address, To: p.Name, node: n})
		}
	}
	for _, p := range c.all {
		offer(p.by(n.Name, now), Task{By: n.Name, Target: p.server, Of: p.of, node: n, record: p})
	}
	return best
}

// before orders destinations first, which wait for a route, and then by name.
func (t *Task) before(o *Task) bool {
	switch {
	case (t.record == nil) != (o.record == nil):
		return o.record == nil
	case t.record == nil:
		return t.To < o.To
	}
	return t.Of.compare(o.Of) < 0
}

func (c *Chooser) leg(from, to string, now time.Time) *history {
	pair := plan.Pair{From: from, To: to}
	h := c.legs[pair]
	if h == nil {
		h = &history{due: now}
		c.legs[pair] = h
	}
	return h
}

func (p *record) by(relay string, now time.Time) *history {
	h := p.seen[relay]
	if h == nil {
		h = &history{due: now}
		p.seen[relay] = h
	}
	return h
}

// Done completes a measurement.
func (c *Chooser) Done(now time.Time, t Task, o Outcome) {
	t.node.busy = false
	h := t.history
	h.pending = false
	before, first := h.rtt(), !h.tried
	h.add(now, o)
	wait := c.o.Refresh
	if o.Unreached {
		wait = min(wait, retry)
	}
	h.due = now.Add(time.Duration((0.9 + 0.2*c.random()) * float64(wait)))
	switch {
	case t.record != nil:
		t.record.moved = true
		c.mark(t.record)
	case first || c.matters(before, h.rtt()):
		for _, p := range c.all {
			p.moved = true
		}
		c.markAll()
		c.stale = true // the peers' order
	}
}

// matters reports whether a distance between two relays has changed enough that a route may become better or worse by the margin. Smaller
// changes take effect when destinations are measured.
func (c *Chooser) matters(before, after time.Duration) bool {
	if before == 0 || after == 0 {
		return before != after
	}
	return float64(max(before, after)-min(before, after)) > c.o.Margin/4*float64(before)
}
