package pipeline_test

import (
	"testing"
	"time"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// never is the last use of entries that no packet has matched.
func never(*pipeline.Entry) time.Time { return time.Time{} }

// TestExpire: an entry goes after its hard timeout, or when no packet has matched it for its idle timeout; what comes first is the
// reason [5.5].
func TestExpire(t *testing.T) {
	tests := []struct {
		name       string
		idle, hard uint16
		used       float64 // seconds; below 0: never
		stays      float64
		goes       float64
		why        openflow.FlowRemovedReason
	}{
		{"hard", 0, 10, 9, 9.999, 10, openflow.RemovedHardTimeout},
		{"idle, never used", 10, 0, -1, 9.999, 10, openflow.RemovedIdleTimeout},
		{"idle, used", 10, 0, 7, 16.999, 17, openflow.RemovedIdleTimeout},
		{"idle before hard", 5, 20, 3, 7.999, 8, openflow.RemovedIdleTimeout},
		{"hard before idle", 5, 7, 3, 6.999, 7, openflow.RemovedHardTimeout},
		{"hard before idle, never used", 10, 5, -1, 4.999, 5, openflow.RemovedHardTimeout},
		{"both at once", 5, 8, 3, 7.999, 8, openflow.RemovedHardTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, pipeline.Limits{})
			e := b.must(flow(add, timeouts(tt.idle, tt.hard), flags(openflow.FlowSendFlowRem))).Set[0].Entry
			used := func(got *pipeline.Entry) time.Time {
				if got != e {
					t.Errorf("asked about %+v", got)
				}
				if tt.used < 0 {
					return time.Time{}
				}
				return at(tt.used)
			}
			for _, s := range []float64{0, tt.stays / 2, tt.stays} {
				if c := b.Expire(at(s), used); !c.Empty() {
					t.Fatalf("after %v s: %+v", s, c.Removed[0])
				}
			}
			c := b.Expire(at(tt.goes), used)
			if len(c.Removed) != 1 || c.Removed[0] != (pipeline.Removed{Entry: e, Reason: tt.why, Report: true}) {
				t.Fatalf("after %v s: %+v", tt.goes, c)
			}
			if c := b.Expire(at(1e6), used); !c.Empty() {
				t.Errorf("again: %+v", c)
			}
		})
	}
}

// TestExpireSetAnew: an addition in place of an entry begins its time again and may change or take away its timeouts; a
// modification does neither [6.4].
func TestExpireSetAnew(t *testing.T) {
	tests := []struct {
		name string
		m    *openflow.FlowMod
		stay float64
		goes float64 // 0: never
	}{
		{"the same", flow(add, timeouts(0, 10)), 15.999, 16},
		{"longer", flow(add, timeouts(0, 20)), 25.999, 26},
		{"shorter", flow(add, timeouts(0, 1)), 6.999, 7},
		{"none", flow(add), 1e6, 0},
		{"modified", flow(modify, timeouts(0, 99), to(out(1))), 9.999, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, pipeline.Limits{})
			b.must(flow(add, timeouts(0, 10)))
			b.now = at(6)
			e := b.must(tt.m).Set[0].Entry
			if c := b.Expire(at(tt.stay), never); !c.Empty() {
				t.Fatalf("after %v s: %+v", tt.stay, c.Removed[0])
			}
			if tt.goes == 0 {
				return
			}
			if c := b.Expire(at(tt.goes), never); len(c.Removed) != 1 || c.Removed[0].Entry != e {
				t.Fatalf("after %v s: %+v", tt.goes, c)
			}
		})
	}
}

// TestExpireAsks: of many entries, only those that may be due are asked about, and each once per idle timeout.
func TestExpireAsks(t *testing.T) {
	b := newBench(t, pipeline.Limits{})
	const entries = 1000
	for i := range uint16(entries) {
		b.now = at(float64(i) / entries)
		b.must(flow(add, priority(i), timeouts(10, 0)))
		b.must(flow(add, priority(i), table(1), timeouts(0, 3600)))
		b.must(flow(add, priority(i), table(2)))
	}
	asked := 0
	var now time.Time
	for s := range 400 { // 100 s by quarters
		now = at(float64(s) / 4)
		c := b.Expire(now, func(*pipeline.Entry) time.Time { asked++; return now })
		if !c.Empty() {
			t.Fatalf("after %v: %+v", now.Sub(start), c.Removed[0])
		}
	}
	if asked > 10*entries {
		t.Errorf("asked %d times about %d entries in 10 timeouts", asked, entries)
	}
	if c := b.Expire(now.Add(11*time.Second), never); len(c.Removed) != entries {
		t.Errorf("%d of %d expired", len(c.Removed), entries)
	}
}
