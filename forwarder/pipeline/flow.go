package pipeline

import (
	"bytes"
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// FlowMod adds, modifies or deletes flow entries [6.4]. A refusal changes nothing; the error is the [*openflow.Fault] to answer with.
func (p *Pipeline) FlowMod(now time.Time, m *openflow.FlowMod) (Change, error) {
	if f := p.checkFlowMod(m); f != nil {
		return result(Change{}, f)
	}
	if m.Command == openflow.FlowAdd {
		return result(p.addEntry(now, m))
	}
	found := p.named(m)
	if len(found) == 0 {
		return Change{}, nil
	}
	if m.Command == openflow.FlowModify || m.Command == openflow.FlowModifyStrict {
		return result(p.modifyEntries(found, m))
	}
	var c Change
	for _, s := range found {
		p.removeEntry(&c, s, openflow.RemovedDelete)
	}
	return c, nil
}

// tablesOf returns the tables of a request.
func (p *Pipeline) tablesOf(id openflow.TableID) []table {
	if id == openflow.TableAll {
		return p.tables
	}
	return p.tables[id : id+1]
}

// addEntry replaces an identical entry, which does not count as a removal: no flow-removed is sent [6.4].
func (p *Pipeline) addEntry(now time.Time, m *openflow.FlowMod) (Change, *openflow.Fault) {
	t := &p.tables[m.Table]
	want := match.Of(m.Match)
	if m.Flags&openflow.FlowCheckOverlap != 0 {
		if e := t.overlapping(m.Priority, &want); e != nil {
			return Change{}, refuse(openflow.FlowModFailedOverlap, "6.4", "table %v has %q with priority %d", m.Table, e.Fields, m.Priority)
		}
	}
	old := t.find(m.Priority, &want)
	if old == nil && p.entries >= p.limits.Entries {
		return Change{}, refuse(openflow.FlowModFailedTableFull, "6.4", "table %v: %d flow entries in all", m.Table, p.entries)
	}
	more := countActions(m.Instructions)
	if old != nil {
		more -= countActions(old.entry.Instructions)
	}
	if f := p.limitActions(more, openflow.FlowModFailedTableFull); f != nil {
		return Change{}, f
	}
	e := &Entry{
		Table:        m.Table,
		Priority:     m.Priority,
		Fields:       bytes.Clone(m.Match),
		Match:        want,
		Cookie:       m.Cookie,
		Flags:        m.Flags,
		Idle:         m.Idle,
		Hard:         m.Hard,
		Instructions: ownInstructions(m.Instructions),
		Created:      now,
	}
	set := Set{Entry: e}
	if old != nil {
		e.ID = old.entry.ID
		set.Old, set.KeepCounts = old.entry, m.Flags&openflow.FlowResetCounts == 0
		p.replaceEntry(old, e)
		p.timed.plan(old)
	} else {
		p.lastID++
		e.ID = p.lastID
		p.insertEntry(e)
	}
	return Change{Set: []Set{set}}, nil
}

func (p *Pipeline) insertEntry(e *Entry) {
	s := p.tables[e.Table].insert(e)
	p.entries++
	p.refer(s)
	p.timed.plan(s)
}

// named returns the slots that a modification or deletion applies to.
func (p *Pipeline) named(m *openflow.FlowMod) []*slot {
	q := query{cookie: m.Cookie, cookieMask: m.CookieMask, port: openflow.PortAny, group: openflow.GroupAny, match: match.Of(m.Match)}
	if m.Command == openflow.FlowDelete || m.Command == openflow.FlowDeleteStrict {
		q.port, q.group = m.OutPort, m.OutGroup
	}
	var found []*slot
	take := func(s *slot) {
		if q.chooses(s.entry) {
			found = append(found, s)
		}
	}
	tables := p.tablesOf(m.Table)
	for i := range tables {
		if m.Command == openflow.FlowModify || m.Command == openflow.FlowDelete {
			tables[i].covered(&q.match, take)
		} else if s := tables[i].find(m.Priority, &q.match); s != nil {
			take(s)
		}
	}
	return found
}

// query restricts a request beyond its match.
type query struct {
	match              match.Match
	cookie, cookieMask uint64
	port               openflow.PortNo
	group              openflow.GroupID
}

// chooses checks everything but the match.
func (q *query) chooses(e *Entry) bool {
	return (e.Cookie^q.cookie)&q.cookieMask == 0 &&
		(q.port == openflow.PortAny || e.outputsTo(q.port)) &&
		(q.group == openflow.GroupAny || e.usesGroup(q.group))
}

// modifyEntries replaces the instructions only [6.4].
func (p *Pipeline) modifyEntries(found []*slot, m *openflow.FlowMod) (Change, *openflow.Fault) {
	more := len(found) * countActions(m.Instructions)
	for _, s := range found {
		more -= countActions(s.entry.Instructions)
	}
	if f := p.limitActions(more, openflow.FlowModFailedTableFull); f != nil {
		return Change{}, f
	}
	instructions := ownInstructions(m.Instructions)
	c := Change{Set: make([]Set, 0, len(found))}
	for _, s := range found {
		e := *s.entry
		e.Instructions = instructions
		c.Set = append(c.Set, Set{&e, s.entry, m.Flags&openflow.FlowResetCounts == 0})
		p.replaceEntry(s, &e)
	}
	return c, nil
}

// limitActions refuses to exceed the limit of actions.
func (p *Pipeline) limitActions(more int, code openflow.Code) *openflow.Fault {
	if more > 0 && p.actions+more > p.limits.Actions {
		return refuse(code, "6.4", "%d actions in addition to %d, at most %d", more, p.actions, p.limits.Actions)
	}
	return nil
}

func (p *Pipeline) replaceEntry(s *slot, e *Entry) {
	p.release(s)
	s.entry = e
	p.refer(s)
}

func (p *Pipeline) removeEntry(c *Change, s *slot, why openflow.FlowRemovedReason) {
	p.release(s)
	p.timed.drop(s)
	p.tables[s.entry.Table].remove(s)
	p.entries--
	c.remove(s.entry, why)
}

// refer counts the groups, meter and actions that the entry uses; release reverts that.
func (p *Pipeline) refer(s *slot) {
	p.actions += countActions(s.entry.Instructions)
	s.entry.groups(func(g openflow.GroupID) { p.groups[g].flows[s] = struct{}{} })
	p.countBindings(s.entry, 1)
	if m, ok := s.entry.meter(); ok {
		p.meters[m].flows[s] = struct{}{}
	}
}

func (p *Pipeline) release(s *slot) {
	p.actions -= countActions(s.entry.Instructions)
	s.entry.groups(func(g openflow.GroupID) { delete(p.groups[g].flows, s) })
	p.countBindings(s.entry, -1)
	if m, ok := s.entry.meter(); ok {
		delete(p.meters[m].flows, s)
	}
}
