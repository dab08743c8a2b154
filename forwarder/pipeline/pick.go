package pipeline

import "baton/openflow"

// checkPick refuses a pick from what is no select group of ports (docs/openflow-pick.md).
func (p *Pipeline) checkPick(id openflow.GroupID) *openflow.Fault {
	s := p.groups[id]
	switch {
	case !p.limits.Picks:
		return noPicks()
	case s == nil:
		return refuse(openflow.BadActionBadOutGroup, "6.4", "group %d is not there", id)
	case s.group.Kind != openflow.GroupTypeSelect:
		return refuse(openflow.BadActionBadArgument, "5.6.1", "pick from group %d of type %v", id, s.group.Kind)
	case !watchesPorts(s.group.Buckets):
		return refuse(openflow.BadActionBadArgument, "5.6.1", "pick from group %d, whose buckets do not each watch a port of their own", id)
	}
	return nil
}

// checkUnpick refuses an unpick to what is no indirect group.
func (p *Pipeline) checkUnpick(id openflow.GroupID) *openflow.Fault {
	s := p.groups[id]
	switch {
	case !p.limits.Picks:
		return noPicks()
	case s == nil:
		return refuse(openflow.BadActionBadOutGroup, "6.4", "group %d is not there", id)
	case s.group.Kind != openflow.GroupTypeIndirect:
		return refuse(openflow.BadActionBadArgument, "5.6.1", "unpick to group %d of type %v", id, s.group.Kind)
	}
	return nil
}

// noPicks says that the switch does not know the actions, as it has no memory for flows.
func noPicks() *openflow.Fault {
	return refuse(openflow.BadActionBadExpType, "7.2.5", "the switch remembers no flows")
}

// watchesPorts reports whether each bucket watches a port, no two the same one, and nothing else.
func watchesPorts(list []openflow.Bucket) bool {
	seen := make(map[openflow.PortNo]bool, len(list))
	for i := range list {
		b := &list[i]
		if b.WatchPort == openflow.PortAny || b.WatchGroup != openflow.GroupAny || seen[b.WatchPort] {
			return false
		}
		seen[b.WatchPort] = true
	}
	return true
}

// checkPicked refuses to make of a group that flow entries pick from, or unpick to, one that they could not.
func (s *groupSlot) checkPicked(m *openflow.GroupMod) *openflow.Fault {
	switch {
	case s == nil:
	case s.picked > 0 && (m.Kind != openflow.GroupTypeSelect || !watchesPorts(m.Buckets)):
		return refuse(openflow.GroupModFailedInvalidGroup, "6.5", "%d flow entries pick from group %d: each bucket must watch a port of its own",
			s.picked, m.Group)
	case s.unpicked > 0 && m.Kind != openflow.GroupTypeIndirect:
		return refuse(openflow.GroupModFailedInvalidGroup, "6.5", "%d flow entries unpick to group %d: it must be indirect", s.unpicked, m.Group)
	}
	return nil
}

// countPicks adds by for each pick and unpick of an entry.
func (p *Pipeline) countPicks(e *Entry, by int) {
	actionsOf(e.Instructions, func(list []openflow.Action) bool {
		for _, a := range list {
			switch a := a.(type) {
			case openflow.ActionPick:
				p.groups[a.Group].picked += by
			case openflow.ActionUnpick:
				p.groups[a.Group].unpicked += by
			}
		}
		return true
	})
}
