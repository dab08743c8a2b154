package choice

import (
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"baton/relay/trunkproto"
)

// Table maps destinations to routes. Only the times of last use change; any number of goroutines may use it.
type Table struct {
	known    map[Destination]*answer
	near     []neighbour        // the prefixes of known that have routes, sorted
	fallback []trunkproto.Names // for unknown destinations: direct, then through the nearest peers
}

type answer struct {
	routes   []trunkproto.Names // best first, each with another first relay; nil: not measured yet
	lastUsed *atomic.Int64      // ns since 1970
}

type neighbour struct {
	of     Destination
	routes []trunkproto.Names
}

// useResolution is the accuracy of the time of last use.
const useResolution = time.Second

// Exact is Find for the destination of an entry.
func (t *Table) Exact(server netip.AddrPort, now time.Time) (routes []trunkproto.Names, known bool) {
	return t.find(Exactly(server), now)
}

// Find returns the routes to a server, best first; nil among them is the direct one. If known is false, the destination should be reported
// so that it is measured; the routes are then those of a neighbour or, without one, nil. It takes one map lookup for a known destination,
// and allocates nothing. The caller must not change the result.
func (t *Table) Find(server netip.AddrPort, now time.Time) (routes []trunkproto.Names, known bool) {
	d := Of(server)
	if routes, known = t.find(d, now); routes == nil {
		routes = t.neighbour(d)
	}
	return routes, known
}

// Fallback returns the routes for unknown destinations.
func (t *Table) Fallback() []trunkproto.Names { return t.fallback }

func (t *Table) find(d Destination, now time.Time) ([]trunkproto.Names, bool) {
	a := t.known[d]
	if a == nil {
		return nil, false
	}
	if at := now.UnixNano(); at-a.lastUsed.Load() > int64(useResolution) {
		a.lastUsed.Store(at)
	}
	return a.routes, true
}

// Common bits needed to use a neighbour's routes: with fewer, the neighbour says nothing about the location.
const (
	alike4 = 16
	alike6 = 32
)

// neighbour returns the routes of the known destination with the longest common prefix, nil if that is too short.
func (t *Table) neighbour(d Destination) []trunkproto.Names {
	i, _ := slices.BinarySearchFunc(t.near, d, func(n neighbour, d Destination) int { return n.of.compare(d) })
	best, routes := alike6, []trunkproto.Names(nil)
	if d.Prefix.Addr().Is4() {
		best = alike4
	}
	for _, k := range []int{i - 1, i} { // the value with the longest common prefix is adjacent in the order
		if k < 0 || k >= len(t.near) || t.near[k].of.Prefix.Addr().Is4() != d.Prefix.Addr().Is4() {
			continue
		}
		if n := common(d.Prefix.Addr(), t.near[k].of.Prefix.Addr()); n >= best {
			best, routes = n+1, t.near[k].routes
		}
	}
	return routes
}

// common is the number of leading bits that two addresses of a family share.
func common(a, b netip.Addr) int {
	x, y := a.As16(), b.As16()
	n := 0
	for i := range x {
		if x[i] != y[i] {
			n += bits.LeadingZeros8(x[i] ^ y[i])
			break
		}
		n += 8
	}
	if a.Is4() {
		n -= 96
	}
	return n
}
