package pipeline

import "baton/openflow"

// before is the state that a change replaced but does not contain.
type before struct {
	group *Group
	meter *Meter
	// tables is the configuration by table features requests.
	tables []tableConfig
}

// tableConfig is the configuration of a table by a table features request.
type tableConfig struct {
	name string
	// left: a controller has left the table out of the pipeline [7.3.5.5].
	left bool
}

// Undo reverts the last change: because it does not fit in the kernel or, change by change from the last, to make a bundle atomic. It returns
// the change for the kernel. Restored entries keep their IDs and times; their counters are lost.
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
	// Nothing else can use what is removed: it did not exist before the change.
	for _, m := range back.RemovedMeters {
		delete(p.meters, m.ID)
	}
	for _, g := range back.RemovedGroups {
		p.dropGroup(p.groups[g.ID])
	}
	return back
}

// undoMeters restores meters. Those to be removed stay until the entries that use them are gone.
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

// undoGroups is undoMeters for groups.
func (p *Pipeline) undoGroups(c Change, back *Change) {
	for _, g := range c.SetGroups {
		if old := c.before.group; old != nil {
			p.putGroup(old)
			back.SetGroups = append(back.SetGroups, old)
		} else {
			back.RemovedGroups = append(back.RemovedGroups, g)
		}
	}
	// Used groups are restored before their users.
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
