package pipeline_test

import (
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// byCookie are counters that tell entries apart.
func byCookie(e *pipeline.Entry) openflow.Counter {
	return openflow.Counter{Packets: e.Cookie, Octets: 100 * e.Cookie}
}

func query(change ...func(*openflow.FlowQuery)) openflow.FlowQuery {
	q := openflow.NewFlowQuery()
	for _, f := range change {
		f(&q)
	}
	return q
}

// TestFlowStats: which entries are asked for, and in which order they are told [7.3.5.2, 7.3.5.3].
func TestFlowStats(t *testing.T) {
	b := newBench(t, pipeline.Limits{Tables: 10})
	b.must(chain(1))
	b.must(flow(add, cookie(1, 0), priority(10), to(out(1))))
	b.must(flow(add, cookie(2, 0), priority(20), fields(from("10.0.0.0/8")), to(out(2))))
	b.must(flow(add, cookie(3, 0), priority(30), fields(from("10.1.0.0/16")), to(into(1))))
	b.must(flow(add, cookie(4, 0), table(9), fields(from("10.1.0.0/16")), to(out(2))))
	tests := []struct {
		name string
		q    openflow.FlowQuery
		want []uint64 // cookies
		code openflow.Code
	}{
		{"all", query(), []uint64{3, 2, 1, 4}, 0},
		{"a table", query(func(q *openflow.FlowQuery) { q.Table = 0 }), []uint64{3, 2, 1}, 0},
		{"an empty table", query(func(q *openflow.FlowQuery) { q.Table = 1 }), nil, 0},
		{"no table", query(func(q *openflow.FlowQuery) { q.Table = 10 }), nil, openflow.BadRequestBadTableID},
		{"match", query(func(q *openflow.FlowQuery) { q.Match = from("10.0.0.0/8") }), []uint64{3, 2, 4}, 0},
		{"field", query(func(q *openflow.FlowQuery) { q.Match = q.Match.Uint(openflow.FieldActsetOutput, 1) }), nil,
			openflow.BadMatchBadField},
		{"port", query(func(q *openflow.FlowQuery) { q.OutPort = 2 }), []uint64{2, 4}, 0},
		{"group", query(func(q *openflow.FlowQuery) { q.OutGroup = 1 }), []uint64{3}, 0},
		{"cookie", query(func(q *openflow.FlowQuery) { q.Cookie, q.CookieMask = 0xf1, 1 }), []uint64{3, 1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply, err := b.FlowStats(start, tt.q, byCookie)
			sum, sumErr := b.Aggregate(tt.q, byCookie)
			for _, err := range []error{err, sumErr} {
				wantCode(t, err, tt.code)
			}
			var got []uint64
			var want openflow.AggregateReply
			for _, f := range reply {
				got = append(got, f.Cookie)
				want.Flows++
				want.Packets += f.Packets
				want.Octets += f.Octets
			}
			wantEqual(t, tt.want, got)
			wantEqual(t, want, sum)
		})
	}
}

// TestFlowStatsAsInstalled: an entry is told as it was sent, its match in the order of the fields too, with a duration that a
// modification does not begin again.
func TestFlowStatsAsInstalled(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	m := openflow.Match{}.UintMasked(openflow.FieldMetadata, 1, 0xff).Uint(openflow.FieldEthType, 0x0800).Port(3)
	f := flow(add, table(7), priority(9), cookie(5, 0), timeouts(11, 12), fields(m),
		flags(openflow.FlowSendFlowRem|openflow.FlowCheckOverlap|openflow.FlowResetCounts|openflow.FlowNoPktCounts))
	b.must(f)
	b.now = at(1)
	b.must(flow(modifyStrict, table(7), priority(9), fields(m), does(openflow.InstructionClearActions{}), to(out(1), out(1))))
	reply, err := b.FlowStats(at(2.25), openflow.NewFlowQuery(), byCookie)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, openflow.FlowStatsReply{{
		Table: 7, Duration: openflow.Duration{Sec: 2, Nsec: 250e6}, Priority: 9, Idle: 11, Hard: 12, Flags: f.Flags, Cookie: 5,
		Packets: 5, Octets: 500, Match: m, Instructions: []openflow.Instruction{
			openflow.InstructionClearActions{}, openflow.InstructionApplyActions{Actions: []openflow.Action{out(1), out(1)}}},
	}}, reply)
}

func TestFlowRemoved(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	b.must(flow(add, table(7), priority(9), cookie(5, 0), timeouts(11, 12), fields(from("10.0.0.0/8"))))
	c := b.Expire(at(11.5), never)
	wantEqual(t, &openflow.FlowRemoved{Cookie: 5, Priority: 9, Reason: openflow.RemovedIdleTimeout, Table: 7,
		Duration: openflow.Duration{Sec: 11, Nsec: 500e6}, Idle: 11, Hard: 12, Packets: 3, Octets: 4, Match: from("10.0.0.0/8")},
		c.Removed[0].FlowRemoved(at(11.5), openflow.Counter{Packets: 3, Octets: 4}))
}

func TestTableStats(t *testing.T) {
	b := newBench(t, pipeline.Limits{Tables: 3})
	b.must(flow(add, priority(1), table(1)))
	b.must(flow(add, priority(2), table(1)))
	b.must(flow(add, priority(2), table(1)))
	b.must(flow(add, table(2)))
	b.must(flow(deletes, table(2)))
	want := openflow.TableStatsReply{
		{Table: 0, Lookups: 10}, {Table: 1, Active: 2, Lookups: 11, Hits: 1}, {Table: 2, Lookups: 12, Hits: 2},
	}
	wantEqual(t, want, b.TableStats(func(id openflow.TableID) (uint64, uint64) { return 10 + uint64(id), uint64(id) }))
}

// TestGroupStats: references are the entries and groups that use a group, each once [7.3.5.9].
func TestGroupStats(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	b.must(group(openflow.GroupAdd, openflow.GroupTypeAll, 1, bucket(out(1)), bucket()))
	b.now = at(1)
	b.must(chain(2, 1, 1))
	b.must(flow(add, to(into(1), into(1))))
	b.must(flow(add, priority(1), to(into(1), into(2))))
	counts := func(g *pipeline.Group) (openflow.Counter, []openflow.Counter) {
		return openflow.Counter{Packets: uint64(g.ID)}, make([]openflow.Counter, len(g.Buckets))
	}
	buckets := make([]openflow.Counter, 2)
	one := openflow.GroupStats{Group: 1, References: 3, Packets: 1, Duration: openflow.Duration{Sec: 3}, Buckets: buckets}
	two := openflow.GroupStats{Group: 2, References: 1, Packets: 2, Duration: openflow.Duration{Sec: 2}, Buckets: buckets}
	wantEqual(t, openflow.GroupStatsReply{one, two}, b.GroupStats(at(3), openflow.GroupAll, counts))
	wantEqual(t, openflow.GroupStatsReply{two}, b.GroupStats(at(3), 2, counts))
	wantEqual(t, openflow.GroupStatsReply{}, b.GroupStats(at(3), 3, counts))
	wantEqual(t, openflow.GroupDescReply{
		{Group: 1, Buckets: []openflow.Bucket{bucket(out(1)), bucket()}},
		{Group: 2, Buckets: []openflow.Bucket{bucket(into(1)), bucket(into(1))}},
	}, b.GroupDesc())
}

func TestMeterStats(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	b.must(meter(openflow.MeterAdd, 2, drops(8)))
	b.must(&openflow.MeterMod{Flags: openflow.MeterFlagPktps | openflow.MeterFlagBurst, Meter: 1})
	b.must(flow(add, does(openflow.InstructionMeter{Meter: 2})))
	counts := func(m *pipeline.Meter) (openflow.Counter, []openflow.Counter) {
		return openflow.Counter{Octets: uint64(m.ID)}, make([]openflow.Counter, len(m.Bands))
	}
	one := openflow.MeterStats{Meter: 1, In: openflow.Counter{Octets: 1}, Duration: openflow.Duration{Sec: 3}}
	two := openflow.MeterStats{Meter: 2, Flows: 1, In: openflow.Counter{Octets: 2}, Duration: openflow.Duration{Sec: 3},
		Bands: make([]openflow.Counter, 1)}
	oneConfig := openflow.MeterConfig{Flags: openflow.MeterFlagPktps | openflow.MeterFlagBurst, Meter: 1}
	twoConfig := openflow.MeterConfig{Flags: openflow.MeterFlagKbps, Meter: 2, Bands: []openflow.Band{drops(8)}}
	tests := []struct {
		name   string
		id     openflow.MeterID
		stats  openflow.MeterStatsReply
		config openflow.MeterConfigReply
		code   openflow.Code
	}{
		{"all", openflow.MeterAll, openflow.MeterStatsReply{one, two}, openflow.MeterConfigReply{oneConfig, twoConfig}, 0},
		{"one", 2, openflow.MeterStatsReply{two}, openflow.MeterConfigReply{twoConfig}, 0},
		{"none", 3, nil, nil, openflow.MeterModFailedUnknownMeter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stats, err := b.MeterStats(at(3), tt.id, counts)
			config, configErr := b.MeterConfig(tt.id)
			for _, err := range []error{err, configErr} {
				wantCode(t, err, tt.code)
			}
			wantEqual(t, tt.stats, stats)
			wantEqual(t, tt.config, config)
		})
	}
	if reply, err := pipeline.New(pipeline.Limits{}).MeterStats(start, openflow.MeterAll, counts); err != nil || len(reply) != 0 {
		t.Errorf("of none: %v, %v", reply, err)
	}
}
