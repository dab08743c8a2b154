package tables

import (
	"cmp"
	"slices"

	"baton/openflow"
)

// place identifies a flow entry within a switch.
type place struct {
	table    openflow.TableID
	priority uint16
	match    string
}

func placeOf(e *openflow.FlowMod) place { return place{e.Table, e.Priority, string(e.Match)} }

// Change returns the messages that turn old tables into new ones. Their order guarantees that at any moment each packet is handled as
// before or as after, as long as the host's side keeps its IP versions: groups come before the entries that use them; entries from the
// highest priority down, each before those that lead to it; then unused entries are removed from the lowest priority up, and after them
// their groups. What stays is modified in place, so that no counter, timeout or binding is lost.
func Change(old, new Tables) []openflow.Message {
	list := groupsIn(old, new)
	was := make(map[place]*openflow.FlowMod, len(old.Entries))
	for _, e := range old.Entries {
		was[placeOf(e)] = e
	}
	stay := make(map[place]bool, len(new.Entries))
	for _, e := range new.Entries {
		at := placeOf(e)
		stay[at] = true
		switch before := was[at]; {
		case before == nil || before.Cookie != e.Cookie: // only an addition changes a cookie
			list = append(list, e)
		case !sameMessage(before, e):
			list = append(list, command(e, openflow.FlowModifyStrict))
		}
	}
	leave := slices.Clone(old.Entries)
	slices.SortStableFunc(leave, func(a, b *openflow.FlowMod) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Priority, b.Priority))
	})
	for _, e := range leave {
		if !stay[placeOf(e)] {
			list = append(list, command(e, openflow.FlowDeleteStrict))
		}
	}
	return append(list, groupsOut(old, new)...)
}

// command returns a message about an existing entry.
func command(e *openflow.FlowMod, c openflow.FlowModCommand) *openflow.FlowMod {
	m := *e
	m.Command = c
	if c == openflow.FlowDeleteStrict {
		m.Instructions = nil
	}
	return &m
}

// sameMessage compares the encoded messages.
func sameMessage(a, b openflow.Message) bool {
	x, _ := openflow.Append(nil, 0, a) // a message that is too long is sent, and refused then
	y, _ := openflow.Append(nil, 0, b)
	return x != nil && slices.Equal(x, y)
}

func byNumber(list []*openflow.GroupMod) map[openflow.GroupID]*openflow.GroupMod {
	m := make(map[openflow.GroupID]*openflow.GroupMod, len(list))
	for _, g := range list {
		m[g.Group] = g
	}
	return m
}

// groupsIn adds and modifies groups.
func groupsIn(old, new Tables) []openflow.Message {
	var list []openflow.Message
	was := byNumber(old.Groups)
	for _, g := range new.Groups {
		switch before := was[g.Group]; {
		case before == nil:
			list = append(list, g)
		case !sameMessage(before, g):
			m := *g
			m.Command = openflow.GroupModify
			list = append(list, &m)
		}
	}
	return list
}

// groupsOut deletes groups.
func groupsOut(old, new Tables) []openflow.Message {
	var list []openflow.Message
	stay := byNumber(new.Groups)
	for _, g := range old.Groups {
		if stay[g.Group] == nil {
			list = append(list, &openflow.GroupMod{Command: openflow.GroupDelete, Kind: g.Kind, Group: g.Group})
		}
	}
	return list
}

// canonical orders the fields of a match by number, so that each follows its prerequisites.
func canonical(m openflow.Match) openflow.Match {
	var list []openflow.TLV
	for t, err := range m.All() {
		if err != nil {
			return m
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b openflow.TLV) int { return cmp.Compare(a.Field, b.Field) })
	var sorted openflow.Match
	for _, t := range list {
		mask := t.Mask
		if !t.Masked {
			mask = nil
		}
		sorted = sorted.Bytes(t.Field, t.Value, mask)
	}
	return sorted
}

// Read converts a switch's tables, and returns the controller's flow entries separately. Everything else in the switch is among the tables,
// whoever added it, so that [Change] removes it.
func Read(entries []openflow.FlowStats, groups []openflow.GroupDesc) (t Tables, flows []*openflow.FlowMod) {
	for _, e := range entries {
		m := openflow.NewFlowMod(openflow.FlowAdd)
		m.Table, m.Priority, m.Cookie, m.Match, m.Instructions = e.Table, e.Priority, e.Cookie, canonical(e.Match), e.Instructions
		m.Idle, m.Hard = e.Idle, e.Hard
		if c := Cookie(e.Cookie); c.Ours() && c.Kind() == FlowOf {
			flows = append(flows, m)
			continue
		}
		t.Entries = append(t.Entries, m)
	}
	for _, g := range groups {
		t.Groups = append(t.Groups, &openflow.GroupMod{Command: openflow.GroupAdd, Kind: g.Kind, Group: g.Group, Buckets: g.Buckets})
	}
	slices.SortFunc(t.Groups, func(a, b *openflow.GroupMod) int { return cmp.Compare(a.Group, b.Group) })
	slices.SortStableFunc(t.Entries, order)
	slices.SortStableFunc(flows, order)
	return t, flows
}
