// Package paths keeps the flow entries by which hosts reach each other.
//
// The entries to a destination make a tree: each switch that has one sends the destination's packets one link nearer to it. What is wanted, what a
// change of the topology affects, and in which order switches are changed is computed by [Table], which is pure. [Manager] sends it.
//
// Entries have no timeouts: they stay while the host exists, and go with it.
package paths

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"baton/controller/switches"
	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

// Spread is how equal paths are chosen.
type Spread string

// The kinds of spreading.
const (
	SpreadNone        Spread = "none"        // the lowest ports
	SpreadDestination Spread = "destination" // by destination: an entry a destination and switch
	SpreadPair        Spread = "pair"        // by source and destination: an entry for each pair
)

// Key is a tree of entries: those to a destination, from one source if the paths are spread by pairs.
type Key struct{ Src, Dst packet.MAC }

// Pair is a cached path.
type Pair struct{ Src, Dst packet.MAC }

// Cookie is that of the entries of paths.
var Cookie = switches.Cookie(switches.ModulePaths, 0)

// Entry is the flow mod of a switch in a tree.
func Entry(k Key, out openflow.PortNo) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Priority, m.Cookie, m.Match = switches.PriorityPath, Cookie, k.match()
	m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: []openflow.Action{openflow.ActionOutput{Port: out}}}}
	return m
}

// Removal is the flow mod that removes it.
func Removal(k Key) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowDeleteStrict)
	m.Priority, m.Cookie, m.CookieMask, m.Match = switches.PriorityPath, Cookie, 1<<64-1, k.match()
	return m
}

func (k Key) match() openflow.Match {
	m := openflow.Match{}.MAC(openflow.FieldEthDst, k.Dst)
	if k.Src != (packet.MAC{}) {
		m = m.MAC(openflow.FieldEthSrc, k.Src)
	}
	return m
}

// flow is the number by which a tree's equal paths are chosen.
func (k Key) flow() uint64 {
	h := fnv.New64a()
	h.Write(k.Src[:])
	h.Write(k.Dst[:])
	return max(h.Sum64(), 1)
}

// parse reads a flow entry. False: it is none of a path as they are made here.
func parse(e openflow.FlowStats) (Key, openflow.PortNo, bool) {
	var k Key
	if e.Priority != switches.PriorityPath || e.Table != 0 || len(e.Instructions) != 1 {
		return k, 0, false
	}
	for t, err := range e.Match.All() {
		switch {
		case err != nil || t.Masked:
			return k, 0, false
		case t.Field == openflow.FieldEthDst:
			k.Dst = t.MAC()
		case t.Field == openflow.FieldEthSrc:
			k.Src = t.MAC()
		default:
			return k, 0, false
		}
	}
	apply, ok := e.Instructions[0].(openflow.InstructionApplyActions)
	if !ok || len(apply.Actions) != 1 || k.Dst == (packet.MAC{}) {
		return k, 0, false
	}
	out, ok := apply.Actions[0].(openflow.ActionOutput)
	return k, out.Port, ok && out.Port < openflow.PortMax
}

// Step is a change of a tree at one switch.
type Step struct {
	Key      Key
	Switch   uint64
	Out      openflow.PortNo // 0: the entry is removed
	Distance int             // links to the destination
	Replaces bool            // there is an entry already, which leads elsewhere
}

// Message is the flow mod of a step.
func (s Step) Message() *openflow.FlowMod {
	if s.Out == 0 {
		return Removal(s.Key)
	}
	return Entry(s.Key, s.Out)
}

// tree are the entries of a key that are installed.
type tree struct {
	out    map[uint64]openflow.PortNo
	orphan time.Time // since when the destination has not been known; zero: it is
}

// Table is what is installed. It is not for concurrent use.
type Table struct {
	spread Spread
	trees  map[Key]*tree
	pairs  map[Pair]bool
}

// NewTable returns an empty table.
func NewTable(s Spread) *Table {
	return &Table{spread: s, trees: map[Key]*tree{}, pairs: map[Pair]bool{}}
}

// Key is the tree that a path from src to dst belongs to.
func (t *Table) Key(src, dst packet.MAC) Key {
	if t.spread == SpreadPair {
		return Key{src, dst}
	}
	return Key{Dst: dst}
}

func (t *Table) flow(k Key) uint64 {
	if t.spread == SpreadNone {
		return 0
	}
	return k.flow()
}

// Cached tells whether a path is known to be installed.
func (t *Table) Cached(p Pair) bool { return t.pairs[p] }

// Cache notes that a path is installed.
func (t *Table) Cache(p Pair) { t.pairs[p] = true }

// Forget removes paths from the cache: those from and to a host. Their entries stay. It returns the pairs.
func (t *Table) Forget(mac packet.MAC) []Pair {
	var all []Pair
	for p := range t.pairs {
		if p.Src == mac || p.Dst == mac {
			all = append(all, p)
			delete(t.pairs, p)
		}
	}
	return all
}

// Plan returns the steps to a path between two hosts. With again, entries that are there already are sent once more. It changes nothing: see
// [Table.Done].
func (t *Table) Plan(g *topology.Graph, src, dst topology.Host, again bool) ([]Step, error) {
	k := t.Key(src.MAC, dst.MAC)
	hops, err := g.Path(src, dst, t.flow(k))
	if err != nil {
		return nil, err
	}
	var steps []Step
	for i, h := range hops {
		have, there := t.out(k, h.Switch)
		if there && have == h.Out && !again {
			continue
		}
		steps = append(steps, Step{k, h.Switch, h.Out, len(hops) - 1 - i, there && have != h.Out})
	}
	return steps, nil
}

// Hops is the path that a plan installs.
func (t *Table) Hops(g *topology.Graph, src, dst topology.Host) ([]topology.Hop, error) {
	return g.Path(src, dst, t.flow(t.Key(src.MAC, dst.MAC)))
}

func (t *Table) out(k Key, id uint64) (openflow.PortNo, bool) {
	if tr := t.trees[k]; tr != nil {
		p, ok := tr.out[id]
		return p, ok
	}
	return 0, false
}

// Replan returns the steps that bring a tree to the present topology, for a destination that is known: every switch that has an entry gets the
// right one, and so does each switch on its path. A switch without a path keeps its entry.
func (t *Table) Replan(g *topology.Graph, k Key, dst topology.Host) []Step {
	tr := t.trees[k]
	if tr == nil {
		return nil
	}
	var steps []Step
	done := map[uint64]bool{}
	for _, id := range slices.Sorted(maps.Keys(tr.out)) {
		hops, err := g.PathBetween(topology.Point{Switch: id}, dst.At, t.flow(k))
		if err != nil {
			continue
		}
		for i, h := range hops {
			if done[h.Switch] {
				break // so is the rest of its path
			}
			done[h.Switch] = true
			if have, there := tr.out[h.Switch]; !there || have != h.Out {
				steps = append(steps, Step{k, h.Switch, h.Out, len(hops) - 1 - i, there})
			}
		}
	}
	return steps
}

// Remove returns the steps that remove a tree.
func (t *Table) Remove(k Key) []Step {
	var steps []Step
	if tr := t.trees[k]; tr != nil {
		for _, id := range slices.Sorted(maps.Keys(tr.out)) {
			steps = append(steps, Step{Key: k, Switch: id})
		}
	}
	return steps
}

// Done notes that a switch has taken a step.
func (t *Table) Done(s Step) {
	tr := t.trees[s.Key]
	if tr == nil {
		if s.Out == 0 {
			return
		}
		tr = &tree{out: map[uint64]openflow.PortNo{}}
		t.trees[s.Key] = tr
	}
	if s.Out != 0 {
		tr.out[s.Switch] = s.Out
		return
	}
	delete(tr.out, s.Switch)
	if len(tr.out) == 0 {
		delete(t.trees, s.Key)
	}
}

// Keys are the trees to a destination.
func (t *Table) Keys(dst packet.MAC) []Key {
	var all []Key
	for k := range t.trees {
		if k.Dst == dst {
			all = append(all, k)
		}
	}
	return all
}

// Users are the trees that send packets over one of these directions of links.
func (t *Table) Users(links []topology.Link) []Key {
	var all []Key
	for k, tr := range t.trees {
		if slices.ContainsFunc(links, func(l topology.Link) bool { return tr.out[l.From.Switch] == l.From.Port }) {
			all = append(all, k)
		}
	}
	return all
}

// All are all trees.
func (t *Table) All() []Key { return slices.Collect(maps.Keys(t.trees)) }

// Entries is how many entries a switch has.
func (t *Table) Entries(id uint64) int {
	n := 0
	for _, tr := range t.trees {
		if _, ok := tr.out[id]; ok {
			n++
		}
	}
	return n
}

// Counts are the numbers of trees, entries and cached paths.
func (t *Table) Counts() (trees, entries, pairs int) {
	for _, tr := range t.trees {
		entries += len(tr.out)
	}
	return len(t.trees), entries, len(t.pairs)
}

// Layers puts steps into groups that are sent one after the other, the switches of a group at the same time. Where entries change, the switches
// are in order of their new distance: those that have the new entry then lead to the destination on new entries alone, so that no moment has a
// loop. Entries that are all new make no loop; of these only the first switch of the path waits, so that packets enter a path that is whole.
func Layers(steps []Step) [][]Step {
	if len(steps) == 0 {
		return nil
	}
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Distance, b.Distance) })
	if slices.ContainsFunc(steps, func(s Step) bool { return s.Replaces }) {
		var layers [][]Step
		for len(steps) > 0 {
			n := 1
			for n < len(steps) && steps[n].Distance == steps[0].Distance {
				n++
			}
			layers, steps = append(layers, steps[:n]), steps[n:]
		}
		return layers
	}
	last := len(steps) - 1
	if last == 0 || steps[0].Out == 0 { // one step, or a tree that is removed
		return [][]Step{steps}
	}
	return [][]Step{steps[:last], steps[last:]}
}

// Adopt reads the entries of paths that a switch has, as it has connected. It returns what brings them to what was installed before, the steps
// that were lost, and the messages that remove entries that are none of a path's.
func (t *Table) Adopt(id uint64, have []openflow.FlowStats) (lost []Step, remove []openflow.Message) {
	found := map[Key]openflow.PortNo{}
	for _, e := range have {
		k, out, ok := parse(e)
		if !ok || t.spread == SpreadPair != (k.Src != (packet.MAC{})) {
			remove = append(remove, switches.Removal(e))
			continue
		}
		found[k] = out
	}
	for k, tr := range t.trees {
		want, wanted := tr.out[id]
		is, there := found[k]
		if wanted && (!there || is != want) {
			lost = append(lost, Step{Key: k, Switch: id, Out: want, Replaces: there})
			delete(tr.out, id)
		}
		if there && is != want && !wanted {
			tr.out[id] = is
		}
		delete(found, k)
	}
	for k, out := range found {
		t.Done(Step{Key: k, Switch: id, Out: out})
	}
	return lost, remove
}

// Orphans returns the trees whose destination is not known, and since when. Known tells it.
func (t *Table) Orphans(now time.Time, known func(packet.MAC) bool) map[Key]time.Time {
	all := map[Key]time.Time{}
	for k, tr := range t.trees {
		switch {
		case known(k.Dst):
			tr.orphan = time.Time{}
		case tr.orphan.IsZero():
			tr.orphan = now
			fallthrough
		default:
			all[k] = tr.orphan
		}
	}
	return all
}

// Leaf is where a tree ends, of those places that edge takes: the port of its destination, if there is exactly one.
func (t *Table) Leaf(k Key, edge func(topology.Point) bool) (topology.Point, bool) {
	var at topology.Point
	n := 0
	if tr := t.trees[k]; tr != nil {
		for id, out := range tr.out {
			if p := (topology.Point{Switch: id, Port: out}); edge(p) {
				at = p
				n++
			}
		}
	}
	return at, n == 1
}
