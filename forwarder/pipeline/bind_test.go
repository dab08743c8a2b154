package pipeline_test

import (
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

func bind(g openflow.GroupID) openflow.Action {
	return openflow.ActionBind{Method: openflow.BindRoundRobin, Group: g}
}

func unbind(g openflow.GroupID) openflow.Action { return openflow.ActionUnbind{Group: g} }

// link is a bucket of a group to bind from.
func link(port openflow.PortNo) openflow.Bucket {
	return openflow.Bucket{Weight: 1, WatchPort: port, WatchGroup: openflow.GroupAny, Actions: []openflow.Action{out(port)}}
}

// links is a group mod that makes a group to bind from.
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

// newBindBench has group 1 to unbind to, group 2 to bind from, group 3 that watches nothing, group 4 that watches one port twice, group 5
// that watches a group, 6 that is empty and 7 of type fast failover.
func newBindBench(t *testing.T, bindings bool) *bench {
	b := newBench(t, pipeline.Limits{Tables: 4, Bindings: bindings})
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

func TestBindRefused(t *testing.T) {
	tests := []struct {
		name string
		list []openflow.Action
		want openflow.Code
	}{
		{"bind", []openflow.Action{bind(2)}, 0},
		{"bind from a group without a bucket", []openflow.Action{bind(6)}, 0},
		{"bind from no group", []openflow.Action{bind(9)}, openflow.BadActionBadOutGroup},
		{"bind from an indirect group", []openflow.Action{bind(1)}, openflow.BadActionBadArgument},
		{"bind from a fast failover group", []openflow.Action{bind(7)}, openflow.BadActionBadArgument},
		{"bind from buckets that watch nothing", []openflow.Action{bind(3)}, openflow.BadActionBadArgument},
		{"bind from buckets that watch the same", []openflow.Action{bind(4)}, openflow.BadActionBadArgument},
		{"bind from buckets that watch a group", []openflow.Action{bind(5)}, openflow.BadActionBadArgument},
		{"unbind", []openflow.Action{unbind(1), out(openflow.PortNormal)}, 0},
		{"unbind to no group", []openflow.Action{unbind(9)}, openflow.BadActionBadOutGroup},
		{"unbind to a select group", []openflow.Action{unbind(2)}, openflow.BadActionBadArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBindBench(t, true)
			m := flow(add, to(tt.list...))
			if tt.want == 0 {
				b.must(m)
			} else {
				b.refuses(m, tt.want)
			}
			newBindBench(t, false).refuses(m, openflow.BadActionBadExpType)
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

// TestBoundGroup: what a group mod may make of a group while flow entries bind from it or unbind to it, and once they do not any more.
func TestBoundGroup(t *testing.T) {
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
			b := newBindBench(t, true)
			b.must(flow(add, priority(1), to(unbind(1), bind(2))))
			b.must(flow(add, priority(2), to(bind(2))))
			b.must(flow(add, priority(3), to(unbind(1))))
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

// TestBoundGroupDeleted: the entries that bind from a group, or unbind to it, go with it, and come back with it.
func TestBoundGroupDeleted(t *testing.T) {
	for _, id := range []openflow.GroupID{1, 2, openflow.GroupAll} {
		b := newBindBench(t, true)
		b.must(flow(add, priority(1), flags(openflow.FlowSendFlowRem), to(unbind(1), bind(2))))
		b.must(flow(add, priority(2), to(out(1))))
		c := b.must(group(openflow.GroupDelete, openflow.GroupTypeAll, id))
		if len(c.Removed) != 1 || c.Removed[0].Reason != openflow.RemovedGroupDelete || !c.Removed[0].Report || c.Removed[0].Entry.Priority != 1 {
			t.Errorf("group %v: removed %+v", id, c.Removed)
		}
		b.Undo(c)
		b.refuses(group(openflow.GroupModify, openflow.GroupTypeAll, 1), openflow.GroupModFailedInvalidGroup)
		b.refuses(group(openflow.GroupModify, openflow.GroupTypeAll, 2), openflow.GroupModFailedInvalidGroup)
	}
}

// TestBindNamed: a deletion that names a group takes the entries that bind from it.
func TestBindNamed(t *testing.T) {
	b := newBindBench(t, true)
	b.must(flow(add, priority(1), to(bind(2))))
	b.must(flow(add, priority(2), to(unbind(1))))
	c := b.must(flow(deletes, func(m *openflow.FlowMod) { m.OutGroup = 2 }))
	if len(c.Removed) != 1 || c.Removed[0].Entry.Priority != 1 {
		t.Errorf("removed %+v", c.Removed)
	}
}

// TestBindFeatures: the actions are told of apply-actions alone, and only where flows are remembered.
func TestBindFeatures(t *testing.T) {
	one := func(kind openflow.PropType) openflow.TableFeaturesBody {
		return openflow.TableFeaturesBody{{Properties: []openflow.TableProp{
			{Kind: kind, Types: []openflow.TypeID{openflow.ActionID(openflow.ActionBind{Method: openflow.BindHash}), openflow.ActionID(unbind(1))}},
		}}}
	}
	for _, bindings := range []bool{false, true} {
		p := pipeline.New(pipeline.Limits{Tables: 1, Bindings: bindings})
		f := p.TableFeatures()[0]
		want, code := 18+8, openflow.TableFeaturesFailedBadArgument
		if bindings {
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
