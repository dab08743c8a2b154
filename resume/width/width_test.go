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
		{"every second, over 100 ms", time.Second, 5, ms(100), rate, 8, 4},
		{"every second, over 200 ms", time.Second, 5, ms(200), rate, 8, 8},
		{"at most", time.Second, 5, ms(200), rate, 3, 3},
		{"only one allowed", time.Second, 5, ms(200), rate, 1, 1},
		{"one break is not many", time.Second, 1, ms(200), rate, 16, 8},
		{"fewer after a life that was not so brief", 2400 * time.Millisecond, 1, ms(200), rate, 8, 4},
		{"even less after a long life", 10 * time.Second, 1, ms(200), rate, 8, 2},
		{"two are not all", time.Second, 1.9, ms(200), rate, 16, 8},
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

// TestBytes: connections that bring less than they could are more, up to a bound.
func TestBytes(t *testing.T) {
	p := width.Path{Life: 1400 * time.Millisecond, Breaks: 5, Trip: 100 * time.Millisecond, Start: 200 * time.Millisecond, Rate: 1e6}
	for _, tt := range []struct {
		bytes float64
		want  int
	}{{0, 3}, {1.3e6, 3}, {0.7e6, 4}, {0.1e6, 4}} {
		if p.Bytes = tt.bytes; p.Lanes(8) != tt.want {
			t.Errorf("connections that bring %v bytes: %d lanes, want %d", tt.bytes, p.Lanes(8), tt.want)
		}
	}
}

// TestAhead: a second connection before anything has broken, where a single break would cost more than half a percent of what is left.
func TestAhead(t *testing.T) {
	const rate = 1.25e6
	for _, tt := range []struct {
		name    string
		trip    time.Duration
		rate    float64
		missing int64
		want    bool
	}{
		{"40 s over 200 ms", 200 * time.Millisecond, rate, 50e6, true},
		{"40 s over 100 ms", 100 * time.Millisecond, rate, 50e6, true},
		{"40 s over 20 ms", 20 * time.Millisecond, rate, 50e6, false},
		{"five minutes over 200 ms", 200 * time.Millisecond, rate, 400e6, false},
		{"4 s over 200 ms", 200 * time.Millisecond, rate, 5e6, false},
		{"no rate", 200 * time.Millisecond, 0, 50e6, false},
		{"no round trip", 0, rate, 50e6, false},
	} {
		p := width.Path{Trip: tt.trip, Start: 2 * tt.trip, Rate: tt.rate}
		if got := p.Ahead(tt.missing); got != tt.want {
			t.Errorf("%s: %v, at %s a break", tt.name, got, p.Cost())
		}
	}
}

// TestHold: connections together have slightly more in flight than the path holds; one with little gets what it can grow to, and the others
// have equal parts of the rest.
func TestHold(t *testing.T) {
	long := width.Path{Life: 30 * time.Second, Breaks: 5, Trip: 200 * time.Millisecond, Start: 400 * time.Millisecond, Rate: 1e6} // it holds 200,000 bytes
	changed := func(change func(p *width.Path)) width.Path {
		p := long
		change(&p)
		return p
	}
	const k = 1000
	many := make([]int64, 12)
	for i := range many {
		many[i] = 100 * k
	}
	for _, tt := range []struct {
		name              string
		p                 width.Path
		flights           []int64
		starting, running int64
	}{
		{"none", long, nil, 0, 0},
		{"one", long, []int64{200 * k}, 0, 0},
		{"two that are fast", long, []int64{150 * k, 150 * k}, 160 * k, 160 * k},
		{"one that is fast, and one that is opened", long, []int64{200 * k, 0}, 160 * k, 210*k - 14480},
		{"the same, later", long, []int64{150 * k, 40 * k}, 160 * k, 210*k - 80*k - 14480},
		{"the same, when it could be as fast", long, []int64{120 * k, 45 * k}, 160 * k, 210*k - 90*k - 14480},
		{"one that is out of its slow start, and thin", long, []int64{200 * k, 55 * k}, 160 * k, 320*k - 110*k - 14480},
		{"two that are opened", long, []int64{0, 0}, 160 * k, 210*k - 2*14480},
		{"many", long, many, 28960, 28960},
		{"lives that are brief, and few", changed(func(p *width.Path) { p.Life, p.Breaks = time.Second, 2 }), many, 0, 0},
		{"lives that are brief", changed(func(p *width.Path) { p.Life, p.Breaks = time.Second, 5 }), many[:5], 50 * k, 50 * k},
		{"next door", changed(func(p *width.Path) { p.Trip = time.Millisecond }), many, 0, 0},
	} {
		if starting, running := tt.p.Hold(tt.flights); starting != tt.starting || running != tt.running {
			t.Errorf("%s: %d, %d; want %d, %d", tt.name, starting, running, tt.starting, tt.running)
		}
	}
}

// TestFlight: what came in the last round trips, the most of three; and another connection begins anew.
func TestFlight(t *testing.T) {
	now, trip := time.Unix(1000, 0), 200*time.Millisecond
	var f width.Flight
	brought := f.Saw(now, trip, 0)
	for i, came := range []int64{10, 20, 40, 0, 0, 0, 0, 30} { // each in four parts
		for range 4 {
			brought += came / 4
			now = now.Add(trip / 4)
			f.Saw(now, trip, brought)
		}
		want := []int64{8, 20, 40, 40, 0, 0, 0, 28}[i]
		if got := f.Saw(now, trip, brought); got != want {
			t.Errorf("after %d round trips: %d, want %d", i+1, got, want)
		}
	}
	if got := f.Saw(now, trip, 7); got != 7 {
		t.Errorf("another connection: %d, want 7", got)
	}
}

func TestTrips(t *testing.T) {
	var l width.Trips
	for _, step := range []struct{ saw, want time.Duration }{{0, 0}, {9, 9}, {0, 9}, {5, 5}, {7, 5}, {8, 5}, {8, 5}, {8, 5}, {8, 5}, {8, 5}, {8, 5}, {8, 7}, {8, 8}} {
		if l.Saw(step.saw); l.Least() != step.want {
			t.Fatalf("after %d: %d, want %d", step.saw, l.Least(), step.want)
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
	for id := range 40 {
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
	if life, _, _ := l.Average(now.Add(time.Minute)); life < before+5*time.Second {
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
	come(0, 10)
	come(200_000, 10)
	come(50_000, 10)
	if best := r.Best(); best > 1.2e6 {
		t.Errorf("with bytes that had to wait: %v", best)
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
