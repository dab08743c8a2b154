package pipeline

import "baton/openflow"

// checkBind refuses a bind whose group is not a select group of ports (docs/openflow-bind.md).
func (p *Pipeline) checkBind(id openflow.GroupID) *openflow.Fault {
	s := p.groups[id]
	switch {
	case !p.limits.Bindings:
		return noBindings()
	case s == nil:
		return refuse(openflow.BadActionBadOutGroup, "6.4", "group %d does not exist", id)
	case s.group.Kind != openflow.GroupTypeSelect:
		return refuse(openflow.BadActionBadArgument, "5.6.1", "bind with group %d of type %v", id, s.group.Kind)
	case !watchesPorts(s.group.Buckets):
		return refuse(openflow.BadActionBadArgument, "5.6.1", "bind with group %d, whose buckets do not each watch a port of their own", id)
	}
	return nil
}

// checkUnbind refuses an unbind whose group is not indirect.
func (p *Pipeline) checkUnbind(id openflow.GroupID) *openflow.Fault {
	s := p.groups[id]
	switch {
	case !p.limits.Bindings:
		return noBindings()
	case s == nil:
		return refuse(openflow.BadActionBadOutGroup, "6.4", "group %d does not exist", id)
	case s.group.Kind != openflow.GroupTypeIndirect:
		return refuse(openflow.BadActionBadArgument, "5.6.1", "unbind to group %d of type %v", id, s.group.Kind)
	}
	return nil
}

// noBindings is the answer of a switch without binding table: it does not know the actions.
func noBindings() *openflow.Fault {
	return refuse(openflow.BadActionBadExpType, "7.2.5", "the switch has no binding table")
}

// watchesPorts reports whether each bucket watches a port of its own, and nothing else.
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

// checkBound refuses to change a group used by bind or unbind into one that cannot be.
func (s *groupSlot) checkBound(m *openflow.GroupMod) *openflow.Fault {
	switch {
	case s == nil:
	case s.bound > 0 && (m.Kind != openflow.GroupTypeSelect || !watchesPorts(m.Buckets)):
		return refuse(openflow.GroupModFailedInvalidGroup, "6.5", "%d flow entries bind with group %d: each bucket must watch a port of its own",
			s.bound, m.Group)
	case s.unbound > 0 && m.Kind != openflow.GroupTypeIndirect:
		return refuse(openflow.GroupModFailedInvalidGroup, "6.5", "%d flow entries unbind to group %d: it must be indirect", s.unbound, m.Group)
	}
	return nil
}

// countBindings adds by to the counts of bind and unbind actions for each one of an entry.
func (p *Pipeline) countBindings(e *Entry, by int) {
	actionsOf(e.Instructions, func(list []openflow.Action) bool {
		for _, a := range list {
			switch a := a.(type) {
			case openflow.ActionBind:
				p.groups[a.Group].bound += by
			case openflow.ActionUnbind:
				p.groups[a.Group].unbound += by
			}
		}
		return true
	})
}
