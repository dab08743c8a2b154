package pipeline

import "baton/openflow"

// before is what a change has replaced and does not tell.
type before struct {
	group *Group
	meter *Meter
	// tables are set by a request for table features.
	tables []tableConfig
}

// tableConfig is what a request for table features sets of a table.
type tableConfig struct {
	name string
	// left tells that a controller has left the table out of the pipeline [7.3.5.5].
	left bool
}

// Undo takes back the last change: for one that the kernel has no room for, or, change by change from the last, for messages of
// which all are to be done or none. It returns what the kernel must be told then. Entries that come back have their IDs and times;
// what they had counted is gone.
func (p *Pipeline) Undo(c Change) Change {
	var back Change
	for i, t := range c.before.tables {
		p.tables[i].tableConfig = t
	}
	p.undoMeters(c, &back)
	p.undoGroups(c, &back)
	for _, s := range c.Set {
		slot := p.tables[s.Entry.Table].find(s.Entry.Priority, &s.Entry.Match)
		if s.Old == nil {
			p.removeEntry(&back, slot, openflow.RemovedDelete)
			back.Removed[len(back.Removed)-1].Report = false
			continue
		}
		p.replaceEntry(slot, s.Old)
		p.timed.plan(slot)
		back.Set = append(back.Set, Set{s.Old, s.Entry, s.KeepCounts})
	}
	for _, r := range c.Removed {
		p.insertEntry(r.Entry)
		back.Set = append(back.Set, Set{Entry: r.Entry})
	}
	// Nothing that stays uses what is removed: it was not there before the change.
	for _, m := range back.RemovedMeters {
		delete(p.meters, m.ID)
	}
	for _, g := range back.RemovedGroups {
		p.dropGroup(p.groups[g.ID])
	}
	return back
}

// undoMeters brings meters back. Those that are to go stay until the entries that use them have gone.
func (p *Pipeline) undoMeters(c Change, back *Change) {
	for _, m := range c.SetMeters {
		if old := c.before.meter; old != nil {
			p.meters[m.ID].meter = old
			back.SetMeters = append(back.SetMeters, old)
		} else {
			back.RemovedMeters = append(back.RemovedMeters, m)
		}
	}
	for _, m := range c.RemovedMeters {
		p.meters[m.ID] = &meterSlot{m, map[*slot]struct{}{}}
		back.SetMeters = append(back.SetMeters, m)
	}
}

// undoGroups does for groups what undoMeters does for meters.
func (p *Pipeline) undoGroups(c Change, back *Change) {
	for _, g := range c.SetGroups {
		if old := c.before.group; old != nil {
			p.putGroup(old)
			back.SetGroups = append(back.SetGroups, old)
		} else {
			back.RemovedGroups = append(back.RemovedGroups, g)
		}
	}
	// Of groups that use each other, the used one comes back first.
	for len(c.RemovedGroups) > 0 {
		var wait []*Group
		for _, g := range c.RemovedGroups {
			ready := true
			for _, id := range g.used() {
				ready = ready && p.groups[id] != nil
			}
			if !ready {
				wait = append(wait, g)
				continue
			}
			p.putGroup(g)
			back.SetGroups = append(back.SetGroups, g)
		}
		c.RemovedGroups = wait
	}
}
