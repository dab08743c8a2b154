package pipeline_test

import (
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

func meter(c openflow.MeterCommand, id openflow.MeterID, list ...openflow.Band) *openflow.MeterMod {
	return &openflow.MeterMod{Command: c, Flags: openflow.MeterFlagKbps, Meter: id, Bands: list}
}

// drops is a band. Its burst is told as it was sent, with the flag for it or without.
func drops(rate uint32) openflow.Band {
	return openflow.Band{Kind: openflow.BandDrop, Rate: rate, Burst: 7}
}

func TestMeterRefused(t *testing.T) {
	const add, modify, deletes = openflow.MeterAdd, openflow.MeterModify, openflow.MeterDelete
	tests := []struct {
		name string
		m    *openflow.MeterMod
		want openflow.Code
	}{
		{"added", meter(add, 2, drops(1), openflow.Band{Kind: openflow.BandDSCPRemark, Rate: 2, PrecLevel: 1}), 0},
		{"no band", meter(add, 2), 0},
		{"largest number", meter(add, openflow.MeterMax), 0},
		{"there already", meter(add, 1), openflow.MeterModFailedMeterExists},
		{"modified", meter(modify, 1, drops(2)), 0},
		{"modified, not there", meter(modify, 2), openflow.MeterModFailedUnknownMeter},
		{"deleted, not there", meter(deletes, 2), 0},
		{"bands", meter(add, 2, drops(1), drops(2), drops(3)), openflow.MeterModFailedOutOfBands},
		{"bands, modified", meter(modify, 1, drops(1), drops(2), drops(3)), openflow.MeterModFailedOutOfBands},
		{"of a controller's packets", meter(add, openflow.MeterController), openflow.MeterModFailedInvalidMeter},
		{"of a slow path", meter(add, openflow.MeterSlowpath), openflow.MeterModFailedInvalidMeter},
		{"of a controller's packets, deleted", meter(deletes, openflow.MeterController), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, pipeline.Limits{Meters: 2, Bands: 2})
			b.must(meter(add, 1))
			if tt.want == 0 {
				b.must(tt.m)
			} else {
				b.refuses(tt.m, tt.want)
			}
		})
	}
	b := newBench(t, pipeline.Limits{Meters: 1})
	b.must(meter(add, 1))
	b.refuses(meter(add, 2), openflow.MeterModFailedOutOfMeters)
}

// TestMeterDelete: with a meter go the flow entries that use it [6.6].
func TestMeterDelete(t *testing.T) {
	for _, id := range []openflow.MeterID{1, openflow.MeterAll} {
		b := newBench(t, pipeline.Limits{})
		b.must(meter(openflow.MeterAdd, 1))
		b.must(meter(openflow.MeterAdd, 2))
		uses := func(m openflow.MeterID) func(*openflow.FlowMod) { return does(openflow.InstructionMeter{Meter: m}) }
		b.must(flow(add, cookie(1, 0), priority(1), uses(1), flags(openflow.FlowSendFlowRem)))
		b.must(flow(add, cookie(2, 0), priority(2), uses(2)))
		b.must(flow(add, cookie(3, 0), priority(3)))
		b.must(flow(openflow.FlowModify, cookie(3, ^uint64(0)), uses(1)))
		b.must(flow(add, cookie(4, 0), priority(4), uses(1)))
		b.must(flow(openflow.FlowDelete, cookie(4, ^uint64(0))))
		want, meters := []uint64{1, 3}, 1
		if id == openflow.MeterAll {
			want, meters = []uint64{1, 2, 3}, 2
		}
		c := b.must(meter(openflow.MeterDelete, id))
		var got []uint64
		for _, r := range c.Removed {
			got = append(got, r.Entry.Cookie)
			if r.Reason != openflow.RemovedDelete || r.Report != (r.Entry.Cookie == 1) {
				t.Errorf("removed %+v", r)
			}
		}
		wantSame(t, want, got)
		if len(c.RemovedMeters) != meters || b.Meter(1) != nil || len(b.Meters()) != 2-meters {
			t.Errorf("%d meters removed, %d left", len(c.RemovedMeters), len(b.Meters()))
		}
	}
}

// TestMeterModify: a modification takes flags and bands anew and leaves who uses the meter alone [6.6].
func TestMeterModify(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	b.must(meter(openflow.MeterAdd, 1, drops(1)))
	b.must(flow(add, does(openflow.InstructionMeter{Meter: 1})))
	b.now = at(5)
	c := b.must(&openflow.MeterMod{Command: openflow.MeterModify, Flags: openflow.MeterFlagPktps, Meter: 1,
		Bands: []openflow.Band{drops(2)}})
	want := pipeline.Meter{ID: 1, Flags: openflow.MeterFlagPktps, Bands: []openflow.Band{drops(2)}, Created: start}
	if len(c.SetMeters) != 1 || len(c.Set)+len(c.Removed) != 0 {
		t.Fatalf("change %+v", c)
	}
	wantEqual(t, want, *c.SetMeters[0])
	wantEqual(t, want, *b.Meter(1))
	if c := b.must(meter(openflow.MeterDelete, 1)); len(c.Removed) != 1 {
		t.Errorf("deletion: %+v", c)
	}
}
