package load

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestArrivals(t *testing.T) {
	// One request is due every 10 ms from 10 ms on, before 55 ms, and waits for 20 ms at most.
	type step struct {
		now  time.Duration
		free bool
		due  time.Duration // 0: none
	}
	tests := []struct {
		name         string
		left         int64
		steps        []step
		late, missed int64
		over         bool
	}{
		{"on time", 100, []step{{9 * ms, true, 0}, {10 * ms, true, 10 * ms}, {10 * ms, true, 0}, {20 * ms, true, 20 * ms}}, 0, 0, false},
		{"begun late, due when they were due", 100,
			[]step{{35 * ms, true, 20 * ms}, {35 * ms, true, 30 * ms}, {35 * ms, true, 0}}, 2, 1, false},
		{"a millisecond is not late", 100, []step{{11 * ms, true, 10 * ms}}, 0, 0, false},
		{"no connection is free, then one is", 100,
			[]step{{10 * ms, false, 0}, {25 * ms, false, 0}, {29 * ms, true, 10 * ms}, {29 * ms, true, 20 * ms}}, 2, 0, false},
		{"none is free for long", 100, []step{{60 * ms, false, 0}, {75 * ms, false, 0}}, 0, 5, true},
		{"not even when one is free at last", 100, []step{{45 * ms, true, 30 * ms}}, 1, 2, false},
		{"nothing is due from the end on", 100, []step{{54 * ms, true, 40 * ms}, {54 * ms, true, 50 * ms}, {80 * ms, true, 0}}, 2, 3, true},
		{"only so many", 2, []step{{50 * ms, true, 0}}, 0, 2, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &arrivals{gap: gap{10 * ms, true, nil}, next: 10 * ms, left: tt.left, until: 55 * ms, patience: 20 * ms}
			var now time.Duration
			for _, s := range tt.steps {
				now = s.now
				if due, ok := a.take(s.now, s.free); ok != (s.due > 0) || due != s.due {
					t.Errorf("at %v: a request due at %v (%v), want %v", s.now, due, ok, s.due)
				}
			}
			if a.late != tt.late || a.missed != tt.missed || a.over(now) != tt.over {
				t.Errorf("%d late, %d missed, over %v; want %d, %d, %v", a.late, a.missed, a.over(now), tt.late, tt.missed, tt.over)
			}
		})
	}
}

// TestArrivalsAreAllAccountedFor: whatever the servers and the clock do, each request that became due was taken or
// missed, and none is waited for when all is over.
func TestArrivalsAreAllAccountedFor(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		schedule := func() *arrivals {
			return &arrivals{gap: gap{ms, seed%2 == 0, rand.New(rand.NewPCG(seed, 1))}, left: 1 << 40, until: 500 * ms, patience: 30 * ms}
		}
		due := int64(0)
		for a := schedule(); a.next < a.until; a.next += a.draw() {
			due++
		}
		a, taken := schedule(), int64(0)
		for now := time.Duration(0); !a.over(now); now += time.Duration(r.Int64N(int64(10 * ms))) {
			for range r.IntN(12) {
				at, ok := a.take(now, true)
				if !ok {
					break
				}
				taken++
				if waited := now - at; waited < 0 || waited > a.patience {
					t.Fatalf("seed %d: begun %v after it was due", seed, waited)
				}
			}
			a.take(now, false)
			if w := a.wake(); w > a.until && w != never {
				t.Fatalf("seed %d: would wake at %v", seed, w)
			}
		}
		if taken+a.missed != due {
			t.Errorf("seed %d: %d taken and %d missed of %d", seed, taken, a.missed, due)
		}
	}
}

func TestGaps(t *testing.T) {
	const n = 100_000
	g := gap{10 * ms, false, rand.New(rand.NewPCG(1, 2))}
	sum, squares := 0.0, 0.0
	for range n {
		x := float64(g.draw()) / float64(g.mean)
		sum += x
		squares += x * x
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean-1) > 0.02 || math.Abs(deviation-1) > 0.02 { // both are 1 of an exponential distribution
		t.Errorf("mean %.3f, standard deviation %.3f of the mean asked for; want 1 and 1", mean, deviation)
	}
	if g.even = true; g.draw() != g.mean {
		t.Error("even gaps differ")
	}
}

func TestPausesWakeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var p pauses
	slots := make([]slot, 100)
	for i := range slots {
		slots[i].wake = time.Duration(r.Int64N(1000))
		heap.Push(&p, &slots[i])
	}
	last := time.Duration(0)
	for p.Len() > 0 {
		front := p.wake()
		if s := heap.Pop(&p).(*slot); s.wake != front || s.wake < last {
			t.Fatalf("%v woke after %v", s.wake, last)
		}
		last = front
	}
	if p.wake() != never {
		t.Error("no pause, and yet a time to wake")
	}
}
