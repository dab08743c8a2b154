package pipeline

import (
	"cmp"
	"slices"
	"time"

	"baton/openflow"
)

// Group is a group [5.6].
type Group struct {
	ID      openflow.GroupID
	Kind    openflow.GroupType
	Buckets []openflow.Bucket
	Created time.Time
}

// groupSlot holds a group and its users.
type groupSlot struct {
	group *Group
	flows map[*slot]struct{}
	// chained is the number of groups that use it, each counted once.
	chained int
	// bound and unbound are the numbers of bind and unbind actions that refer to it.
	bound, unbound int
}

// uses calls f for each reference of a bucket to a group, by action or watch.
func (g *Group) uses(f func(openflow.GroupID)) {
	for _, b := range g.Buckets {
		if b.WatchGroup != openflow.GroupAny {
			f(b.WatchGroup)
		}
		for _, a := range b.Actions {
			if a, ok := a.(openflow.ActionGroup); ok {
				f(a.Group)
			}
		}
	}
}

// bucketActions returns the number of actions in the buckets.
func bucketActions(list []openflow.Bucket) int {
	n := 0
	for i := range list {
		n += len(list[i].Actions)
	}
	return n
}

// used returns the groups that g refers to, each once.
func (g *Group) used() []openflow.GroupID {
	var list []openflow.GroupID
	g.uses(func(id openflow.GroupID) { list = append(list, id) })
	slices.Sort(list)
	return slices.Compact(list)
}

// GroupMod adds, modifies or deletes groups [6.5]. A refusal changes nothing; the error is the [*openflow.Fault] to answer with.
func (p *Pipeline) GroupMod(now time.Time, m *openflow.GroupMod) (Change, error) {
	if m.Command == openflow.GroupDelete {
		return result(p.deleteGroups(m.Group))
	}
	if f := p.checkGroupMod(m); f != nil {
		return result(Change{}, f)
	}
	more := bucketActions(m.Buckets)
	if s := p.groups[m.Group]; s != nil {
		more -= bucketActions(s.group.Buckets)
	}
	if f := p.limitActions(more, openflow.GroupModFailedOutOfBuckets); f != nil {
		return result(Change{}, f)
	}
	g := &Group{ID: m.Group, Kind: m.Kind, Buckets: slices.Clone(m.Buckets), Created: now}
	for i := range g.Buckets {
		g.Buckets[i].Actions = ownActions(g.Buckets[i].Actions)
	}
	old := p.Group(m.Group)
	if old != nil {
		g.Created = old.Created // the group keeps its counters and duration, the buckets start anew [6.5]
	}
	p.putGroup(g)
	return Change{SetGroups: []*Group{g}, before: before{group: old}}, nil
}

// putGroup adds or replaces a group.
func (p *Pipeline) putGroup(g *Group) {
	s := p.groups[g.ID]
	if s == nil {
		s = &groupSlot{flows: map[*slot]struct{}{}}
		p.groups[g.ID] = s
	} else {
		p.chain(s.group, -1)
		p.actions -= bucketActions(s.group.Buckets)
	}
	s.group = g
	p.chain(g, 1)
	p.actions += bucketActions(g.Buckets)
}

// dropGroup removes a group that no entry uses.
func (p *Pipeline) dropGroup(s *groupSlot) {
	p.chain(s.group, -1)
	p.actions -= bucketActions(s.group.Buckets)
	delete(p.groups, s.group.ID)
}

// chain adds by to the user counts of the groups that g refers to.
func (p *Pipeline) chain(g *Group, by int) {
	for _, id := range g.used() {
		if s := p.groups[id]; s != nil {
			s.chained += by
		}
	}
}

// deleteGroups removes groups and the flow entries that use them [6.5].
func (p *Pipeline) deleteGroups(id openflow.GroupID) (Change, *openflow.Fault) {
	var gone []*groupSlot
	if id == openflow.GroupAll {
		for _, g := range p.Groups() {
			gone = append(gone, p.groups[g.ID])
		}
	} else if s := p.groups[id]; s != nil {
		if s.chained > 0 {
			return Change{}, refuse(openflow.GroupModFailedChainedGroup, "6.5", "%d groups use group %d", s.chained, id)
		}
		gone = append(gone, s)
	}
	var c Change
	for _, s := range gone {
		p.removeUsers(&c, s.flows, openflow.RemovedGroupDelete)
		p.dropGroup(s)
		c.RemovedGroups = append(c.RemovedGroups, s.group)
	}
	return c, nil
}

// removeUsers removes the entries that use a group or meter, ordered by ID.
func (p *Pipeline) removeUsers(c *Change, flows map[*slot]struct{}, why openflow.FlowRemovedReason) {
	list := make([]*slot, 0, len(flows))
	for s := range flows {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *slot) int { return byID(a.entry, b.entry) })
	for _, s := range list {
		p.removeEntry(c, s, why)
	}
}

// Groups returns the groups, ordered by number.
func (p *Pipeline) Groups() []*Group {
	list := make([]*Group, 0, len(p.groups))
	for _, s := range p.groups {
		list = append(list, s.group)
	}
	slices.SortFunc(list, func(a, b *Group) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// checkGroupMod checks an addition or modification against the existing groups.
func (p *Pipeline) checkGroupMod(m *openflow.GroupMod) *openflow.Fault {
	there := p.groups[m.Group] != nil
	switch {
	case m.Command == openflow.GroupAdd && there:
		return refuse(openflow.GroupModFailedGroupExists, "6.5", "group %d exists", m.Group)
	case m.Command == openflow.GroupModify && !there:
		return refuse(openflow.GroupModFailedUnknownGroup, "6.5", "group %d does not exist", m.Group)
	case !there && len(p.groups) >= p.limits.Groups:
		return refuse(openflow.GroupModFailedOutOfGroups, "6.5", "%d groups", len(p.groups))
	case len(m.Buckets) > p.limits.Buckets:
		return refuse(openflow.GroupModFailedOutOfBuckets, "6.5", "%d buckets, at most %d", len(m.Buckets), p.limits.Buckets)
	}
	if f := p.groups[m.Group].checkBound(m); f != nil {
		return f
	}
	weight := uint32(0)
	for i := range m.Buckets {
		if f := checkBucket(m.Kind, &m.Buckets[i]); f != nil {
			return f
		}
		weight += uint32(m.Buckets[i].Weight)
	}
	if m.Kind == openflow.GroupTypeSelect && weight == 0 && len(m.Buckets) > 0 {
		return refuse(openflow.GroupModFailedInvalidGroup, "7.3.4.2", "select group whose buckets have no weight")
	}
	g := &Group{ID: m.Group, Buckets: m.Buckets}
	if p.reaches(g, m.Group, map[openflow.GroupID]bool{}) {
		return refuse(openflow.GroupModFailedLoop, "6.5", "group %d would contain itself", m.Group)
	}
	for i := range m.Buckets {
		b := &m.Buckets[i]
		if f := p.checkActions(b.Actions); f != nil {
			return f
		}
		if b.WatchGroup != openflow.GroupAny && p.groups[b.WatchGroup] == nil {
			return refuse(openflow.GroupModFailedBadWatch, "7.3.4.2", "watched group %d does not exist", b.WatchGroup)
		}
	}
	return nil
}

// checkBucket refuses a bucket that does not fit the group's type [7.3.4.2].
func checkBucket(kind openflow.GroupType, b *openflow.Bucket) *openflow.Fault {
	if b.Weight != 0 && kind != openflow.GroupTypeSelect {
		return refuse(openflow.GroupModFailedInvalidGroup, "6.5", "weight %d in a group of type %v", b.Weight, kind)
	}
	watches := b.WatchPort != openflow.PortAny || b.WatchGroup != openflow.GroupAny
	if watches && (kind == openflow.GroupTypeAll || kind == openflow.GroupTypeIndirect) {
		return refuse(openflow.GroupModFailedWatchUnsupported, "6.5", "a bucket that watches, in a group of type %v", kind)
	}
	port := b.WatchPort
	if port == 0 || port > openflow.PortMax && port != openflow.PortLocal && port != openflow.PortAny {
		return refuse(openflow.GroupModFailedBadWatch, "7.3.4.2", "watched port %v", port)
	}
	return nil
}

// reaches reports whether g leads to the group with that number, by actions or liveness.
func (p *Pipeline) reaches(g *Group, id openflow.GroupID, seen map[openflow.GroupID]bool) bool {
	found := false
	g.uses(func(next openflow.GroupID) {
		s := p.groups[next]
		if next == id {
			found = true
		} else if s != nil && !found && !seen[next] {
			seen[next] = true
			found = p.reaches(s.group, id, seen)
		}
	})
	return found
}
