package choice

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"baton/relay/plan"
)

// Report is what is known of a destination.
type Report struct {
	Destination Destination
	Server      netip.AddrPort // that is measured
	Fixed       bool           // an entry names it
	Known       bool           // there is a way; otherwise flows go by a neighbour's, or by one of last resort
	Route       Route
	Others      []Route       // if that cannot be had, the best first
	Takes       time.Duration // for 1 MB on a new connection from this relay on, estimated; 0: it is not known
	Why         string        // this way
	Since       time.Time     // of this way
	RTT         time.Duration // from this relay, 0: there was no answer
	Relays      []Distance    // from each relay, this one first
	At          time.Time     // of this relay's last measurement; zero: there was none
	Due         time.Time     // of the next, if there is time
	LastUsed    time.Time     // for the last time, to about a second
}

// Distance is how far away something is.
type Distance struct {
	Relay string        // that has measured; of a peer's distance, the peer
	RTT   time.Duration // 0: there was no answer
	Why   string        // there was none, "" if nobody has asked
	Down  bool          // no trunk to the relay can be had
}

// Reports are of all destinations, in the order of their addresses.
func (c *Chooser) Reports() []Report {
	return c.reports(c.records())
}

// Latest are those of so many destinations that were asked for last, the latest first.
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

// Distances are those of the peers from here, in their order.
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

// Count is how many destinations there are, and how many of them have a way.
func (c *Chooser) Count() (all, known int) {
	for _, p := range c.all {
		if p.known {
			known++
		}
	}
	return len(c.all), known
}
