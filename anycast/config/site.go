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
		{Name: "prefixes", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPrefixes)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Prefixes = append(s.Prefixes, d.routable(at, n)) })
		}},
		{Name: "bgp", Decode: func(path string, n *node) { s.BGP = d.bgp(path, n) }},
		{Name: "addresses", Decode: func(path string, n *node) { s.Addresses = d.addresses(path, n) }},
		{Name: "checks", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxChecks)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Checks = append(s.Checks, d.check(at, n)) })
		}},
		{Name: "loads", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxLoads)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Loads = append(s.Loads, d.load(at, n)) })
		}},
		{Name: "levels", Decode: func(path string, n *node) { s.Control.Ladder = d.ladder(path, n) }},
		{Name: "dwell", Decode: func(path string, n *node) { s.Control.Dwell = d.Between(path, n, time.Second, maxTime) }},
		{Name: "flaps", Decode: func(path string, n *node) { s.Control.Flaps = d.flaps(path, n) }},
		{Name: "planner", Decode: func(path string, n *node) { s.Planner = d.Label(path, n) }},
		{Name: "others", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxOthers)
			d.NonEmptyList(path, n, func(at string, n *node) { s.Others = append(s.Others, d.other(at, n)) })
		}},
		{Name: "stale", Decode: func(path string, n *node) { s.Stale = d.Between(path, n, 100*time.Millisecond, maxTime) }},
		{Name: "poll", Decode: func(path string, n *node) { s.Poll = d.Between(path, n, 100*time.Millisecond, maxTime) }},
		{Name: "drain", Decode: func(path string, n *node) { s.Drain = d.Between(path, n, time.Second, maxTime) }},
		{Name: "state", Decode: func(path string, n *node) { s.State = d.FilePath(path, n) }},
		{Name: "stop", Decode: func(path string, n *node) { s.Stop = d.orNone(path, n, time.Second, time.Hour) }},
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
		{Name: "interface", Decode: func(path string, n *node) { a.Interface = d.Device(path, n) }},
		{Name: "addresses", Decode: func(path string, n *node) {
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
		{Name: "name", Decode: func(path string, n *node) { o.Name = d.Label(path, n) }},
		{Name: "url", Decode: func(path string, n *node) { o.URL = d.https(path, n) }},
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
		{Name: "suppress", Decode: func(path string, n *node) { f.Suppress = float64(d.Integer(path, n, 1500, 20000)) }},
		{Name: "half_life", Decode: func(path string, n *node) { f.HalfLife = d.Between(path, n, time.Second, maxTime) }},
		{Name: "share", Decode: func(path string, n *node) { f.Share = d.Percent(path, n, 1, 95) }},
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
