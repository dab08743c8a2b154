package start

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

const mss = 1448

// link is a bottleneck with a queue, as far as first flights meet it.
type link struct {
	random *rand.Rand
	rate   float64 // segments per second
	rtt    time.Duration
	queue  int // segments
	burst  bool
	chance float64 // of a segment to be lost by nothing that a window can do about
}

func (k *link) product() int { return int(k.rate * k.rtt.Seconds()) }

// holds is the first flight that the link bears: paced over a round trip, the pipe's content and the queue's; at once, the queue's.
func (k *link) holds() int {
	if k.burst {
		return k.queue
	}
	return k.product() + k.queue
}

// flow sends so many segments, beside others that begin at the same time with the same window, and tells what a trunk's owner sees.
func (k *link) flow(window, segments, flows int) Sample {
	first := min(window, segments)
	lost := max(0, first-k.holds()/flows)
	for i := 0; i < first-lost && k.chance > 0; i++ {
		if k.random.Float64() < k.chance {
			lost++
		}
	}
	s := Sample{MSS: mss, FirstFlights: 1, Sent: first, Retransmits: lost, Window: window}
	s.MinRTT = time.Duration(float64(k.rtt) * (1 + 0.1*k.random.Float64()*k.random.Float64()))
	share := k.rate / float64(flows)
	if full := float64(segments) / k.rtt.Seconds(); full < 3*share {
		s.AppLimited, share = true, min(full, share)
	}
	s.DeliveryRate = int64(share * mss * (0.95 + 0.1*k.random.Float64()))
	return s
}

// run lets flows begin one after the other, and counts those that have lost something.
func (k *link) run(l *Learner, now *time.Time, flights int, size func() int) (lossy int) {
	for range flights {
		s := k.flow(l.Window(*now), size(), 1)
		*now = now.Add(k.rtt)
		l.Observe(*now, s)
		if s.Retransmits > 0 {
			lossy++
		}
	}
	return lossy
}

func long() int { return 1 << 20 }

var epoch = time.Unix(1e9, 0)

func randomLink(random *rand.Rand) *link {
	k := &link{random: random, rtt: time.Duration(5+random.IntN(295)) * time.Millisecond, burst: random.IntN(3) == 0}
	k.rate = (60 + math.Exp(random.Float64()*9)) / k.rtt.Seconds()
	k.queue = max(20, int(float64(k.product())*(0.1+random.Float64())))
	return k
}

// TestConverges: whatever the link, the window comes to what a first flight may be, and then flights lose hardly ever.
func TestConverges(t *testing.T) {
	random := seeded(t)
	for range 60 {
		k, now := randomLink(random), epoch
		l := New(10, 20000)
		k.run(l, &now, 200, long)
		low, high := math.MaxInt, 0
		const flights = 20000
		lossy := 0
		for range flights / 100 {
			lossy += k.run(l, &now, 100, long)
			low, high = min(low, l.Window(now)), max(high, l.Window(now))
		}
		if lossy > flights/1000 {
			t.Errorf("%+v: %d of %d flights have lost", k, lossy, flights)
		}
		want := min(k.product(), k.holds())
		if high > k.product()+k.queue || low < max(10, want/5) || high < want/2 {
			t.Errorf("%+v: the window is %d to %d, the product %d, and a first flight may have %d", k, low, high, k.product(), k.holds())
		}
	}
}

// TestDoesNotOscillate: on a link that bears its product the window stays where the product is.
func TestDoesNotOscillate(t *testing.T) {
	random := seeded(t)
	for range 60 {
		k, now := randomLink(random), epoch
		k.burst = false
		l := New(10, 20000)
		k.run(l, &now, 100, long)
		for range 1000 {
			if lossy := k.run(l, &now, 1, long); lossy > 0 {
				t.Fatalf("%+v: a flight of %d has lost", k, l.Window(now))
			}
			if w := l.Window(now); w < k.product()*9/10 || w > k.product()*12/10 {
				t.Fatalf("%+v: the window is %d, the product %d", k, w, k.product())
			}
		}
	}
}

// TestCapacityDrops: to a tenth, at once.
func TestCapacityDrops(t *testing.T) {
	random := seeded(t)
	for range 200 {
		k, now := randomLink(random), epoch
		l := New(10, 20000)
		k.run(l, &now, 2000, long)
		k.rate /= 10
		k.queue /= 10
		if k.holds() < 20 {
			continue
		}
		before := l.Window(now)
		most := int(math.Ceil(math.Log2(float64(before)/float64(k.holds())))) + repeated
		if lossy := k.run(l, &now, 200, long); lossy > most {
			t.Fatalf("%+v: after the drop %d flights have lost, the window was %d and may be %d", k, lossy, before, k.holds())
		}
		if w := l.Window(now); w > k.product()+k.queue {
			t.Fatalf("%+v: the window is %d, the product %d", k, w, k.product())
		}
	}
}

// TestUnknownWindows: the same when nobody knows what flights began with, and when eight begin together.
func TestUnknownWindows(t *testing.T) {
	random := seeded(t)
	for range 60 {
		k, now := randomLink(random), epoch
		k.burst = false
		if k.product() < 1000 {
			continue
		}
		l := New(10, 20000)
		round := func() (lossy int) {
			window := l.Window(now)
			now = now.Add(k.rtt)
			for range 8 {
				s := k.flow(window, long(), 8)
				if s.Retransmits > 0 {
					lossy++
				}
				s.Window = 0
				l.Observe(now, s)
			}
			return lossy
		}
		for range 100 {
			round()
		}
		if w := l.Window(now); w < k.product()/8/3 || w > k.holds()/8 {
			t.Fatalf("%+v: the window of each of 8 is %d, the product %d", k, w, k.product())
		}
		lossy := 0
		for range 2000 {
			lossy += round()
		}
		if lossy > 8*2000/1000 {
			t.Errorf("%+v: %d of %d flights have lost", k, lossy, 8*2000)
		}
		k.rate, k.queue = k.rate/10, k.queue/10
		for range 40 {
			round()
		}
		if w := l.Window(now); w > max(10, k.holds()/8) {
			t.Fatalf("%+v: after the drop the window is %d and may be %d", k, w, k.holds()/8)
		}
	}
}

// TestChanceLosses: single segments that are lost now and then do not take the window down.
func TestChanceLosses(t *testing.T) {
	random := seeded(t)
	for _, tt := range []struct {
		chance float64
		least  int // of the mean window, where the product is 500
	}{{1e-6, 440}, {1e-5, 440}, {1e-4, 250}, {1e-3, 12}} {
		k, now := &link{random: random, rate: 5000, rtt: 100 * time.Millisecond, queue: 500, chance: tt.chance}, epoch
		l := New(10, 20000)
		sum := 0
		for range 20000 {
			k.run(l, &now, 1, long)
			sum += l.Window(now)
		}
		if mean := sum / 20000; mean < tt.least {
			t.Errorf("with %g of the segments lost the window is %d on average, want %d at least", tt.chance, mean, tt.least)
		}
	}
}

// TestShortFlows: what is not used is not allowed, however long it goes well.
func TestShortFlows(t *testing.T) {
	k, now := &link{random: seeded(t), rate: 50000, rtt: 100 * time.Millisecond, queue: 500}, epoch
	l := New(10, 20000)
	k.run(l, &now, 1000, func() int { return 15 })
	if w := l.Window(now); w > 40 {
		t.Errorf("flows of 15 segments have made the window %d", w)
	}
	k.run(l, &now, 1000, func() int { return 100 })
	if w := l.Window(now); w < 80 || w > 200 {
		t.Errorf("flows of 100 segments have made the window %d", w)
	}
}

// TestObserve: scripts, with an RTT of 100 ms and 1000 bytes a segment; the product is the rate / 10,000.
func TestObserve(t *testing.T) {
	// A step is a sample and the window after it.
	type step struct {
		after time.Duration
		s     Sample
		want  int
	}
	rate := func(segments int64, s Sample) Sample {
		s.DeliveryRate, s.MinRTT, s.MSS = segments*10000, 100*time.Millisecond, 1000
		return s
	}
	clean := func(n int) Sample { return rate(1000, Sample{FirstFlights: 1, Sent: n, Window: n}) }
	lost := func(n int) Sample { return rate(1000, Sample{FirstFlights: 1, Sent: n, Window: n, Retransmits: n / 2}) }
	touched := func(n int) Sample { return rate(1000, Sample{FirstFlights: 1, Sent: n, Window: n, Retransmits: 1}) }
	tests := []struct {
		name  string
		steps []step
	}{
		{"doubles up to the product", []step{
			{0, clean(40), 80}, {1, clean(80), 160}, {1, clean(160), 320}, {1, clean(320), 640}, {1, clean(640), 1000}, {1, clean(1000), 1000},
		}},
		{"no rate, no growth", []step{{0, Sample{FirstFlights: 1, Sent: 40}, 40}, {1, Sample{FirstFlights: 9, Sent: 360, MinRTT: 1}, 40}}},
		{"nothing in it", []step{{0, Sample{}, 40}, {1, Sample{DeliveryRate: 1e9, MSS: 1000}, 40}}},
		{"half of it used", []step{{0, rate(1000, Sample{FirstFlights: 2, Sent: 40}), 80}}},
		{"less used", []step{{0, rate(1000, Sample{FirstFlights: 2, Sent: 38}), 40}}},
		{"begun with less", []step{{0, clean(40), 80}, {1, rate(1000, Sample{FirstFlights: 1, Sent: 40, Window: 40}), 80}}},
		{"a small path", []step{{0, rate(20, Sample{}), 20}, {1, rate(5, Sample{}), 20}, {1, rate(5, Sample{}), 16}}},
		{"a path smaller than the least", []step{{0, rate(5, Sample{}), 10}}},
		{"held flows do not tell of small paths", []step{{0, rate(5, Sample{AppLimited: true}), 40}}},
		{"held flows tell what a path can do at least", []step{{0, rate(60, Sample{AppLimited: true, FirstFlights: 1, Sent: 40}), 60}}},
		{"the most that held flows have shown", []step{
			{0, rate(100, Sample{AppLimited: true, FirstFlights: 1, Sent: 40}), 80}, {1, rate(50, Sample{AppLimited: true}), 80},
			{1, rate(50, Sample{AppLimited: true, FirstFlights: 1, Sent: 80}), 100},
		}},
		{"half of what suddenly looks faster", []step{{0, rate(20, Sample{}), 20}, {1, rate(40, Sample{FirstFlights: 1, Sent: 20}), 30}}},
		{"halves", []step{{0, clean(40), 80}, {1, lost(80), 40}, {1, lost(40), 20}, {1, lost(20), 10}, {1, lost(10), 10}}},
		{"halves once for flights that began alike", []step{{0, clean(40), 80}, {1, lost(80), 40}, {0, lost(80), 40}, {1, lost(80), 40}}},
		{"halves what the flights began with", []step{{0, clean(40), 80}, {1, clean(80), 160}, {1, lost(80), 40}}},
		{"does not halve for older, larger windows", []step{{0, clean(40), 80}, {1, lost(80), 40}, {time.Minute, lost(300), 40}}},
		{"unknown windows halve once in a while", []step{
			{0, rate(1000, Sample{FirstFlights: 1, Sent: 40, Retransmits: 20}), 20},
			{150 * time.Millisecond, rate(1000, Sample{FirstFlights: 1, Sent: 40, Retransmits: 20}), 20},
			{60 * time.Millisecond, rate(1000, Sample{FirstFlights: 1, Sent: 20, Retransmits: 10}), 10},
		}},
		{"stays where it has fallen to", []step{
			{0, lost(40), 20}, {1, clean(20), 20}, {time.Second, clean(20), 20}, {time.Minute, clean(20), 20},
		}},
		{"tries more after a long time", []step{
			{0, lost(40), 20}, {5 * time.Minute, clean(20), 20}, {5 * time.Minute, clean(20), 30}, {1, clean(30), 30},
		}},
		{"older, larger windows do not put it off", []step{
			{0, lost(40), 20}, {5 * time.Minute, lost(300), 20}, {5 * time.Minute, clean(20), 30},
		}},
		{"tries more after many flights", []step{
			{0, lost(40), 20},
			{1, rate(1000, Sample{FirstFlights: 1023, Sent: 1023 * 20, Window: 20}), 20}, {1, clean(20), 30},
			{1, rate(1000, Sample{FirstFlights: 1024, Sent: 1024 * 30, Window: 30}), 45}, // above what was lost at
			{1, rate(1000, Sample{FirstFlights: 1024, Sent: 1024 * 45, Window: 45}), 90}, {1, clean(90), 180},
		}},
		{"waits twice as long after a trial that failed", []step{
			{0, lost(40), 20}, {5 * time.Minute, clean(20), 20}, {5 * time.Minute, clean(20), 30}, {1, lost(30), 15}, {1, clean(15), 20},
			{10 * time.Minute, clean(20), 20}, {10 * time.Minute, clean(20), 30},
		}},
		{"one segment may be chance", []step{
			{0, touched(40), 40}, {1, touched(40), 40}, {1, clean(40), 80}, {1, touched(80), 80}, {1, touched(80), 80}, {1, touched(80), 40},
		}},
		{"forgets without samples", []step{{0, clean(40), 80}, {1, clean(80), 160}, {10*time.Minute + 1, rate(1000, Sample{}), 40}}},
		{"forgets when the path is another", []step{
			{0, clean(40), 80}, {1, Sample{MinRTT: 49 * time.Millisecond}, 40},
			{1, rate(1000, Sample{FirstFlights: 1, Sent: 40, MinRTT: 49 * time.Millisecond}), 80}, {1, Sample{MinRTT: time.Second}, 40},
		}},
		{"the least RTT counts", []step{
			{0, rate(30, Sample{}), 30}, {1, Sample{MinRTT: 60 * time.Millisecond, DeliveryRate: 3e5, MSS: 1000}, 18},
			{6 * time.Minute, Sample{MinRTT: 200 * time.Millisecond, DeliveryRate: 3e5, MSS: 1000}, 18},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, now := New(10, 2000), epoch
			if got := l.Window(now); got != 40 {
				t.Fatalf("the window begins with %d, want 4 times the least", got)
			}
			for i, step := range tt.steps {
				now = now.Add(step.after)
				l.Observe(now, step.s)
				if got := l.Window(now); got != step.want {
					t.Fatalf("step %d: the window is %d, want %d: %+v", i, got, step.want, l)
				}
			}
		})
	}
}

func TestForgetsByItself(t *testing.T) {
	k, now := &link{random: seeded(t), rate: 5000, rtt: 100 * time.Millisecond, queue: 500}, epoch
	l := New(10, 2000)
	k.run(l, &now, 100, long)
	if at, later := l.Window(now.Add(lifetime)), l.Window(now.Add(lifetime+1)); at < 400 || later != 40 {
		t.Errorf("the window is %d after %s without samples and then %d, want what it was and 40", at, lifetime, later)
	}
}

func TestBounds(t *testing.T) {
	for _, tt := range []struct{ least, most, want int }{
		{10, 2000, 40}, {10, 25, 25}, {10, 10, 10}, {10, 0, 10}, {0, 0, 1}, {-5, 3, 3}, {math.MaxInt, math.MaxInt, bound},
	} {
		if got := New(tt.least, tt.most).Window(epoch); got != tt.want {
			t.Errorf("between %d and %d: %d, want %d", tt.least, tt.most, got, tt.want)
		}
	}
}

// FuzzObserve: whatever counters say, the window is between least and most, and a loss never makes it larger.
func FuzzObserve(f *testing.F) {
	f.Add(int64(1e6), false, int64(1e8), 1000, 1, 40, 0, 40, int64(1e8))
	f.Add(int64(1e6), true, int64(1), 1, 5, 1, 400, 0, int64(-1e9))
	f.Add(int64(math.MaxInt64), false, int64(math.MaxInt64), 1, math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, int64(math.MaxInt64))
	f.Add(int64(-1), false, int64(-1), -1, -1, -1, -1, -1, int64(0))
	f.Fuzz(func(t *testing.T, rate int64, limited bool, rtt int64, size, flights, sent, lost, window int, after int64) {
		s := Sample{rate, limited, time.Duration(rtt), size, flights, sent, lost, window}
		l, now := New(10, 2000), epoch
		for range 5 {
			before := l.Window(now)
			l.Observe(now, s)
			w := l.Window(now)
			if w < 10 || w > 2000 || lost > 0 && flights > 0 && w > before {
				t.Fatalf("the window is %d, it was %d", w, before)
			}
			now = now.Add(time.Duration(after))
		}
	})
}
