package pipeline

import (
	"iter"
	"time"

	"baton/openflow"
)

// Snapshot yields the messages that make an empty pipeline of the same limits the same as this one, but for the IDs of entries.
// [Pipeline.Apply] takes them in this order, each with its time, which is when what it adds was created. They share memory with the
// pipeline and must not be changed, nor the pipeline before the end.
func (p *Pipeline) Snapshot() iter.Seq2[openflow.Message, time.Time] {
	return func(yield func(openflow.Message, time.Time) bool) { p.snapshot(yield) }
}

// Messages returns how many messages a snapshot has.
func (p *Pipeline) Messages() int {
	n := p.entries + len(p.groups) + len(p.meters)
	if p.configured() != nil {
		n++
	}
	return n
}

// snapshot reports whether yield has always said true, as the functions below do.
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
	// An entry that was added with the check for overlaps may since have been overlapped by one that was not: those with the check
	// come first, among which there is no overlap.
	return p.addEntries(true, yield) && p.addEntries(false, yield)
}

// addEntries yields the additions of the entries that were added with the check for overlaps, or of the others.
func (p *Pipeline) addEntries(checked bool, yield func(openflow.Message, time.Time) bool) bool {
	for e := range p.Entries() {
		if checked == (e.Flags&openflow.FlowCheckOverlap != 0) && !yield(e.add(), e.Created) {
			return false
		}
	}
	return true
}

// addGroup yields the addition of a group and, before it, of those that it uses.
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

// configured returns the request that gives the tables their names and leaves out those that are left out; nil if all are there
// and have none.
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

// Apply does what a message asks for that changes a pipeline: a flow mod, group mod or meter mod, or a request for table features.
// Of another message it does nothing.
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
