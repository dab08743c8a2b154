package pipeline_test

import (
	"fmt"
	"slices"
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// replay makes a pipeline of a snapshot, by way of the bytes of its messages.
func replay(t *testing.T, p *pipeline.Pipeline) *pipeline.Pipeline {
	t.Helper()
	b := newBench(t, p.Limits())
	messages := 0
	for m, at := range p.Snapshot() {
		messages++
		b.now = at
		bytes, err := openflow.Append(nil, 1, m)
		if err != nil {
			t.Fatal(err)
		}
		_, decoded, err := openflow.Decode(bytes)
		if err != nil {
			t.Fatal(err)
		}
		b.must(decoded)
	}
	if messages != p.Messages() {
		t.Errorf("%d messages, not %d", messages, p.Messages())
	}
	return b.Pipeline
}

// wantReplayed: what a snapshot makes is the same as the pipeline.
func wantReplayed(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	got := replay(t, p)
	none := func(*pipeline.Entry) openflow.Counter { return openflow.Counter{} }
	flows := func(p *pipeline.Pipeline) []string {
		reply, err := p.FlowStats(at(1e6), openflow.NewFlowQuery(), none)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range reply {
			all = append(all, fmt.Sprintf("%+v", f))
		}
		slices.Sort(all)
		return all
	}
	wantEqual(t, flows(p), flows(got))
	wantEqual(t, p.Groups(), got.Groups())
	wantEqual(t, p.Meters(), got.Meters())
	wantEqual(t, p.TableFeatures(), got.TableFeatures())
}

// TestSnapshot: groups that use ones of a higher number, an entry that was added with a check for overlaps before one that it
// overlaps, tables with names and tables that are left out.
func TestSnapshot(t *testing.T) {
	b := newBench(t, pipeline.Limits{Tables: 5})
	if n := b.Messages(); n != 0 {
		t.Errorf("%d messages of an empty pipeline", n)
	}
	wantReplayed(t, b.Pipeline)
	if _, err := b.ConfigureTables(openflow.TableFeaturesBody{{Table: 0, Name: "first"}, {Table: 3}}); err != nil {
		t.Fatal(err)
	}
	b.must(chain(7))
	b.now = at(1)
	b.must(chain(3, 7))
	b.must(group(openflow.GroupAdd, openflow.GroupTypeFF, 1, watching(1, 3), watching(openflow.PortAny, 7)))
	b.must(meter(openflow.MeterAdd, 4, drops(100)))
	b.now = at(2)
	b.must(flow(add, fields(from("10.0.0.0/8")), flags(openflow.FlowCheckOverlap)))
	b.now = at(3)
	b.must(flow(add, cookie(9, 0), timeouts(3, 4), to(into(1)), does(openflow.InstructionMeter{Meter: 4})))
	b.must(flow(add, table(3), priority(0), flags(openflow.FlowSendFlowRem|openflow.FlowResetCounts), to(out(1))))
	wantReplayed(t, b.Pipeline)
	if n := b.Messages(); n != 8 {
		t.Errorf("%d messages", n)
	}
	for n := range b.Messages() { // the end may come anywhere
		seen := 0
		for range b.Snapshot() {
			if seen++; seen > n {
				break
			}
		}
		if seen != n+1 {
			t.Errorf("%d messages, stopped at %d", seen, n+1)
		}
	}
}
