package width_test

import (
	"testing"
	"time"

	"baton/resume/width"
)

// TestLanes has the paths of figure 5 of the paper: 10 Mbit/s.
func TestLanes(t *testing.T) {
	const rate = 1.25e6
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	tests := []struct {
		name   string
		life   time.Duration
		breaks float64
		trip   time.Duration
		rate   float64
		most   int
		want   int
	}{
		{"no break", 0, 0, ms(200), rate, 8, 1},
		{"nothing measured", time.Second, 5, ms(200), 0, 8, 1},
		{"every 30 s, next door", 30 * time.Second, 5, ms(1), rate, 8, 1},
		{"every 30 s, over 20 ms", 30 * time.Second, 5, ms(20), rate, 8, 1},
		{"every 30 s, over 200 ms", 30 * time.Second, 5, ms(200), rate, 8, 2},
		{"every 10 s, over 100 ms", 10 * time.Second, 5, ms(100), rate, 8, 2},
		{"every second, next door", time.Second, 5, ms(1), rate, 8, 1},
		{"every second, over 20 ms", time.Second, 5, ms(20), rate, 8, 2},
		{"every second, over 100 ms", time.Second, 5, ms(100), rate, 8, 3},
		{"every second, over 200 ms", time.Second, 5, ms(200), rate, 8, 8},
		{"at most", time.Second, 5, ms(200), rate, 3, 3},
		{"only one allowed", time.Second, 5, ms(200), rate, 1, 1},
		{"one break is not many", time.Second, 1, ms(200), rate, 8, 2},
		{"dead before its first byte", ms(100), 5, ms(200), rate, 8, 8},
		{"a fast path", time.Second, 5, ms(100), 125e6, 8, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := width.Path{Life: tt.life, Breaks: tt.breaks, Trip: tt.trip, Start: 2 * tt.trip, Rate: tt.rate}
			if got := p.Lanes(tt.most); got != tt.want {
				t.Errorf("%d lanes, want %d", got, tt.want)
			}
		})
	}
}

// TestBytes: connections that bring less than they could are more, up to three times as many.
func TestBytes(t *testing.T) {
	p := width.Path{Life: 1400 * time.Millisecond, Breaks: 5, Trip: 100 * time.Millisecond, Start: 200 * time.Millisecond, Rate: 1e6}
	for _, tt := range []struct {
		bytes float64
		want  int
	}{{0, 2}, {1.3e6, 2}, {0.7e6, 3}, {0.1e6, 6}} {
		if p.Bytes = tt.bytes; p.Lanes(8) != tt.want {
			t.Errorf("connections that bring %v bytes: %d lanes, want %d", tt.bytes, p.Lanes(8), tt.want)
		}
	}
}

func TestLives(t *testing.T) {
	now := time.Unix(1000, 0)
	var l width.Lives
	l.Opened(now, 1)
	now = now.Add(time.Minute)
	if life, breaks, _ := l.Average(now); life != 0 || breaks != 0 {
		t.Errorf("without a break: %s of %v", life, breaks)
	}
	l.Ended(now, 1, false, 0)
	for id := range 20 {
		l.Opened(now, id)
		now = now.Add(2 * time.Second)
		l.Ended(now, id, true, 1000)
	}
	if life, breaks, bytes := l.Average(now); life < 2*time.Second || life > 3*time.Second || breaks < 5 || bytes < 999 || bytes > 1001 {
		t.Errorf("a break every 2 s, and long ago a minute without: %s of %v breaks, %v bytes", life, breaks, bytes)
	}
	l.Ended(now, 99, true, 5) // never opened
	l.Opened(now, 1)
	l.Opened(now, 2)
	before, _, _ := l.Average(now)
	if life, _, _ := l.Average(now.Add(time.Minute)); life < before+10*time.Second {
		t.Errorf("two minutes without a break: %s, before %s", life, before)
	}
	if life, _, _ := l.Average(now.Add(-time.Hour)); life != before {
		t.Errorf("a clock that has gone back: %s, before %s", life, before)
	}
}

func TestRates(t *testing.T) {
	now := time.Unix(1000, 0)
	var r width.Rates
	come := func(bytes int64, times int) {
		for range times {
			now = now.Add(50 * time.Millisecond)
			r.Came(now, bytes)
		}
	}
	come(50_000, 40)
	if best := r.Best(); best < 0.9e6 || best > 1.2e6 {
		t.Errorf("a megabyte a second: %v", best)
	}
	come(5_000, 40)
	if best := r.Best(); best < 0.9e6 {
		t.Errorf("the best of late: %v", best)
	}
	come(5_000, 400)
	if best := r.Best(); best > 0.2e6 {
		t.Errorf("long after: %v", best)
	}
	now = now.Add(-time.Hour)
	come(5_000, 20)
	if best := r.Best(); best > 0.2e6 {
		t.Errorf("with a clock that went back: %v", best)
	}
}
