package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"baton/openflow"
)

// Hop is a switch on a path: packets come in at In and leave at Out.
type Hop struct {
	Switch  uint64
	In, Out openflow.PortNo
}

// ErrNoPath: two places are not connected.
var ErrNoPath = errors.New("there is no path")

// Path returns a shortest path from a host to another, from the first's switch to the second's. Of equal paths flow chooses: the same number
// always chooses the same one while the topology stays, and different numbers spread.
func (g *Graph) Path(from, to Host, flow uint64) ([]Hop, error) {
	return g.PathBetween(from.At, to.At, flow)
}

// PathBetween is Path from port to port.
func (g *Graph) PathBetween(from, to Point, flow uint64) ([]Hop, error) {
	hops := []Hop{}
	in := from.Port
	for at := from.Switch; at != to.Switch; {
		out, next, ok := g.Next(at, to.Switch, flow)
		if !ok {
			return nil, fmt.Errorf("%w from %v to %v", ErrNoPath, from, to)
		}
		hops = append(hops, Hop{at, in, out})
		at, in = next.Switch, next.Port
	}
	return append(hops, Hop{to.Switch, in, to.Port}), nil
}

// Next returns the port by which a shortest path from one switch to another begins, and where its link ends. Every step comes nearer to the
// destination, so that steps of different flows make no loop.
func (g *Graph) Next(at, to uint64, flow uint64) (openflow.PortNo, Point, bool) {
	far := g.distances(to)
	here, ok := far[at]
	if !ok || here == 0 {
		return 0, Point{}, false
	}
	var outs []openflow.PortNo
	n := g.nodes[at]
	for _, no := range slices.Sorted(maps.Keys(n.ports)) {
		if !g.usable(Point{at, no}) {
			continue
		}
		if d, ok := far[n.ports[no].link.to.Switch]; ok && d == here-1 {
			outs = append(outs, no)
		}
	}
	out := outs[mix(flow, at)%uint64(len(outs))]
	return out, n.ports[out].link.to, true
}

// mix makes the choice at a switch independent of that at another (splitmix64). Flow 0 always takes the lowest port.
func mix(flow, at uint64) uint64 {
	if flow == 0 {
		return 0
	}
	z := flow + at*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Distance is the number of links between two switches.
func (g *Graph) Distance(a, b uint64) (int, bool) {
	d, ok := g.distances(b)[a]
	return d, ok
}

// distances are those of all switches to one, by breadth-first search.
func (g *Graph) distances(to uint64) map[uint64]int {
	if far := g.trees[to]; far != nil {
		return far
	}
	far := map[uint64]int{}
	if g.nodes[to] != nil {
		far[to] = 0
	}
	for queue := []uint64{to}; len(queue) > 0; queue = queue[1:] {
		n := g.nodes[queue[0]]
		if n == nil {
			continue
		}
		for no, p := range n.ports {
			if !g.usable(Point{queue[0], no}) {
				continue
			}
			next := p.link.to.Switch
			if _, seen := far[next]; !seen {
				far[next] = far[queue[0]] + 1
				queue = append(queue, next)
			}
		}
	}
	g.trees[to] = far
	return far
}

// SwitchState is a switch and its ports, in order.
type SwitchState struct {
	ID    uint64
	Up    bool // its channel
	Ports []PortState
}

// PortState is a port and what it faces.
type PortState struct {
	Port
	Faces Faces
}

// LinkState is one direction of a link.
type LinkState struct {
	Link
	Since  time.Time
	Usable bool // seen in both directions
}

// Switches returns all switches, in order.
func (g *Graph) Switches(now time.Time) []SwitchState {
	var all []SwitchState
	for _, id := range slices.Sorted(maps.Keys(g.nodes)) {
		n := g.nodes[id]
		s := SwitchState{ID: id, Up: n.up}
		for _, no := range slices.Sorted(maps.Keys(n.ports)) {
			s.Ports = append(s.Ports, PortState{n.ports[no].Port, g.Faces(now, Point{id, no})})
		}
		all = append(all, s)
	}
	return all
}

// Links returns all directions of links, in order.
func (g *Graph) Links() []LinkState {
	all := []LinkState{}
	for from, l := range g.allLinks() {
		all = append(all, LinkState{Link{from, l.to}, l.since, g.usable(from)})
	}
	slices.SortFunc(all, func(a, b LinkState) int { return a.From.Compare(b.From) })
	return all
}

// PortUp tells whether a port is known and up.
func (g *Graph) PortUp(at Point) bool {
	p := g.port(at)
	return p != nil && p.Up
}

// PortAt returns a port.
func (g *Graph) PortAt(at Point) (Port, bool) {
	if p := g.port(at); p != nil {
		return p.Port, true
	}
	return Port{}, false
}
