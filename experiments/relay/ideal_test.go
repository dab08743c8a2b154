package relay

import (
	"testing"
	"time"
)

func TestRoute(t *testing.T) {
	w := twoRelays(100e6)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	tests := []struct {
		name      string
		got, want float64
	}{
		{"round trip", ms(w.rtt()), 265},
		{"public round trip", ms(w.public.rtt), 265},
		{"first byte", ms(w.firstByte()), 290},
		{"pipe of nothing", ms(w.pipe(0)), 265},
		{"pipe of 1 MiB", ms(w.pipe(1 << 20)), 265 + 83.886},
		{"ten segments in a flight", ms(leg{rtt: 25 * time.Millisecond, rate: 1e9}.slowStart(10 * segment)), 0.121},
		{"one more in a second", ms(leg{rtt: 25 * time.Millisecond, rate: 1e9}.slowStart(10*segment + 1)), 25.012},
		{"30 in two", ms(leg{rtt: 25 * time.Millisecond, rate: 1e9}.slowStart(30 * segment)), 25.242},
		{"a slow leg is full at once", ms(leg{rtt: 25 * time.Millisecond, rate: 1e6}.slowStart(100 * segment)), 1211.2},
	}
	for _, tt := range tests {
		if tt.got < tt.want-0.01 || tt.got > tt.want+0.01 {
			t.Errorf("%s: %.3f ms, want %.3f", tt.name, tt.got, tt.want)
		}
	}
	for size := int64(1); size <= 100<<20; size *= 7 {
		if w.reachable(size) < w.firstByte() || w.reachable(size) < w.pipe(size) {
			t.Errorf("%d bytes can be had in %v, before the pipe's %v", size, w.reachable(size), w.pipe(size))
		}
	}
}

// TestPlaces: wherever relays stand, the path is as long, and its cloud loses as much.
func TestPlaces(t *testing.T) {
	two := twoRelays(fastAccess * 1e6)
	for _, p := range places {
		w := p.route()
		if w.rtt() != two.rtt() {
			t.Errorf("%s: %v, want %v", p.name, w.rtt(), two.rtt())
		}
		if got := float64(w.legs[1].loss + w.legs[2].loss); got < cloudLoss*0.999 || got > cloudLoss*1.001 {
			t.Errorf("%s: the cloud loses %v, want %v", p.name, got, cloudLoss)
		}
	}
	if got := places[5].predicted(); got != 2 {
		t.Errorf("a third relay in the middle: %v times sooner, want 2", got)
	}
}

func TestJain(t *testing.T) {
	for _, tt := range []struct{ a, b, want float64 }{{1, 1, 1}, {5, 0, 0.5}, {0, 0, 1}, {3, 1, 0.8}} {
		if got := jain(tt.a, tt.b); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("%v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
