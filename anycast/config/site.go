package config

import (
	"fmt"
	"net/netip"
	"time"

	"baton/anycast/level"
	"baton/document"
)

// Defaults of a site.
const (
	defaultStale = 15 * time.Second
	defaultPoll  = 2 * time.Second
	defaultDrain = 5 * time.Minute
	defaultDwell = 2 * time.Minute // how often connections are remapped in Alzoubi et al. (WWW 2009, section 4.1)

	// Cisco's defaults. Juniper suppresses at 3000, and RFC 7196 requires at least 6000.
	defaultSuppress = 2000
	defaultHalfLife = 15 * time.Minute
)

// Upper bounds, which protect memory from typing errors.
const (
	maxPrefixes = 1024
	maxPeers    = 64
	maxChecks   = 64
	maxLoads    = 64
	maxOthers   = 256
	maxLevels   = 32
)

func (d *decoder) site(path string, n *node) *Site {
	s := &Site{
		Stale: defaultStale, Poll: defaultPoll, Drain: defaultDrain,
		Control: level.Rules{Dwell: defaultDwell, Flaps: level.Flaps{Suppress: defaultSuppress, HalfLife: defaultHalfLife}},
	}
	d.Fields(path, n, []key{
		{Name: "prefixes", Help: "to announce", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPrefixes)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Prefixes = append(s.Prefixes, d.routable(at, n)) })
		}},
		{Name: "bgp", Help: "sessions with routers", Decode: func(path string, n *node) { s.BGP = d.bgp(path, n) }},
		{Name: "addresses", Help: "service addresses to add to an interface", Decode: func(path string, n *node) { s.Addresses = d.addresses(path, n) }},
		{Name: "checks", Help: "all must pass", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxChecks)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Checks = append(s.Checks, d.check(at, n)) })
		}},
		{Name: "loads", Help: "measurements; the greatest load counts", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxLoads)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Loads = append(s.Loads, d.load(at, n)) })
		}},
		{Name: "levels", Help: "the ladder of announcements", Decode: func(path string, n *node) { s.Control.Ladder = d.ladder(path, n) }},
		{Name: "dwell", Default: "2m", Help: "least time on a level", Decode: func(path string, n *node) { s.Control.Dwell = d.Between(path, n, time.Second, maxTime) }},
		{Name: "flaps", Help: "damping of the routers, or none", Decode: func(path string, n *node) { s.Control.Flaps = d.flaps(path, n) }},
		{Name: "planner", Help: "name of the planner whose proposals and instructions are accepted", Decode: func(path string, n *node) { s.Planner = d.Label(path, n) }},
		{Name: "others", Help: "other sites", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxOthers)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Others = append(s.Others, d.other(at, n)) })
		}},
		{Name: "stale", Default: "15s", Help: "older reports, measurements and proposals are ignored",
			Decode: func(path string, n *node) { s.Stale = d.Between(path, n, 100*time.Millisecond, maxTime) }},
		{Name: "poll", Default: "2s", Help: "between two looks at the others",
			Decode: func(path string, n *node) { s.Poll = d.Between(path, n, 100*time.Millisecond, maxTime) }},
		{Name: "drain", Default: "5m", Help: "how long to drain for maintenance before the withdrawal",
			Decode: func(path string, n *node) { s.Drain = d.Between(path, n, time.Second, maxTime) }},
		{Name: "state", Help: "file that keeps an instruction and the flap budget over a restart", Decode: func(path string, n *node) { s.State = d.FilePath(path, n) }},
		{Name: "stop", Default: "none", Help: "how long to drain on SIGTERM", Decode: func(path string, n *node) { s.Stop = d.orNone(path, n, time.Second, time.Hour) }},
	})
	d.Require(path, n, "checks")
	if d.Given(path+".bgp") != d.Given(path+".prefixes") {
		d.Wrong(n, path, "has one of prefixes and bgp", "both, or neither for a site of a static map, which reports alone")
	}
	if s.Control.Ladder == nil {
		s.Control.Ladder = defaultLadder(d.internal(s))
	}
	if f := &s.Control.Flaps; f.Share == 0 && f.Suppress > 0 {
		f.Share = defaultShare(f.Suppress)
	}
	return s
}

func (d *decoder) internal(s *Site) bool {
	for i := range s.BGP.Peers {
		if s.BGP.Peers[i].Internal(&s.BGP) {
			return true
		}
	}
	return false
}

// routable decodes the prefix of a service.
func (d *decoder) routable(path string, n *node) netip.Prefix {
	p := d.Prefix(path, n)
	if d.Err() == nil && p.Bits() == 0 {
		d.WrongText(n, path, p.String(), "is the default route", "the service's prefix")
	}
	return p
}

func (d *decoder) addresses(path string, n *node) *Addresses {
	a := &Addresses{}
	d.Fields(path, n, []key{
		{Name: "interface", Help: "such as lo", Decode: func(path string, n *node) { a.Interface = d.Device(path, n) }},
		{Name: "addresses", Help: "of the service", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPrefixes)
			d.NonEmptyList(path, n, func(at string, n *node) { a.Addresses = append(a.Addresses, d.interfaceAddress(at, n)) })
		}},
	})
	d.Require(path, n, "interface", "addresses")
	return a
}

func (d *decoder) other(path string, n *node) Other {
	var o Other
	d.Fields(path, n, []key{
		{Name: "name", Help: "of the site", Decode: func(path string, n *node) { o.Name = d.Label(path, n) }},
		{Name: "url", Help: "of its report", Decode: func(path string, n *node) { o.URL = d.https(path, n) }},
	})
	d.Require(path, n, "name", "url")
	return o
}

func (d *decoder) flaps(path string, n *node) level.Flaps {
	if n.Kind == document.Scalar {
		d.Choice(path, n, "is not a flap budget", "none")
		return level.Flaps{}
	}
	f := level.Flaps{Suppress: defaultSuppress, HalfLife: defaultHalfLife}
	d.Fields(path, n, []key{
		{Name: "suppress", Default: "2000", Help: "penalty from which routers suppress a route",
			Decode: func(path string, n *node) { f.Suppress = float64(d.Integer(path, n, 1500, 20000)) }},
		{Name: "half_life", Default: "15m", Help: "in which a penalty halves", Decode: func(path string, n *node) { f.HalfLife = d.Between(path, n, time.Second, maxTime) }},
		{Name: "share", Help: "of suppress that the site may use (default: all but one withdrawal)",
			Decode: func(path string, n *node) { f.Share = d.Percent(path, n, 1, 95) }},
	})
	if most := defaultShare(f.Suppress); d.Err() == nil && f.Share > most {
		d.Refuse(document.Join(path, "share"), fmt.Sprintf("leaves less than a withdrawal's 1000 of %g", f.Suppress),
			fmt.Sprintf("at most %.0f%%", 100*most))
	}
	if f.Share > 0 && f.Share*f.Suppress < 500 {
		d.Refuse(document.Join(path, "share"), "allows no change at all: one counts 500", fmt.Sprintf("at least %.2f", 500/f.Suppress))
	}
	return f
}

// defaultShare reserves the penalty of one withdrawal.
func defaultShare(suppress float64) float64 { return 1 - 1000/suppress }
