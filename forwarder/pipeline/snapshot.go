package pipeline

import (
	"iter"
	"time"

	"baton/openflow"
)

// Snapshot yields messages that turn an empty pipeline with the same limits into this one, except for the IDs of entries. [Pipeline.Apply]
// takes them in this order, each with the creation time of what it adds. They share memory with the pipeline: they must not be changed, and
// the pipeline must not change meanwhile.
func (p *Pipeline) Snapshot() iter.Seq2[openflow.Message, time.Time] {
	return func(yield func(openflow.Message, time.Time) bool) { p.snapshot(yield) }
}

// Messages returns the number of messages in a snapshot.
func (p *Pipeline) Messages() int {
	n := p.entries + len(p.groups) + len(p.meters)
	if p.configured() != nil {
		n++
	}
	return n
}

// snapshot reports whether yield always returned true, like the functions below.
func (p *Pipeline) snapshot(yield func(openflow.Message, time.Time) bool) bool {
	if b := p.configured(); b != nil && !yield(&openflow.MultipartRequest{Body: b}, time.Unix(0, 0)) { // has no time
		return false
	}
	for _, m := range p.Meters() {
		if !yield(&openflow.MeterMod{Command: openflow.MeterAdd, Flags: m.Flags, Meter: m.ID, Bands: m.Bands}, m.Created) {
			return false
		}
	}
	done := map[openflow.GroupID]bool{}
	for _, g := range p.Groups() {
		if !p.addGroup(g, done, yield) {
			return false
		}
	}
	// An entry added with the overlap check may later have been overlapped by one without it: entries with the check, which do not overlap
	// each other, come first.
	return p.addEntries(true, yield) && p.addEntries(false, yield)
}

// addEntries yields flow mods for the entries that were added with the overlap check, or for those without it.
func (p *Pipeline) addEntries(checked bool, yield func(openflow.Message, time.Time) bool) bool {
	for e := range p.Entries() {
		if checked == (e.Flags&openflow.FlowCheckOverlap != 0) && !yield(e.add(), e.Created) {
			return false
		}
	}
	return true
}

// addGroup yields the group mod of a group after those of the groups that it uses.
func (p *Pipeline) addGroup(g *Group, done map[openflow.GroupID]bool, yield func(openflow.Message, time.Time) bool) bool {
	if done[g.ID] {
		return true
	}
	done[g.ID] = true
	for _, id := range g.used() {
		if !p.addGroup(p.groups[id].group, done, yield) {
			return false
		}
	}
	return yield(&openflow.GroupMod{Command: openflow.GroupAdd, Kind: g.Kind, Group: g.ID, Buckets: g.Buckets}, g.Created)
}

// configured returns a request that sets the tables' names and leaves out those that are left out; nil if there is nothing to set.
func (p *Pipeline) configured() openflow.TableFeaturesBody {
	var b openflow.TableFeaturesBody
	asked := false
	for i := range p.tables {
		t := &p.tables[i]
		asked = asked || t.left || t.name != ""
		if !t.left {
			b = append(b, openflow.TableFeatures{Table: t.id, Name: t.name, MaxEntries: uint32(p.limits.Entries)})
		}
	}
	if !asked {
		return nil
	}
	return b
}

// add is the flow mod that adds the entry.
func (e *Entry) add() *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Table, m.Priority, m.Cookie, m.Flags = e.Table, e.Priority, e.Cookie, e.Flags
	m.Idle, m.Hard = e.Idle, e.Hard
	m.Match, m.Instructions = e.Fields, e.Instructions
	return m
}

// Apply applies a message that changes a pipeline: a flow mod, group mod, meter mod, or table features request. Other messages are ignored.
func (p *Pipeline) Apply(now time.Time, m openflow.Message) (Change, error) {
	switch m := m.(type) {
	case *openflow.FlowMod:
		return p.FlowMod(now, m)
	case *openflow.GroupMod:
		return p.GroupMod(now, m)
	case *openflow.MeterMod:
		return p.MeterMod(now, m)
	case *openflow.MultipartRequest:
		if b, ok := m.Body.(openflow.TableFeaturesBody); ok && len(b) > 0 {
			return p.ConfigureTables(b)
		}
	}
	return Change{}, nil
}
