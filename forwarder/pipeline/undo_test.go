package pipeline_test

import (
	"maps"
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// kernel is what a kernel would hold that knows of a pipeline only what changes tell.
type kernel struct {
	entries map[uint64]*pipeline.Entry
	groups  map[openflow.GroupID]*pipeline.Group
	meters  map[openflow.MeterID]*pipeline.Meter
}

func (k kernel) clone() kernel {
	return kernel{maps.Clone(k.entries), maps.Clone(k.groups), maps.Clone(k.meters)}
}

func (k kernel) equal(o kernel) bool {
	return maps.Equal(k.entries, o.entries) && maps.Equal(k.groups, o.groups) && maps.Equal(k.meters, o.meters)
}

// apply applies a change in the documented order.
func (k kernel) apply(t *testing.T, c pipeline.Change) {
	t.Helper()
	for _, m := range c.SetMeters {
		k.meters[m.ID] = m
	}
	for _, g := range c.SetGroups {
		k.groups[g.ID] = g
	}
	for _, s := range c.Set {
		if k.entries[s.Entry.ID] != s.Old {
			t.Errorf("set %+v in place of %+v, where %+v is", s.Entry, s.Old, k.entries[s.Entry.ID])
		}
		k.entries[s.Entry.ID] = s.Entry
	}
	for _, r := range c.Removed {
		if k.entries[r.Entry.ID] != r.Entry {
			t.Errorf("removed %+v, where %+v is", r.Entry, k.entries[r.Entry.ID])
		}
		delete(k.entries, r.Entry.ID)
	}
	for _, g := range c.RemovedGroups {
		delete(k.groups, g.ID)
	}
	for _, m := range c.RemovedMeters {
		delete(k.meters, m.ID)
	}
}

// want compares with the pipeline itself.
func (k kernel) want(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	is := kernel{map[uint64]*pipeline.Entry{}, map[openflow.GroupID]*pipeline.Group{}, map[openflow.MeterID]*pipeline.Meter{}}
	for e := range p.Entries() {
		is.entries[e.ID] = e
	}
	for _, g := range p.Groups() {
		is.groups[g.ID] = g
	}
	for _, m := range p.Meters() {
		is.meters[m.ID] = m
	}
	if !k.equal(is) {
		t.Errorf("applied: %+v\nheld: %+v", k, is)
	}
}

// TestUndo: of each message, that what was before is told by all answers again. TestModel does the same at random.
func TestUndo(t *testing.T) {
	tests := []struct {
		name string
		m    openflow.Message
	}{
		{"addition", flow(add, priority(9), timeouts(1, 1), to(into(1)))},
		{"replacement", flow(add, priority(1), timeouts(0, 1), to(out(1), out(2)))},
		{"modification", flow(modify, does(openflow.InstructionMeter{Meter: 1}))},
		{"deletion", flow(deletes)},
		{"group", group(openflow.GroupAdd, openflow.GroupTypeAll, 9, bucket(into(2)))},
		{"group, modified", group(openflow.GroupModify, openflow.GroupTypeSelect, 2, weighted(1, out(1), out(2)))},
		{"group, deleted", group(openflow.GroupDelete, 0, 2)},
		{"groups, deleted", group(openflow.GroupDelete, 0, openflow.GroupAll)},
		{"meter", meter(openflow.MeterAdd, 9)},
		{"meter, modified", meter(openflow.MeterModify, 1)},
		{"meters, deleted", meter(openflow.MeterDelete, openflow.MeterAll)},
		{"tables", &openflow.MultipartRequest{Body: openflow.TableFeaturesBody{{Table: 0, Name: "x"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, pipeline.Limits{Tables: 4, Actions: 20})
			b.must(meter(openflow.MeterAdd, 1, drops(1)))
			b.must(chain(3))
			b.must(chain(1, 3))
			b.must(chain(2, 1))
			b.must(flow(add, priority(1), timeouts(0, 100), to(into(2), into(1))))
			b.must(flow(add, priority(2), does(openflow.InstructionMeter{Meter: 1}), to(into(2))))
			b.must(flow(add, table(3), timeouts(50, 0)))
			want := answers(t, b.Pipeline)
			b.now = at(1)
			c := b.must(tt.m)
			changed := answers(t, b.Pipeline)
			if back := b.Undo(c); back.Empty() && tt.name != "tables" {
				t.Error("nothing to tell the kernel")
			}
			wantEqual(t, want, answers(t, b.Pipeline))
			b.must(tt.m)
			wantEqual(t, changed, answers(t, b.Pipeline))
		})
	}
}

// TestUndoFrees: what is taken back takes no room, and is in time where it was.
func TestUndoFrees(t *testing.T) {
	b := newBench(t, pipeline.Limits{Actions: 2})
	b.must(flow(add, timeouts(0, 10), to(out(1))))
	b.now = at(5)
	for range 3 {
		b.Undo(b.must(flow(add, priority(1), timeouts(0, 1), to(out(1)))))
		b.Undo(b.must(flow(modify, to(out(1), out(2)))))
		b.Undo(b.must(flow(add, timeouts(0, 1), to(out(1), out(2)))))
		b.Undo(b.must(group(openflow.GroupAdd, openflow.GroupTypeAll, 1, bucket(out(1)))))
		b.Undo(b.must(flow(deletes)))
	}
	b.Undo(b.must(flow(add, timeouts(0, 100))))
	b.Undo(b.must(flow(add)))
	if c := b.Expire(at(9.9), never); !c.Empty() {
		t.Errorf("expired: %+v", c)
	}
	if c := b.Expire(at(10), never); len(c.Removed) != 1 {
		t.Errorf("at the end: %+v", c)
	}
}

// answers are what a pipeline tells of itself.
func answers(t *testing.T, p *pipeline.Pipeline) []openflow.MultipartBody {
	t.Helper()
	flows, err := p.FlowStats(at(9), openflow.NewFlowQuery(), byCookie)
	if err != nil {
		t.Fatal(err)
	}
	none := func(*pipeline.Group) (openflow.Counter, []openflow.Counter) { return openflow.Counter{}, nil }
	meters, err := p.MeterStats(at(9), openflow.MeterAll, func(*pipeline.Meter) (openflow.Counter, []openflow.Counter) {
		return openflow.Counter{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	config, err := p.MeterConfig(openflow.MeterAll)
	if err != nil {
		t.Fatal(err)
	}
	return []openflow.MultipartBody{flows, p.TableStats(func(openflow.TableID) (uint64, uint64) { return 0, 0 }),
		p.GroupStats(at(9), openflow.GroupAll, none), p.GroupDesc(), meters, config, p.TableFeatures()}
}
