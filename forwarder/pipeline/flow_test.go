package pipeline_test

import (
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

const (
	add          = openflow.FlowAdd
	modify       = openflow.FlowModify
	modifyStrict = openflow.FlowModifyStrict
	deletes      = openflow.FlowDelete
	deleteStrict = openflow.FlowDeleteStrict
)

// TestAddIdentical: an addition replaces the entry of the same priority and match; its duration restarts, its counters go on
// unless they are reset, and no removal is reported [6.4].
func TestAddIdentical(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	first := b.must(flow(add, flags(openflow.FlowSendFlowRem), cookie(1, 0), to(out(1)))).Set[0].Entry
	for _, reset := range []openflow.FlowModFlags{0, openflow.FlowResetCounts} {
		b.now = b.now.Add(1e9)
		c := b.must(flow(add, flags(reset), cookie(2, 0), to(out(2))))
		if len(c.Set) != 1 || len(c.Removed) != 0 {
			t.Fatalf("change %+v", c)
		}
		s := c.Set[0]
		if s.Old != first || s.KeepCounts != (reset == 0) || s.Entry.ID != first.ID || s.Entry.Cookie != 2 || s.Entry.Created != b.now {
			t.Errorf("%v: set %+v to %+v", reset, s, s.Entry)
		}
		first = s.Entry
	}
	if c := b.must(flow(add, priority(5))); c.Set[0].Old != nil || c.Set[0].Entry.ID == first.ID {
		t.Errorf("another priority replaced the entry: %+v", c.Set[0])
	}
	if c := b.must(flow(add, table(1))); c.Set[0].Old != nil {
		t.Errorf("an entry of another table was replaced: %+v", c.Set[0])
	}
}

// TestModify: a modification replaces the instructions and nothing else; of no entry it is no error, and adds none [6.4].
func TestModify(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	if c := b.must(flow(modify, to(out(1)))); !c.Empty() {
		t.Fatalf("a modification of nothing: %+v", c)
	}
	if c := b.must(flow(modifyStrict, to(out(1)))); !c.Empty() {
		t.Fatalf("a strict modification of nothing: %+v", c)
	}
	old := b.must(flow(add, cookie(7, 0), timeouts(3, 4), flags(openflow.FlowNoBytCounts), to(out(1)))).Set[0].Entry
	b.now = at(1)
	for _, reset := range []openflow.FlowModFlags{0, openflow.FlowResetCounts} {
		c := b.must(flow(modify, timeouts(8, 9), flags(reset|openflow.FlowSendFlowRem|openflow.FlowCheckOverlap), to(out(2))))
		if len(c.Set) != 1 || c.Set[0].Old != old || c.Set[0].KeepCounts != (reset == 0) {
			t.Fatalf("change %+v", c)
		}
		e := c.Set[0].Entry
		want := *old
		want.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: []openflow.Action{out(2)}}}
		wantEqual(t, want, *e)
		old = e
	}
}

// TestChoice: which entries a modification or deletion is about [6.4].
func TestChoice(t *testing.T) {
	entries := []*openflow.FlowMod{
		flow(add, cookie(1, 0), priority(10), to(out(1))),
		flow(add, cookie(2, 0), priority(20), fields(from("10.0.0.0/8")), to(out(2))),
		flow(add, cookie(3, 0), priority(20), fields(from("10.1.0.0/16")), to(into(1))),
		flow(add, cookie(4, 0), priority(30), fields(from("10.1.0.0/16")), to(out(3), out(2))),
		flow(add, cookie(5, 0), priority(20), fields(from("11.0.0.1/32")),
			does(openflow.InstructionWriteActions{Actions: []openflow.Action{out(2)}})),
		flow(add, cookie(6, 0), priority(20), table(9), fields(from("10.1.0.0/16")), to(out(2))),
	}
	port := func(p openflow.PortNo) func(*openflow.FlowMod) { return func(m *openflow.FlowMod) { m.OutPort = p } }
	group := func(g openflow.GroupID) func(*openflow.FlowMod) { return func(m *openflow.FlowMod) { m.OutGroup = g } }
	tests := []struct {
		name string
		m    *openflow.FlowMod
		want []uint64 // cookies
	}{
		{"all of a table", flow(deletes), []uint64{1, 2, 3, 4, 5}},
		{"all tables", flow(deletes, table(openflow.TableAll)), []uint64{1, 2, 3, 4, 5, 6}},
		{"an empty table", flow(deletes, table(1)), nil},
		{"priority does not matter", flow(deletes, priority(1), fields(from("10.1.0.0/16"))), []uint64{3, 4}},
		{"what is more specific", flow(deletes, fields(from("10.0.0.0/8"))), []uint64{2, 3, 4}},
		{"what is covered by one field", flow(deletes, fields(openflow.Match{}.Uint(openflow.FieldEthType, 0x0800))),
			[]uint64{2, 3, 4, 5}},
		{"what is less specific stays", flow(deletes, fields(from("10.1.2.0/24"))), nil},
		{"strict", flow(deleteStrict, priority(20), fields(from("10.1.0.0/16"))), []uint64{3}},
		{"strict, all tables", flow(deleteStrict, priority(20), table(openflow.TableAll), fields(from("10.1.0.0/16"))),
			[]uint64{3, 6}},
		{"strict, another priority", flow(deleteStrict, priority(21), fields(from("10.1.0.0/16"))), nil},
		{"strict, another mask", flow(deleteStrict, priority(20), fields(from("10.1.0.0/17"))), nil},
		{"strict, no field", flow(deleteStrict, priority(10)), []uint64{1}},
		{"port", flow(deletes, port(2)), []uint64{2, 4, 5}},
		{"port, strict", flow(deleteStrict, priority(20), fields(from("10.0.0.0/8")), port(1)), nil},
		{"port of a group's bucket", flow(deletes, port(4)), nil},
		{"group", flow(deletes, group(1)), []uint64{3}},
		{"group and port", flow(deletes, group(1), port(2)), nil},
		{"cookie", flow(deletes, cookie(4, ^uint64(0))), []uint64{4}},
		{"some bits of the cookie", flow(deletes, cookie(0xff04, 4)), []uint64{4, 5}},
		{"cookie without a mask", flow(deletes, cookie(4, 0)), []uint64{1, 2, 3, 4, 5}},
		{"cookie, strict", flow(deleteStrict, priority(10), cookie(2, 3)), nil},
		{"modification", flow(modify, fields(from("10.0.0.0/8"))), []uint64{2, 3, 4}},
		{"modification, strict", flow(modifyStrict, priority(30), fields(from("10.1.0.0/16"))), []uint64{4}},
		{"modification, cookie", flow(modify, cookie(3, 3)), []uint64{3}},
		{"modification, port is ignored", flow(modify, port(2)), []uint64{1, 2, 3, 4, 5}},
		{"modification, group is ignored", flow(modifyStrict, priority(10), group(1)), []uint64{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, pipeline.Limits{})
			b.must(&openflow.GroupMod{Group: 1, Buckets: []openflow.Bucket{bucket(out(4))}})
			for _, e := range entries {
				b.must(e)
			}
			c := b.must(tt.m)
			var got []uint64
			for _, s := range c.Set {
				got = append(got, s.Entry.Cookie)
			}
			for _, r := range c.Removed {
				got = append(got, r.Entry.Cookie)
				if r.Reason != openflow.RemovedDelete || r.Report {
					t.Errorf("removed: %+v", r)
				}
			}
			wantSame(t, tt.want, got)
			// What is deleted is gone, what is modified is there to be modified again.
			if again := b.must(tt.m); len(again.Removed) != 0 || len(again.Set) != len(c.Set) {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

// TestTell: the flag of the entry, not of the deletion, asks for a message [5.5].
func TestTell(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	b.must(flow(add, cookie(1, 0), priority(1)))
	b.must(flow(add, cookie(2, 0), priority(2), flags(openflow.FlowSendFlowRem)))
	for _, r := range b.must(flow(deletes, flags(openflow.FlowSendFlowRem))).Removed {
		if r.Report != (r.Entry.Cookie == 2) {
			t.Errorf("entry %d: reported %v", r.Entry.Cookie, r.Report)
		}
	}
}

// TestOverlap: with the flag, an addition is refused if a packet may match an entry of the same priority as well, other than the
// identical one [6.4].
func TestOverlap(t *testing.T) {
	tests := []struct {
		name string
		m    *openflow.FlowMod
		want openflow.Code
	}{
		{"inside", flow(add, fields(from("10.1.0.0/16"))), openflow.FlowModFailedOverlap},
		{"around", flow(add, fields(from("0.0.0.0/0"))), openflow.FlowModFailedOverlap},
		{"across", flow(add, fields(openflow.Match{}.Port(1))), openflow.FlowModFailedOverlap},
		{"beside", flow(add, fields(from("11.0.0.0/8"))), 0},
		{"beside, longer", flow(add, fields(from("11.1.0.0/16"))), 0},
		{"another priority", flow(add, priority(1), fields(from("10.1.0.0/16"))), 0},
		{"another table", flow(add, table(1), fields(from("10.1.0.0/16"))), 0},
		{"identical", flow(add, fields(from("10.0.0.0/8"))), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, pipeline.Limits{})
			b.must(flow(add, fields(from("10.0.0.0/8"))))
			tt.m.Flags = openflow.FlowCheckOverlap
			if tt.want != 0 {
				b.refuses(tt.m, tt.want)
				tt.m.Flags = 0
			}
			b.must(tt.m)
		})
	}
}

// TestFlowRefused: what a pipeline refuses because of what it holds.
func TestFlowRefused(t *testing.T) {
	tests := []struct {
		name string
		m    *openflow.FlowMod
		want openflow.Code
	}{
		{"table", flow(add, table(4)), openflow.FlowModFailedBadTableID},
		{"last table", flow(add, table(3)), 0},
		{"table, modification", flow(modify, table(4)), openflow.FlowModFailedBadTableID},
		{"table, deletion", flow(deletes, table(4)), openflow.FlowModFailedBadTableID},
		{"table, strict deletion", flow(deleteStrict, table(254)), openflow.FlowModFailedBadTableID},
		{"goto", flow(add, does(openflow.InstructionGotoTable{Table: 4})), openflow.BadInstructionBadTableID},
		{"goto the last table", flow(add, does(openflow.InstructionGotoTable{Table: 3})), 0},
		{"goto, deletion", flow(deletes, does(openflow.InstructionGotoTable{Table: 4})), 0},
		{"group", flow(add, to(into(2))), openflow.BadActionBadOutGroup},
		{"group that is there", flow(add, to(into(1))), 0},
		{"group, written", flow(add, does(openflow.InstructionWriteActions{Actions: []openflow.Action{into(2)}})),
			openflow.BadActionBadOutGroup},
		{"group, modification of nothing", flow(modify, to(into(2))), openflow.BadActionBadOutGroup},
		{"meter", flow(add, does(openflow.InstructionMeter{Meter: 2})), openflow.MeterModFailedUnknownMeter},
		{"meter that is there", flow(add, does(openflow.InstructionMeter{Meter: 1})), 0},
		{"field", flow(add, fields(openflow.Match{}.Uint(openflow.FieldActsetOutput, 1))), openflow.BadMatchBadField},
		{"field, deletion", flow(deletes, fields(openflow.Match{}.Uint(openflow.FieldActsetOutput, 1))), openflow.BadMatchBadField},
		{"set-field", flow(add, to(openflow.ActionSetField{Field: openflow.Match{}.Uint(openflow.FieldIPv6Exthdr, 1)})),
			openflow.BadActionBadSetType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, pipeline.Limits{Tables: 4})
			b.must(&openflow.GroupMod{Group: 1})
			b.must(&openflow.MeterMod{Meter: 1})
			if tt.want == 0 {
				b.must(tt.m)
			} else {
				b.refuses(tt.m, tt.want)
			}
		})
	}
}

// TestOverlapIdentical: what overlaps others does so too where it would replace an entry.
func TestOverlapIdentical(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	b.must(flow(add, fields(from("10.0.0.0/8"))))
	b.must(flow(add, fields(from("10.1.0.0/16"))))
	b.refuses(flow(add, fields(from("10.0.0.0/8")), flags(openflow.FlowCheckOverlap)), openflow.FlowModFailedOverlap)
}

// TestTableFull: a full pipeline still lets an entry be replaced, and takes a new one for one that is gone [6.4].
func TestTableFull(t *testing.T) {
	b := newBench(t, pipeline.Limits{Entries: 2})
	b.must(flow(add, priority(1)))
	b.must(flow(add, priority(1), table(2)))
	b.refuses(flow(add, priority(2)), openflow.FlowModFailedTableFull)
	b.must(flow(add, priority(1), to(out(1))))
	b.must(flow(deletes, table(2)))
	b.must(flow(add, priority(2)))
	b.refuses(flow(add, priority(3)), openflow.FlowModFailedTableFull)
}

// TestActions: flow entries and groups together have only so many actions.
func TestActions(t *testing.T) {
	b := newBench(t, pipeline.Limits{Actions: 5})
	pair := to(out(1), out(2))
	whole := &openflow.GroupMod{Group: 1, Buckets: []openflow.Bucket{bucket(out(1)), bucket(out(2))}}
	for range 3 { // what is deleted leaves its room
		b.must(whole)
		b.must(group(openflow.GroupModify, openflow.GroupTypeAll, 1, whole.Buckets...))
		b.must(flow(add, priority(1), to(out(1))))
		b.must(flow(add, priority(2), does(openflow.InstructionWriteActions{Actions: []openflow.Action{out(1), out(2)}})))
		b.refuses(flow(add, priority(3), to(out(1))), openflow.FlowModFailedTableFull)
		b.refuses(flow(modify, pair), openflow.FlowModFailedTableFull)
		b.refuses(&openflow.GroupMod{Group: 2, Buckets: []openflow.Bucket{bucket(out(1))}}, openflow.GroupModFailedOutOfBuckets)
		b.must(flow(modify, to(out(1))))
		b.must(flow(add, priority(1), pair))
		b.refuses(flow(add, priority(2), pair), openflow.FlowModFailedTableFull)
		b.must(flow(add, priority(3)))
		b.must(flow(deletes))
		b.must(group(openflow.GroupDelete, 0, 1))
	}
}

// TestOwnCopies: an entry keeps nothing of the buffer that its message was decoded from.
func TestOwnCopies(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	set := openflow.ActionSetField{Field: openflow.Match{}.Uint(openflow.FieldVLANVID, 0x1005)}
	sent := flow(add, fields(from("10.0.0.0/8")), to(set, out(1)),
		does(openflow.InstructionWriteActions{Actions: []openflow.Action{set}}))
	buffer, err := openflow.Append(nil, 1, sent)
	if err != nil {
		t.Fatal(err)
	}
	_, m, err := openflow.Decode(buffer)
	if err != nil {
		t.Fatal(err)
	}
	e := b.must(m).Set[0].Entry
	clear(buffer)
	wantEqual(t, sent.Match, e.Fields)
	wantEqual(t, sent.Instructions, e.Instructions)
}
