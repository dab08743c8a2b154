package pipeline

import (
	"time"

	"baton/openflow"
)

// Snapshot returns the messages that make an empty pipeline of the same limits the same as this one, but for IDs and for when
// things were created: [Pipeline.Apply] takes them in their order. They share memory with the pipeline and must not be changed.
func (p *Pipeline) Snapshot() []openflow.Message {
	var list []openflow.Message
	if b := p.configured(); b != nil {
		list = append(list, &openflow.MultipartRequest{Body: b})
	}
	for _, m := range p.Meters() {
		list = append(list, &openflow.MeterMod{Command: openflow.MeterAdd, Flags: m.Flags, Meter: m.ID, Bands: m.Bands})
	}
	done := map[openflow.GroupID]bool{}
	for _, g := range p.Groups() {
		list = p.groupMods(list, g, done)
	}
	// An entry that was added with the check for overlaps may since have been overlapped by one that was not: those with the check
	// come first, among which there is no overlap.
	for _, checked := range []bool{true, false} {
		p.Entries(func(e *Entry) bool {
			if checked == (e.Flags&openflow.FlowCheckOverlap != 0) {
				list = append(list, e.add())
			}
			return true
		})
	}
	return list
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

// groupMods appends the additions of a group and, before it, of those that it uses.
func (p *Pipeline) groupMods(list []openflow.Message, g *Group, done map[openflow.GroupID]bool) []openflow.Message {
	if done[g.ID] {
		return list
	}
	done[g.ID] = true
	for _, id := range g.used() {
		list = p.groupMods(list, p.groups[id].group, done)
	}
	return append(list, &openflow.GroupMod{Command: openflow.GroupAdd, Kind: g.Kind, Group: g.ID, Buckets: g.Buckets})
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
