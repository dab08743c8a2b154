package choice

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"baton/relay/plan"
)

// Chooser holds the state of all choices. It is used by one goroutine; its tables may be used by any.
type Chooser struct {
	o       Options
	random  func() float64 // in [0, 1)
	nodes   []*node        // this relay, then its peers
	legs    map[plan.Pair]*history
	broken  map[plan.Pair]time.Time // from one peer to the next, with the time of the report
	all     map[Destination]*record
	dirty   []*record // with routes to decide again, in order
	stale   bool      // the table must be built anew
	full    time.Time // no destination can be evicted before
	changes []Change
	changed uint64
}

// node is a relay.
type node struct {
	Peer
	here  bool      // this relay
	down  bool      // no trunk to it can be opened
	back  time.Time // when it came up again; zero: it may be used
	busy  bool      // it is measuring
	ready time.Time // when it may measure again: probes are paced
	idle  bool      // it had nothing to measure
}

// record is the state of a destination.
type record struct {
	of       Destination
	server   netip.AddrPort // the address that is measured
	fixed    bool
	direct   bool // this relay may connect to it
	lastUsed *atomic.Int64
	seen     map[string]*history // by the relay's name
	moved    bool                // measurements changed since the last decision

	queued bool
	chosen Route // assuming that all relays are reachable
	used   Route
	others []Route // in case used is unreachable
	known  bool    // the routes are chosen
	gone   bool    // it was dropped
	since  time.Time
	why    string
}

// Change is a change of a destination's route.
type Change struct {
	Destination Destination
	From, To    Route
	First       bool // the first route of the destination
	Why         string
}

// New returns an empty Chooser. random is in [0, 1) and spreads the measurements of many relays.
func New(random func() float64) *Chooser {
	return &Chooser{
		random: random, nodes: []*node{{here: true}}, legs: make(map[plan.Pair]*history), broken: make(map[plan.Pair]time.Time),
		all: make(map[Destination]*record), stale: true,
	}
}

// Configure applies other options. Measurements of remaining relays and destinations are kept, and so are routes that remain valid.
func (c *Chooser) Configure(now time.Time, o Options) {
	o.Peers = o.Peers[:min(len(o.Peers), MostPeers)]
	anew := !c.o.sameRules(&o)
	before := c.nodes
	c.o, c.stale, c.full = o, true, time.Time{}
	c.nodes = []*node{{Peer: Peer{Name: o.Self, Cloud: o.Cloud}, here: true}}
	if before[0].Name == o.Self {
		c.nodes[0] = before[0]
		c.nodes[0].Cloud = o.Cloud
	}
	lost := make(map[string]bool)
	for _, n := range before {
		lost[n.Name] = n != c.nodes[0]
	}
	for _, p := range o.Peers {
		n := &node{Peer: p}
		if i := slices.IndexFunc(before, func(b *node) bool { return b.Name == p.Name && b.Address == p.Address && !b.here }); i >= 0 {
			n = before[i]
			n.Cloud = p.Cloud
			lost[p.Name] = false
		}
		c.nodes = append(c.nodes, n)
	}
	for pair := range c.legs {
		if lost[pair.From] || lost[pair.To] {
			delete(c.legs, pair)
			delete(c.broken, pair)
		}
	}
	fixed := make(map[Destination]bool)
	for _, server := range o.Fixed {
		d := Exactly(server)
		fixed[d] = true
		if c.all[d] == nil {
			c.add(now, d, server)
		}
		c.all[d].fixed = true
	}
	for d, p := range c.all {
		if p.fixed = fixed[d]; !p.fixed && (!o.Learn || d == Exactly(p.server)) {
			c.drop(p)
			continue
		}
		p.direct = p.fixed || o.Allowed(p.server)
		for name := range p.seen {
			if lost[name] {
				delete(p.seen, name)
			}
		}
		p.known = p.known && !anew
		p.moved = true
		c.mark(p)
	}
	c.wakeAll()
}

func (c *Chooser) add(now time.Time, d Destination, server netip.AddrPort) {
	p := &record{of: d, server: server, lastUsed: new(atomic.Int64), seen: make(map[string]*history)}
	p.lastUsed.Store(now.UnixNano())
	c.all[d] = p
	c.stale = true
	c.wakeAll()
}

func (c *Chooser) drop(p *record) {
	delete(c.all, p.of)
	p.gone = true
	c.stale = true
}

// Track adds a destination that a flow has used and that the table lacks.
func (c *Chooser) Track(now time.Time, server netip.AddrPort) {
	d := Of(server)
	if p := c.all[d]; p != nil {
		p.lastUsed.Store(now.UnixNano())
		return
	}
	if !c.o.Learn || !server.IsValid() || server.Port() == 0 || !c.admit(now) {
		return
	}
	c.add(now, d, server)
	c.all[d].direct = c.o.Allowed(server)
}

// admit reports whether there is space for one more destination. It may evict the least recently used one.
func (c *Chooser) admit(now time.Time) bool {
	if len(c.all) < mostDestinations {
		return true
	}
	if now.Before(c.full) {
		return false
	}
	var oldest *record
	for _, p := range c.all {
		if !p.fixed && (oldest == nil || p.lastUsed.Load() < oldest.lastUsed.Load() ||
			p.lastUsed.Load() == oldest.lastUsed.Load() && p.of.compare(oldest.of) < 0) {
			oldest = p
		}
	}
	if oldest == nil {
		return false
	}
	if free := time.Unix(0, oldest.lastUsed.Load()).Add(leastAge); now.Before(free) {
		c.full = free
		return false
	}
	c.drop(oldest)
	return true
}

// Reach records whether trunks to a peer can be opened.
func (c *Chooser) Reach(now time.Time, peer string, up bool) {
	n := c.node(peer)
	if n == nil || n.here || n.down == !up {
		return
	}
	n.down = !up
	n.back = time.Time{}
	if up {
		n.back = now
	}
	c.stale = true // the peers' order
	c.markAll()
	c.wakeAll()
}

// Broken records that one peer cannot reach the next.
func (c *Chooser) Broken(now time.Time, from, to string) {
	f, t := c.node(from), c.node(to)
	if f == nil || t == nil || f.here || t.here {
		return
	}
	if _, already := c.broken[plan.Pair{From: from, To: to}]; !already {
		c.markAll()
	}
	c.broken[plan.Pair{From: from, To: to}] = now
}

func (c *Chooser) node(name string) *node {
	if i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.Name == name }); i >= 0 {
		return c.nodes[i]
	}
	return nil
}

// endDwell makes relays usable again that have been up for the dwell time.
func (c *Chooser) endDwell(now time.Time) {
	for _, n := range c.nodes {
		if !n.back.IsZero() && !now.Before(n.back.Add(c.o.Dwell)) {
			n.back = time.Time{}
			c.markAll()
		}
	}
	for pair, since := range c.broken {
		if !now.Before(since.Add(c.o.Dwell)) {
			delete(c.broken, pair)
			c.markAll()
		}
	}
}

func (c *Chooser) markAll() {
	for _, p := range c.records() {
		c.mark(p)
	}
}

func (c *Chooser) mark(p *record) {
	if !p.queued {
		p.queued = true
		c.dirty = append(c.dirty, p)
	}
}

// records returns all destinations in order.
func (c *Chooser) records() []*record {
	out := make([]*record, 0, len(c.all))
	for _, p := range c.all {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *record) int { return a.of.compare(b.of) })
	return out
}

// Expire drops unused destinations.
func (c *Chooser) Expire(now time.Time) {
	for _, p := range c.all {
		if !p.fixed && now.Sub(time.Unix(0, p.lastUsed.Load())) > expiry*c.o.Refresh {
			c.drop(p)
		}
	}
}

// SetStart sets the bytes that trunks send at first; 0: as any connection. Later decisions use it.
func (c *Chooser) SetStart(bytes int64) { c.o.Start = bytes }

// Changes returns the changes since the last call.
func (c *Chooser) Changes() []Change {
	out := c.changes
	c.changes = nil
	return out
}

// Changed is the number of changes.
func (c *Chooser) Changed() uint64 { return c.changed }

// Table returns the current table if it differs from the last one.
func (c *Chooser) Table() (t *Table, fresh bool) {
	if !c.stale {
		return nil, false
	}
	c.stale = false
	t = &Table{known: make(map[Destination]*answer, len(c.all))}
	for _, p := range c.all {
		a := &answer{lastUsed: p.lastUsed}
		if p.known {
			a.routes = append(a.routes, p.used.names())
			for _, w := range p.others {
				a.routes = append(a.routes, w.names())
			}
			if !p.fixed {
				t.near = append(t.near, neighbour{p.of, a.routes})
			}
		}
		t.known[p.of] = a
	}
	slices.SortFunc(t.near, func(a, b neighbour) int { return a.of.compare(b.of) })
	t.fallback = append(t.fallback, nil)
	for _, n := range c.byDistance() {
		t.fallback = append(t.fallback, Route(n.Name).names())
	}
	return t, true
}

// byDistance returns the peers, reachable ones first, ordered by distance.
func (c *Chooser) byDistance() []*node {
	out := slices.Clone(c.nodes[1:])
	distance := func(n *node) time.Duration {
		if h := c.legs[plan.Pair{From: c.o.Self, To: n.Name}]; h != nil && h.rtt() > 0 {
			return h.rtt()
		}
		return time.Hour
	}
	reached := func(n *node) int {
		if n.down {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b *node) int {
		return cmp.Or(reached(a)-reached(b), cmp.Compare(distance(a), distance(b)), strings.Compare(a.Name, b.Name))
	})
	return out
}
