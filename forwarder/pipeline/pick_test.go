package pipeline_test

import (
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

func pick(g openflow.GroupID) openflow.Action {
	return openflow.ActionPick{Method: openflow.PickTurns, Group: g}
}

func unpick(g openflow.GroupID) openflow.Action { return openflow.ActionUnpick{Group: g} }

// link is a bucket of a group to pick from.
func link(port openflow.PortNo) openflow.Bucket {
	return openflow.Bucket{Weight: 1, WatchPort: port, WatchGroup: openflow.GroupAny, Actions: []openflow.Action{out(port)}}
}

// links is a group mod that makes a group to pick from.
func links(c openflow.GroupCommand, id openflow.GroupID, ports ...openflow.PortNo) *openflow.GroupMod {
	m := group(c, openflow.GroupTypeSelect, id)
	for _, p := range ports {
		m.Buckets = append(m.Buckets, link(p))
	}
	return m
}

func indirect(c openflow.GroupCommand, id openflow.GroupID) *openflow.GroupMod {
	return group(c, openflow.GroupTypeIndirect, id, bucket(out(1)))
}

// newPickBench has group 1 to unpick to, group 2 to pick from, group 3 that watches nothing, group 4 that watches one port twice, group 5
// that watches a group, 6 that is empty and 7 of type fast failover.
func newPickBench(t *testing.T, picks bool) *bench {
	b := newBench(t, pipeline.Limits{Tables: 4, Picks: picks})
	b.must(indirect(openflow.GroupAdd, 1))
	b.must(links(openflow.GroupAdd, 2, 2, 3))
	b.must(group(openflow.GroupAdd, openflow.GroupTypeSelect, 3, weighted(1, out(2))))
	b.must(links(openflow.GroupAdd, 4, 2, 3, 2))
	both := link(2)
	both.WatchGroup = 3
	b.must(group(openflow.GroupAdd, openflow.GroupTypeSelect, 5, both))
	b.must(links(openflow.GroupAdd, 6))
	b.must(group(openflow.GroupAdd, openflow.GroupTypeFF, 7, watching(2, openflow.GroupAny)))
	return b
}

func TestPickRefused(t *testing.T) {
	tests := []struct {
		name string
		list []openflow.Action
		want openflow.Code
	}{
		{"pick", []openflow.Action{pick(2)}, 0},
		{"pick from a group without a bucket", []openflow.Action{pick(6)}, 0},
		{"pick from no group", []openflow.Action{pick(9)}, openflow.BadActionBadOutGroup},
		{"pick from an indirect group", []openflow.Action{pick(1)}, openflow.BadActionBadArgument},
		{"pick from a fast failover group", []openflow.Action{pick(7)}, openflow.BadActionBadArgument},
		{"pick from buckets that watch nothing", []openflow.Action{pick(3)}, openflow.BadActionBadArgument},
		{"pick from buckets that watch the same", []openflow.Action{pick(4)}, openflow.BadActionBadArgument},
		{"pick from buckets that watch a group", []openflow.Action{pick(5)}, openflow.BadActionBadArgument},
		{"unpick", []openflow.Action{unpick(1), out(openflow.PortNormal)}, 0},
		{"unpick to no group", []openflow.Action{unpick(9)}, openflow.BadActionBadOutGroup},
		{"unpick to a select group", []openflow.Action{unpick(2)}, openflow.BadActionBadArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newPickBench(t, true)
			m := flow(add, to(tt.list...))
			if tt.want == 0 {
				b.must(m)
			} else {
				b.refuses(m, tt.want)
			}
			newPickBench(t, false).refuses(m, openflow.BadActionBadExpType)
			b.must(flow(add, priority(9), to(out(1))))
			b.now = at(1)
			if m.Command = openflow.FlowModify; tt.want == 0 {
				b.must(m)
			} else {
				b.refuses(m, tt.want)
			}
		})
	}
}

// TestPickedGroup: what a group mod may make of a group while flow entries pick from it or unpick to it, and once they do not any more.
func TestPickedGroup(t *testing.T) {
	const modify = openflow.GroupModify
	tests := []struct {
		name string
		m    *openflow.GroupMod
		want openflow.Code
	}{
		{"other ports", links(modify, 2, 4, 5, 6), 0},
		{"no ports", links(modify, 2), 0},
		{"the same port twice", links(modify, 2, 4, 4), openflow.GroupModFailedInvalidGroup},
		{"watches nothing", group(modify, openflow.GroupTypeSelect, 2, weighted(1, out(1))), openflow.GroupModFailedInvalidGroup},
		{"another type", group(modify, openflow.GroupTypeFF, 2, watching(2, openflow.GroupAny)), openflow.GroupModFailedInvalidGroup},
		{"indirect", indirect(modify, 1), 0},
		{"not indirect", group(modify, openflow.GroupTypeAll, 1), openflow.GroupModFailedInvalidGroup},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newPickBench(t, true)
			b.must(flow(add, priority(1), to(unpick(1), pick(2))))
			b.must(flow(add, priority(2), to(pick(2))))
			b.must(flow(add, priority(3), to(unpick(1))))
			if tt.want == 0 {
				b.must(tt.m)
				return
			}
			b.refuses(tt.m, tt.want)
			b.must(flow(deleteStrict, priority(1)))
			b.refuses(tt.m, tt.want)
			b.must(flow(openflow.FlowModify, to(out(1))))
			b.must(tt.m)
		})
	}
}

// TestPickedGroupDeleted: the entries that pick from a group, or unpick to it, go with it, and come back with it.
func TestPickedGroupDeleted(t *testing.T) {
	for _, id := range []openflow.GroupID{1, 2, openflow.GroupAll} {
		b := newPickBench(t, true)
		b.must(flow(add, priority(1), flags(openflow.FlowSendFlowRem), to(unpick(1), pick(2))))
		b.must(flow(add, priority(2), to(out(1))))
		c := b.must(group(openflow.GroupDelete, openflow.GroupTypeAll, id))
		if len(c.Removed) != 1 || c.Removed[0].Reason != openflow.RemovedGroupDelete || !c.Removed[0].Tell || c.Removed[0].Entry.Priority != 1 {
			t.Errorf("group %v: removed %+v", id, c.Removed)
		}
		b.Undo(c)
		b.refuses(group(openflow.GroupModify, openflow.GroupTypeAll, 1), openflow.GroupModFailedInvalidGroup)
		b.refuses(group(openflow.GroupModify, openflow.GroupTypeAll, 2), openflow.GroupModFailedInvalidGroup)
	}
}

// TestPickNamed: a deletion that names a group takes the entries that pick from it.
func TestPickNamed(t *testing.T) {
	b := newPickBench(t, true)
	b.must(flow(add, priority(1), to(pick(2))))
	b.must(flow(add, priority(2), to(unpick(1))))
	c := b.must(flow(deletes, func(m *openflow.FlowMod) { m.OutGroup = 2 }))
	if len(c.Removed) != 1 || c.Removed[0].Entry.Priority != 1 {
		t.Errorf("removed %+v", c.Removed)
	}
}

// TestPickFeatures: the actions are told of apply-actions alone, and only where flows are remembered.
func TestPickFeatures(t *testing.T) {
	one := func(kind openflow.PropType) openflow.TableFeaturesBody {
		return openflow.TableFeaturesBody{{Properties: []openflow.TableProp{
			{Kind: kind, Types: []openflow.TypeID{openflow.ActionID(openflow.ActionPick{Method: openflow.PickHash}), openflow.ActionID(unpick(1))}},
		}}}
	}
	for _, picks := range []bool{false, true} {
		p := pipeline.New(pipeline.Limits{Tables: 1, Picks: picks})
		f := p.TableFeatures()[0]
		want, code := 18+8, openflow.TableFeaturesFailedBadArgument
		if picks {
			want, code = want+2, 0
		}
		if got := len(property(t, f, openflow.PropApplyActions).Types); got != want {
			t.Errorf("%d actions, want %d", got, want)
		}
		if got := len(property(t, f, openflow.PropWriteActions).Types); got != 18+8 {
			t.Errorf("%d written actions", got)
		}
		_, err := p.ConfigureTables(one(openflow.PropWriteActions))
		wantCode(t, err, openflow.TableFeaturesFailedBadArgument)
		_, err = p.ConfigureTables(one(openflow.PropApplyActions))
		wantCode(t, err, code)
	}
}
