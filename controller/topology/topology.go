// Package topology is the network as a controller knows it: switches, their ports, the links between them and the hosts at them. It is pure: it
// has no clock, no goroutine and no connection. The caller tells it what happened, and when; it answers with what changed.
//
// A link is learnt from discovery frames that the caller has authenticated ([Graph.SeeLink]), and dies with either port, with its switch's port
// list, or when no frame has confirmed it for Rules.LinkTimeout. Paths use only links that were seen in both directions, so that a frame that
// is relayed one way makes no path.
//
// A port faces a switch, hosts or nothing. It keeps facing hosts for Rules.Memory after their last frame, even if it goes down in between:
// otherwise a host could make its port one for links by flapping it (Port Amnesia). A host is learnt only at a port that faces no switch and
// has been up for Rules.Settle, in which a switch at its other end would have introduced itself.
//
// A host that is seen at another place, or an address that another host claims, is moved only if the old place is down or does not answer a
// probe (host-location hijacking): see [Graph.SeeHost].
//
// A Graph is not for concurrent use.
package topology

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"baton/openflow"
	"baton/packet"
)

// Point is a port of a switch.
type Point struct {
	Switch uint64 // datapath id
	Port   openflow.PortNo
}

func (p Point) String() string { return fmt.Sprintf("%016x:%d", p.Switch, uint32(p.Port)) }

// Compare orders points by switch, then by port.
func (p Point) Compare(o Point) int {
	return cmp.Or(cmp.Compare(p.Switch, o.Switch), cmp.Compare(p.Port, o.Port))
}

// Link is one direction of a link.
type Link struct{ From, To Point }

// Back is the other direction.
func (l Link) Back() Link { return Link{l.To, l.From} }

func (l Link) String() string { return l.From.String() + " -> " + l.To.String() }

// Host is a host. Copies of it share Addresses, which is never changed in place.
type Host struct {
	MAC       packet.MAC
	Addresses []netip.Addr // sorted
	At        Point
	Seen      time.Time
	Presumed  bool // no frame of it was seen: see Presume
}

// Rules are the times and bounds of a graph. Zero fields have defaults.
type Rules struct {
	LinkTimeout time.Duration // without a frame that confirms it; default: 3 s
	Settle      time.Duration // of a port that came up, before hosts are learnt at it; default: 300 ms
	Memory      time.Duration // how long a port faces hosts after their last frame; default: 1 min
	Probe       time.Duration // to answer a probe; default: 500 ms
	HostTimeout time.Duration // of a host that says nothing, even when it is asked (see Silent); default: 10 min
	Hosts       int           // in all; default: 65,536
	PortHosts   int           // at one port; default: 4,096
	Addresses   int           // of one host; default: 256
}

func (r Rules) withDefaults() Rules {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&r.LinkTimeout, 3*time.Second)
	set(&r.Settle, 300*time.Millisecond)
	set(&r.Memory, time.Minute)
	set(&r.Probe, 500*time.Millisecond)
	set(&r.HostTimeout, 10*time.Minute)
	for at, v := range map[*int]int{&r.Hosts: 1 << 16, &r.PortHosts: 4096, &r.Addresses: 256} {
		if *at <= 0 {
			*at = v
		}
	}
	return r
}

// Change is what an event changed. The zero Change: nothing.
type Change struct {
	Added, Removed []Link // directions of links
	Usable         bool   // a link can be used by paths from here on, or no longer
	Hosts          []Host // that are new, have moved or have other addresses
	Gone           []Host // that are no longer known
}

// Any tells whether there is a change.
func (c Change) Any() bool {
	return len(c.Added)+len(c.Removed)+len(c.Hosts)+len(c.Gone) > 0 || c.Usable
}

func (c *Change) add(o Change) {
	c.Added, c.Removed = append(c.Added, o.Added...), append(c.Removed, o.Removed...)
	c.Hosts, c.Gone = append(c.Hosts, o.Hosts...), append(c.Gone, o.Gone...)
	c.Usable = c.Usable || o.Usable
}

// Port is a port of a switch.
type Port struct {
	Number openflow.PortNo
	Name   string
	MAC    packet.MAC
	Up     bool
	Edge   bool // for hosts alone, by the configuration: a link at it is refused
}

type port struct {
	Port
	since time.Time // of Up
	faced time.Time // the last frame of a host; zero: none
	hosts int
	link  *link // from here; nil: none
}

type link struct {
	to    Point
	since time.Time
	seen  time.Time
}

type node struct {
	up    bool
	ports map[openflow.PortNo]*port
}

// Graph is the network.
type Graph struct {
	rules  Rules
	nodes  map[uint64]*node
	hosts  map[packet.MAC]*Host
	owners map[netip.Addr]packet.MAC
	probes map[subject]*probe
	counts Counts
	into   map[Point]Point           // where the link comes from that ends at a port
	trees  map[uint64]map[uint64]int // distances to a switch; emptied by each change of links
}

// New returns an empty graph.
func New(r Rules) *Graph {
	return &Graph{
		rules: r.withDefaults(), nodes: map[uint64]*node{}, hosts: map[packet.MAC]*Host{}, owners: map[netip.Addr]packet.MAC{},
		probes: map[subject]*probe{}, into: map[Point]Point{}, trees: map[uint64]map[uint64]int{},
	}
}

// Counts are refusals since the beginning.
type Counts struct {
	LinkAtHosts    uint64 // a link at a port that faces hosts, or is configured for them
	LinkConflicts  uint64 // a second link at a port whose first one lives
	LinkLoops      uint64 // a link of a port to itself
	LinkUnknown    uint64 // a link of a port that is not known or is down
	HostAtLink     uint64 // a host at a port that faces a switch
	HostTooEarly   uint64 // at a port that has not settled
	HostUnknown    uint64 // at a port that is not known or is down
	HostFull       uint64 // beyond the bounds of Rules
	Moves          uint64 // of hosts, accepted
	MovesRefused   uint64 // the host answered at its old place
	Claims         uint64 // of addresses by another host, accepted
	ClaimsRefused  uint64 // the owner of the address answered
	InvalidAddress uint64 // a group address as a source
}

// Counts returns the refusals so far.
func (g *Graph) Counts() Counts { return g.counts }

// SwitchUp notes a switch that has connected, and its ports. Ports that it no longer has are removed.
func (g *Graph) SwitchUp(now time.Time, id uint64, ports []Port) Change {
	n := g.nodes[id]
	if n == nil {
		n = &node{ports: map[openflow.PortNo]*port{}}
		g.nodes[id] = n
	}
	n.up = true
	var c Change
	have := map[openflow.PortNo]bool{}
	for _, p := range ports {
		have[p.Number] = true
		c.add(g.PortChanged(now, id, p))
	}
	for _, no := range slices.Sorted(maps.Keys(n.ports)) {
		if !have[no] {
			c.add(g.PortRemoved(now, id, no))
		}
	}
	return c
}

// SwitchDown notes that the channel to a switch has ended. The switch goes on forwarding, so its links stay until they time out.
func (g *Graph) SwitchDown(id uint64) {
	if n := g.nodes[id]; n != nil {
		n.up = false
	}
}

// PortChanged notes a port's state. A port that is not up loses its links at once; its hosts stay known, as traffic to them cannot go elsewhere,
// but may move.
func (g *Graph) PortChanged(now time.Time, id uint64, p Port) Change {
	n := g.nodes[id]
	if n == nil || p.Number >= openflow.PortMax {
		return Change{}
	}
	have := n.ports[p.Number]
	if have == nil {
		have = &port{}
		n.ports[p.Number] = have
	}
	if p.Up && !have.Up {
		have.since = now
	}
	have.Port = p
	if p.Up {
		return Change{}
	}
	return g.cut(Point{id, p.Number})
}

// PortRemoved forgets a port, its links and its hosts.
func (g *Graph) PortRemoved(_ time.Time, id uint64, no openflow.PortNo) Change {
	at := Point{id, no}
	c := g.cut(at)
	for _, h := range g.hostsAt(at) {
		c.Gone = append(c.Gone, *h)
		g.forget(h)
	}
	if n := g.nodes[id]; n != nil {
		delete(n.ports, no)
	}
	return c
}

// cut removes both directions of the links at a port.
func (g *Graph) cut(at Point) Change {
	var c Change
	if p := g.port(at); p != nil && p.link != nil {
		c.add(g.unlink(at))
	}
	if from, ok := g.into[at]; ok {
		c.add(g.unlink(from))
	}
	return c
}

// unlink removes the direction of a link that begins at a port.
func (g *Graph) unlink(from Point) Change {
	p := g.port(from)
	c := Change{Removed: []Link{{from, p.link.to}}, Usable: g.usable(from)}
	delete(g.into, p.link.to)
	p.link = nil
	if c.Usable {
		clear(g.trees)
	}
	return c
}

func (g *Graph) port(at Point) *port {
	if n := g.nodes[at.Switch]; n != nil {
		return n.ports[at.Port]
	}
	return nil
}

// points are all ports, in order.
func (g *Graph) points() []Point {
	var all []Point
	for id, n := range g.nodes {
		for no := range n.ports {
			all = append(all, Point{id, no})
		}
	}
	slices.SortFunc(all, Point.Compare)
	return all
}

// usable tells whether the link from a port was seen in both directions.
func (g *Graph) usable(from Point) bool {
	p := g.port(from)
	if p == nil || p.link == nil {
		return false
	}
	back := g.port(p.link.to)
	return back != nil && back.link != nil && back.link.to == from
}

// SeeLink notes an authentic discovery frame that left at from and came in at to. It returns why the link is refused, "" if it is not.
func (g *Graph) SeeLink(now time.Time, from, to Point) (Change, string) {
	a, b := g.port(from), g.port(to)
	other, taken := g.into[to]
	switch {
	case from == to:
		g.counts.LinkLoops++
		return Change{}, "the frame came back to its own port"
	case a == nil || b == nil || !a.Up || !b.Up:
		g.counts.LinkUnknown++
		return Change{}, "one of the ports is down or unknown"
	case a.Edge || b.Edge || g.facesHosts(now, a) || g.facesHosts(now, b):
		g.counts.LinkAtHosts++
		return Change{}, "one of the ports faces hosts"
	case a.link != nil && a.link.to != to, b.link != nil && b.link.to != from, taken && other != from:
		g.counts.LinkConflicts++
		return Change{}, "one of the ports has another link, which lives"
	}
	if a.link != nil {
		a.link.seen = now
		return Change{}, ""
	}
	a.link = &link{to: to, since: now, seen: now}
	g.into[to] = from
	c := Change{Added: []Link{{from, to}}, Usable: g.usable(from)}
	if c.Usable {
		clear(g.trees)
	}
	return c, ""
}

// facesHosts tells whether hosts were seen at a port that may still be there.
func (g *Graph) facesHosts(now time.Time, p *port) bool {
	return !p.faced.IsZero() && now.Sub(p.faced) < g.rules.Memory
}

// Faces is what a port faces.
type Faces string

// What a port may face.
const (
	FacesNothing Faces = "nothing"
	FacesHost    Faces = "host"
	FacesSwitch  Faces = "switch"
)

// Faces tells what a port faces.
func (g *Graph) Faces(now time.Time, at Point) Faces {
	p := g.port(at)
	switch {
	case p == nil:
		return FacesNothing
	case g.linked(at):
		return FacesSwitch
	case p.hosts > 0 || g.facesHosts(now, p):
		return FacesHost
	}
	return FacesNothing
}

// linked tells whether a link begins or ends at a port.
func (g *Graph) linked(at Point) bool {
	_, ends := g.into[at]
	p := g.port(at)
	return ends || p != nil && p.link != nil
}

// Edges are the ports at which hosts may be: up, settled and without a link.
func (g *Graph) Edges(now time.Time) []Point {
	var all []Point
	for _, at := range g.points() {
		p := g.port(at)
		if p.Up && g.nodes[at.Switch].up && !g.linked(at) && (p.Edge || now.Sub(p.since) >= g.rules.Settle) {
			all = append(all, at)
		}
	}
	return all
}

func (g *Graph) allLinks() map[Point]*link {
	all := map[Point]*link{}
	for id, n := range g.nodes {
		for no, p := range n.ports {
			if p.link != nil {
				all[Point{id, no}] = p.link
			}
		}
	}
	return all
}

// Tick removes links and hosts that have timed out, and decides the probes whose time has passed.
func (g *Graph) Tick(now time.Time) Change {
	var c Change
	for from, l := range g.allLinks() {
		if now.Sub(l.seen) >= g.rules.LinkTimeout && g.port(from).link != nil {
			c.add(g.unlink(from))
		}
	}
	slices.SortFunc(c.Removed, func(a, b Link) int { return a.From.Compare(b.From) })
	c.add(g.decide(now))
	for _, h := range g.Hosts() {
		if now.Sub(h.Seen) >= g.rules.HostTimeout {
			c.Gone = append(c.Gone, h)
			g.forget(g.hosts[h.MAC])
		}
	}
	return c
}
