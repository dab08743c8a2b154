package choice

import (
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"baton/relay/trunkproto"
)

// Table is what flows are sent by. It does not change but for when destinations were asked for; any number of goroutines may use it.
type Table struct {
	known    map[Destination]*answer
	near     []neighbour        // of known, those of prefixes that have ways, sorted
	fallback []trunkproto.Names // for those that nothing is known of: directly first, then by the nearest peers
}

type answer struct {
	routes   []trunkproto.Names // the best first, each with another first relay; nil: nothing is measured yet
	lastUsed *atomic.Int64      // when, ns since 1970
}

type neighbour struct {
	of     Destination
	routes []trunkproto.Names
}

// useResolution is how exact it is known when a destination was asked for.
const useResolution = time.Second

// Exact gives the ways to an entry's own destination, as Find does.
func (t *Table) Exact(server netip.AddrPort, now time.Time) (routes []trunkproto.Names, known bool) {
	return t.find(Exactly(server), now)
}

// Find gives the ways to a server that a flow asks for, the best first; nil among them is the direct one. Not known: the destination is
// to be told of, so that it is measured, and meanwhile ways are those of a neighbour or, without one, what can be said of any server.
// It takes one look into a map if the destination is known, and allocates nothing. The caller changes nothing of the result.
func (t *Table) Find(server netip.AddrPort, now time.Time) (routes []trunkproto.Names, known bool) {
	d := Of(server)
	if routes, known = t.find(d, now); routes == nil {
		routes = t.neighbour(d)
	}
	return routes, known
}

// Fallback are the ways of last resort.
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

// Bits that a destination has in common with one whose ways it takes meanwhile: fewer say nothing of where it is.
const (
	alike4 = 16
	alike6 = 32
)

// neighbour gives the ways of the known destination whose address begins with the most bits of this one's, nil if that is too far away.
func (t *Table) neighbour(d Destination) []trunkproto.Names {
	i, _ := slices.BinarySearchFunc(t.near, d, func(n neighbour, d Destination) int { return n.of.compare(d) })
	best, routes := alike6, []trunkproto.Names(nil)
	if d.Prefix.Addr().Is4() {
		best = alike4
	}
	for _, k := range []int{i - 1, i} { // what has most in common with a value stands beside its place
		if k < 0 || k >= len(t.near) || t.near[k].of.Prefix.Addr().Is4() != d.Prefix.Addr().Is4() {
			continue
		}
		if n := common(d.Prefix.Addr(), t.near[k].of.Prefix.Addr()); n >= best {
			best, routes = n+1, t.near[k].routes
		}
	}
	return routes
}

// common is how many bits two addresses of a family begin with alike.
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
