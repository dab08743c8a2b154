package choice

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"baton/relay/plan"
)

// Report is the state of a destination.
type Report struct {
	Destination Destination
	Server      netip.AddrPort // that is measured
	Fixed       bool           // an entry names it
	Known       bool           // a route is chosen; otherwise flows use that of a neighbour, or the fallback
	Route       Route
	Others      []Route       // in case that is unreachable, best first
	Takes       time.Duration // estimated time of 1 MB on a new connection from this relay on; 0: unknown
	Why         string        // reason for the route
	Since       time.Time     // of the route
	RTT         time.Duration // from this relay; 0: no answer
	Relays      []Distance    // from each relay, this one first
	At          time.Time     // of this relay's last measurement; zero: none
	Due         time.Time     // of the next one, at the earliest
	LastUsed    time.Time     // accurate to a second
}

// Distance is a measured distance.
type Distance struct {
	Relay string        // that measured; for the distance of a peer, the peer
	RTT   time.Duration // 0: no answer
	Why   string        // why there was none, "" before the first attempt
	Down  bool          // no trunk to the relay can be opened
}

// Reports returns the state of all destinations, ordered by address.
func (c *Chooser) Reports() []Report {
	return c.reports(c.records())
}

// Latest returns the most recently used destinations, latest first.
func (c *Chooser) Latest(most int) []Report {
	all := c.records()
	slices.SortStableFunc(all, func(a, b *record) int { return cmp.Compare(b.lastUsed.Load(), a.lastUsed.Load()) })
	return c.reports(all[:min(len(all), most)])
}

func (c *Chooser) reports(places []*record) []Report {
	out := make([]Report, 0, len(places))
	for _, p := range places {
		r := Report{
			Destination: p.of, Server: p.server, Fixed: p.fixed, Known: p.known, LastUsed: time.Unix(0, p.lastUsed.Load()), RTT: c.rtt(p, c.o.Self),
		}
		if p.known {
			r.Route, r.Others, r.Why, r.Since = p.used, p.others, p.why, p.since
			r.Takes, _ = c.estimate(p, p.used)
		}
		for _, n := range c.nodes {
			d := Distance{Relay: n.Name, Down: n.down}
			if h := p.seen[n.Name]; h != nil {
				if d.RTT = h.rtt(); d.RTT == 0 {
					d.Why = h.why
				}
				if n.here {
					r.At, r.Due = h.at, h.due
				}
			}
			r.Relays = append(r.Relays, d)
		}
		out = append(out, r)
	}
	return out
}

// Distances returns the distances of the peers, in order.
func (c *Chooser) Distances() []Distance {
	var out []Distance
	for _, n := range c.nodes[1:] {
		d := Distance{Relay: n.Name, Down: n.down}
		if h := c.legs[plan.Pair{From: c.o.Self, To: n.Name}]; h != nil {
			if d.RTT = h.rtt(); d.RTT == 0 {
				d.Why = h.why
			}
		}
		out = append(out, d)
	}
	return out
}

// Count returns the numbers of destinations and of those with a route.
func (c *Chooser) Count() (all, known int) {
	for _, p := range c.all {
		if p.known {
			known++
		}
	}
	return len(c.all), known
}
