package pipeline_test

import (
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// group is a group mod.
func group(c openflow.GroupCommand, kind openflow.GroupType, id openflow.GroupID, list ...openflow.Bucket) *openflow.GroupMod {
	return &openflow.GroupMod{Command: c, Kind: kind, Group: id, Buckets: list}
}

// chain is an added group that sends packets to others.
func chain(id openflow.GroupID, to ...openflow.GroupID) *openflow.GroupMod {
	m := group(openflow.GroupAdd, openflow.GroupTypeAll, id)
	for _, g := range to {
		m.Buckets = append(m.Buckets, bucket(into(g)))
	}
	return m
}

func weighted(w uint16, list ...openflow.Action) openflow.Bucket {
	b := bucket(list...)
	b.Weight = w
	return b
}

func watching(p openflow.PortNo, g openflow.GroupID) openflow.Bucket {
	b := bucket(out(1))
	b.WatchPort, b.WatchGroup = p, g
	return b
}

// TestGroupRefused has for each code what draws it, and beside it what is near and does not (code 0) [6.5].
func TestGroupRefused(t *testing.T) {
	const (
		add, modify, deletes = openflow.GroupAdd, openflow.GroupModify, openflow.GroupDelete
		all, sel, ind, ff    = openflow.GroupTypeAll, openflow.GroupTypeSelect, openflow.GroupTypeIndirect, openflow.GroupTypeFF
		anyPort, anyGroup    = openflow.PortAny, openflow.GroupAny
	)
	tests := []struct {
		name string
		m    *openflow.GroupMod
		want openflow.Code
	}{
		{"there already", group(add, all, 1), openflow.GroupModFailedGroupExists},
		{"modified", group(modify, sel, 1, weighted(1)), 0},
		{"modified, not there", group(modify, all, 9), openflow.GroupModFailedUnknownGroup},
		{"deleted, not there", group(deletes, all, 9), 0},
		{"as many as fit", group(add, all, 5), 0},
		{"buckets", group(add, all, 5, bucket(), bucket(), bucket()), 0},
		{"one bucket more", group(add, all, 5, bucket(), bucket(), bucket(), bucket()), openflow.GroupModFailedOutOfBuckets},
		{"as many actions as fit", group(add, all, 5, bucket(actions(4)...)), 0},
		{"more actions", group(add, all, 5, bucket(actions(5)...)), openflow.GroupModFailedOutOfBuckets},
		{"more actions, modified", group(modify, all, 4, bucket(actions(6)...)), openflow.GroupModFailedOutOfBuckets},
		{"actions in place of others", group(modify, all, 4, bucket(actions(5)...)), 0},
		{"weight", group(add, sel, 5, weighted(1), weighted(3)), 0},
		{"weight in all", group(add, all, 5, weighted(1)), openflow.GroupModFailedInvalidGroup},
		{"weight in indirect", group(add, ind, 5, weighted(1)), openflow.GroupModFailedInvalidGroup},
		{"one bucket without weight", group(add, sel, 5, weighted(1), weighted(0)), 0},
		{"no weight at all", group(add, sel, 5, weighted(0), weighted(0)), openflow.GroupModFailedInvalidGroup},
		{"no bucket", group(add, sel, 5), 0},
		{"failover, no bucket", group(add, ff, 5), 0},
		{"failover, port", group(add, ff, 5, watching(1, anyGroup)), 0},
		{"failover, local port", group(add, ff, 5, watching(openflow.PortLocal, anyGroup)), 0},
		{"failover, no port", group(add, ff, 5, watching(openflow.PortController, anyGroup)), openflow.GroupModFailedBadWatch},
		{"failover, port 0", group(add, ff, 5, watching(0, anyGroup)), openflow.GroupModFailedBadWatch},
		{"failover, group", group(add, ff, 5, watching(anyPort, 1)), 0},
		{"failover, group that is not there", group(add, ff, 5, watching(anyPort, 9)), openflow.GroupModFailedBadWatch},
		{"failover, itself", group(add, ff, 5, watching(anyPort, 5)), openflow.GroupModFailedLoop},
		{"select, port", group(add, sel, 5, openflow.Bucket{Weight: 1, WatchPort: 1, WatchGroup: anyGroup}), 0},
		{"all, port", group(add, all, 5, watching(1, anyGroup)), openflow.GroupModFailedWatchUnsupported},
		{"indirect, group", group(add, ind, 5, watching(anyPort, 1)), openflow.GroupModFailedWatchUnsupported},
		{"chained", chain(5, 1, 2), 0},
		{"chained to none", chain(5, 9), openflow.BadActionBadOutGroup},
		{"chained to itself", chain(5, 5), openflow.GroupModFailedLoop},
		{"a loop of three", group(modify, all, 1, bucket(into(3))), openflow.GroupModFailedLoop},
		{"a loop of two", group(modify, all, 1, bucket(out(1)), bucket(into(2))), openflow.GroupModFailedLoop},
		{"a loop of what is watched", group(modify, ff, 1, watching(anyPort, 3)), openflow.GroupModFailedLoop},
		{"no loop", group(modify, all, 2, bucket(into(4))), 0},
		{"used by a group", group(deletes, all, 2), openflow.GroupModFailedChainedGroup},
		{"used by none", group(deletes, all, 3), 0},
		{"all, though chained", group(deletes, all, openflow.GroupAll), 0},
		{"set-field", group(add, all, 5, bucket(openflow.ActionSetField{Field: openflow.Match{}.Uint(openflow.FieldIPv6Exthdr, 1)})),
			openflow.BadActionBadSetType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// 3 sends to 2, 2 to 1, 4 is alone and has an action.
			b := newBench(t, pipeline.Limits{Groups: 5, Buckets: 3, Actions: 7})
			for _, m := range []*openflow.GroupMod{chain(1), chain(2, 1), chain(3, 2), group(add, all, 4, bucket(out(1)))} {
				b.must(m)
			}
			if tt.want == 0 {
				b.must(tt.m)
			} else {
				b.refuses(tt.m, tt.want)
			}
		})
	}
	b := newBench(t, pipeline.Limits{Groups: 1})
	b.must(chain(1))
	b.refuses(chain(2), openflow.GroupModFailedOutOfGroups)
	b.must(group(modify, all, 1))
}

// actions is so many actions.
func actions(n int) []openflow.Action {
	list := make([]openflow.Action, n)
	for i := range list {
		list[i] = openflow.ActionDecNWTTL{}
	}
	return list
}

// TestGroupLadder: a chain that branches at every group is followed once through each of them.
func TestGroupLadder(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	b.must(chain(0))
	for id := range openflow.GroupID(100) {
		b.must(chain(id+1, id, id))
	}
	b.refuses(group(openflow.GroupModify, openflow.GroupTypeAll, 0, bucket(into(100))), openflow.GroupModFailedLoop)
}

// TestGroupDelete: with a group go the flow entries that use it themselves, with that reason [6.5].
func TestGroupDelete(t *testing.T) {
	for _, id := range []openflow.GroupID{2, openflow.GroupAll} {
		b := newBench(t, pipeline.Limits{})
		b.must(chain(1))
		b.must(chain(2, 1))
		b.must(flow(add, cookie(1, 0), priority(1), to(into(1))))
		b.must(flow(add, cookie(2, 0), priority(2), to(out(1), into(2)), flags(openflow.FlowSendFlowRem)))
		b.must(flow(add, cookie(3, 0), priority(3), does(openflow.InstructionWriteActions{Actions: []openflow.Action{into(2), into(1)}})))
		b.must(flow(add, cookie(4, 0), priority(4), to(out(1))))
		b.must(flow(add, cookie(5, 0), priority(5), to(into(2))))
		b.must(flow(openflow.FlowModify, cookie(5, ^uint64(0)), to(out(1)))) // uses it no more
		want, wantGroups := []uint64{2, 3}, []openflow.GroupID{2}
		if id == openflow.GroupAll {
			want, wantGroups = []uint64{1, 2, 3}, []openflow.GroupID{1, 2}
		}
		c := b.must(group(openflow.GroupDelete, 0, id))
		var got []uint64
		for _, r := range c.Removed {
			got = append(got, r.Entry.Cookie)
			if r.Reason != openflow.RemovedGroupDelete || r.Report != (r.Entry.Cookie == 2) {
				t.Errorf("removed %+v", r)
			}
		}
		wantSame(t, want, got)
		var gone []openflow.GroupID
		for _, g := range c.RemovedGroups {
			gone = append(gone, g.ID)
		}
		wantEqual(t, wantGroups, gone)
		if b.Group(2) != nil {
			t.Error("group 2 is still there")
		}
		// What the group used is used no more.
		b.must(group(openflow.GroupDelete, 0, 1))
	}
}

// TestGroupModify: a modification takes all buckets anew and leaves who uses the group alone [6.5].
func TestGroupModify(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	old := b.must(group(openflow.GroupAdd, openflow.GroupTypeAll, 1, bucket(out(1)))).SetGroups[0]
	b.must(flow(add, to(into(1))))
	b.now = at(5)
	c := b.must(group(openflow.GroupModify, openflow.GroupTypeSelect, 1, weighted(2, out(2)), weighted(3)))
	if len(c.Removed)+len(c.Set) != 0 || len(c.SetGroups) != 1 {
		t.Fatalf("change %+v", c)
	}
	want := pipeline.Group{ID: 1, Kind: openflow.GroupTypeSelect, Created: old.Created,
		Buckets: []openflow.Bucket{weighted(2, out(2)), weighted(3)}}
	wantEqual(t, want, *c.SetGroups[0])
	wantEqual(t, want, *b.Group(1))
	wantEqual(t, []openflow.Bucket{bucket(out(1))}, old.Buckets)
	b.must(group(openflow.GroupModify, openflow.GroupTypeAll, 1)) // no buckets: drops, and keeps who uses it
	if c := b.must(group(openflow.GroupDelete, 0, 1)); len(c.Removed) != 1 {
		t.Errorf("deletion: %+v", c)
	}
}
