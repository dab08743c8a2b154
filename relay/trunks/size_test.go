package trunks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

const epoch = time.Hour

// pool is a worker's trunks to a peer, as events in time: what its sizer says is done.
type pool struct {
	random  *rand.Rand
	sizer   *Sizer
	now     time.Duration
	ready   int
	opening []time.Duration // when they will be ready, or fail
	setup   time.Duration

	rate  float64 // flows per second
	burst float64 // flows that come at once, on average
	next  time.Duration

	answer func() bool     // whether the peer takes a trunk; nil: always
	hold   time.Duration   // how long a ready one lives; 0: for ever
	lives  []time.Duration // when ready ones end, with hold

	began, missed, begun int
	most                 int // set-ups at once
}

func (p *pool) open() {
	n := p.sizer.Open(p.now, p.ready, len(p.opening))
	for range n {
		p.begun++
		p.opening = append(p.opening, p.now+time.Duration(float64(p.setup)*(0.9+0.2*p.random.Float64())))
	}
	slices.Sort(p.opening)
	p.most = max(p.most, len(p.opening))
}

func (p *pool) flow() {
	flows := 1
	for p.burst > 1 && p.random.Float64() > 1/p.burst {
		flows++
	}
	for range flows {
		p.began++
		if p.ready > 0 {
			p.ready--
		} else {
			p.missed++
		}
		p.sizer.Took(p.now)
		p.open()
	}
	p.next = p.now + time.Duration(p.random.ExpFloat64()*p.burst/p.rate*1e9)
}

func (p *pool) opened() {
	took := p.opening[0]
	p.opening = p.opening[1:]
	switch {
	case p.answer != nil && !p.answer():
		p.sizer.Failed(p.now)
	case p.hold > 0:
		p.sizer.Opened(p.now, p.now-took+p.setup)
		p.ready++
		p.lives = append(p.lives, p.now+p.hold)
	default:
		p.sizer.Opened(p.now, p.now-took+p.setup)
		p.ready++
	}
	p.open()
}

// run lets time pass and returns the share of flows that have found no trunk.
func (p *pool) run(length time.Duration) float64 {
	p.began, p.missed, p.begun, p.most = 0, 0, 0, 0
	tick, end := p.now, p.now+length
	if p.next < p.now {
		p.next = p.now
	}
	for {
		at := tick
		if p.rate > 0 && p.next < at {
			at = p.next
		}
		if len(p.opening) > 0 && p.opening[0] < at {
			at = p.opening[0]
		}
		if len(p.lives) > 0 && p.lives[0] < at {
			at = p.lives[0]
		}
		if at > end {
			p.now = end
			return float64(p.missed) / float64(max(1, p.began))
		}
		p.now = at
		switch {
		case len(p.lives) > 0 && p.lives[0] == at:
			p.lives = p.lives[1:]
			p.ready--
			p.sizer.Lost(at, p.hold)
			p.open()
		case len(p.opening) > 0 && p.opening[0] == at:
			p.opened()
		case p.rate > 0 && p.next == at:
			p.flow()
		default:
			p.ready -= p.sizer.Close(at, p.ready)
			p.open()
			tick = at + 100*time.Millisecond
		}
	}
}

func newPool(random *rand.Rand, setup time.Duration) *pool {
	return &pool{random: random, sizer: NewSizer(4, 256, 100*time.Millisecond, random.Float64), now: epoch, setup: setup, burst: 1}
}

// TestFlowsFindTrunks: Poisson arrivals, and such of bursts; after a warm-up the rate doubles. Less than one flow in a hundred finds no
// trunk, also in the first moments of the double rate.
func TestFlowsFindTrunks(t *testing.T) {
	random := seeded(t)
	for _, burst := range []float64{1, 4} {
		var steady, first, doubled tally
		for _, setup := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 450 * time.Millisecond} {
			for _, mean := range []float64{0.5, 1, 5, 30} { // arrivals within a set-up time
				flows := func(n float64) time.Duration { return time.Duration(n / mean * float64(setup)) }
				for range 2 {
					p := newPool(random, setup)
					p.burst, p.rate = burst, mean/setup.Seconds()
					p.run(max(20*time.Second, flows(400)))
					steady.add(p, flows(1000))
					p.rate *= 2
					first.add(p, 5*setup+flows(100))
					doubled.add(p, flows(1000))
					if most := 60 + int(6*2*mean+20*burst); p.ready > most {
						t.Errorf("%g within %s, bursts of %g: %d trunks are ready, want at most %d", mean, setup, burst, p.ready, most)
					}
				}
			}
		}
		t.Logf("bursts of %g: %s find no trunk; when the rate doubles, %s at first, %s then", burst, steady, first, doubled)
		if steady.share() > 0.01 || first.share() > 0.01 || doubled.share() > 0.01 {
			t.Error("this is more than one in a hundred")
		}
	}
}

// tally is flows, and those that have found no trunk.
type tally struct{ flows, missed int }

func (y *tally) add(p *pool, length time.Duration) {
	p.run(length)
	y.flows, y.missed = y.flows+p.began, y.missed+p.missed
}

func (y tally) share() float64 { return float64(y.missed) / float64(max(1, y.flows)) }

func (y tally) String() string { return fmt.Sprintf("%d of %d", y.missed, y.flows) }

// TestShrinks: slowly, and to the least.
func TestShrinks(t *testing.T) {
	p := newPool(seeded(t), 100*time.Millisecond)
	p.rate = 300
	p.run(time.Minute)
	busy := p.ready
	p.rate = 0
	p.run(peakLife - 10*time.Second)
	if p.ready < busy*9/10 {
		t.Errorf("%d trunks are ready minutes after the last flow, there were %d", p.ready, busy)
	}
	for p.ready > 4 && p.now-epoch < time.Hour {
		before := p.ready
		p.run(time.Second)
		if p.ready < before-before/20-1 || p.begun > 0 {
			t.Fatalf("%d trunks are ready, %d a second before; %d were opened", p.ready, before, p.begun)
		}
	}
	if took := p.now - epoch; p.ready != 4 || took > 20*time.Minute {
		t.Errorf("%d trunks are ready after %s, want the least, 4", p.ready, took)
	}
}

// TestOldPeaks: what was taken counts for five minutes at least and ten at most.
func TestOldPeaks(t *testing.T) {
	p := peak{}
	steps := []struct {
		at        time.Duration
		add, want int
	}{
		{0, 10, 10}, {4 * time.Minute, 3, 10}, {5 * time.Minute, 4, 10}, {9 * time.Minute, 2, 10}, {10 * time.Minute, 1, 4},
		{14 * time.Minute, 2, 4}, {15 * time.Minute, 1, 2}, {25 * time.Minute, 1, 1}, {40 * time.Minute, 0, 0},
	}
	for _, s := range steps {
		p.add(epoch+s.at, s.add)
		if got := p.most(epoch + s.at); got != s.want {
			t.Errorf("after %s the most is %d, want %d", s.at, got, s.want)
		}
	}
}

// TestSetUpTakesLonger: the pool follows, without more flows.
func TestSetUpTakesLonger(t *testing.T) {
	p := newPool(seeded(t), 20*time.Millisecond)
	p.rate = 200
	p.run(time.Minute)
	before := p.ready
	p.setup *= 10
	p.run(5 * time.Second)
	if missed := p.run(20 * time.Second); missed > 0.01 || p.ready < before*4/3 {
		t.Errorf("%.2f %% of the flows find no trunk when a set-up takes ten times as long; %d are ready, %d before", 100*missed, p.ready, before)
	}
}

// TestPeerIsDown: it is asked by all set-ups that may be under way once, then hardly ever, and comes back at once.
func TestPeerIsDown(t *testing.T) {
	random := seeded(t)
	for _, tt := range []struct {
		name string
		down func(p *pool)
	}{
		{"refuses", func(p *pool) { p.answer = func() bool { return false } }},
		{"closes at once", func(p *pool) { p.hold = time.Millisecond }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(random, 20*time.Millisecond)
			p.rate = 2000
			p.run(time.Minute)
			if missed := p.run(10 * time.Second); missed > 0.01 {
				t.Fatalf("%.1f %% of the flows find no trunk before anything is down", 100*missed)
			}
			tt.down(p)
			for second := range 60 {
				p.run(time.Second)
				if most := max(6, 160>>second); p.begun > most || p.most > 128 { // at first what is under way
					t.Fatalf("in second %d %d trunks were begun, want at most %d; %d at once", second, p.begun, most, p.most)
				}
			}
			if p.ready > 0 {
				t.Errorf("%d trunks are ready", p.ready)
			}
			p.answer, p.hold = nil, 0
			p.run(lastPause + 2*time.Second)
			if missed := p.run(10 * time.Second); missed > 0.01 {
				t.Errorf("%.1f %% of the flows find no trunk when the peer is back", 100*missed)
			}
		})
	}
}

// TestPeerRefusesSome: trunks are opened nevertheless, but not in a storm.
func TestPeerRefusesSome(t *testing.T) {
	random := seeded(t)
	for _, tt := range []struct{ refused, found float64 }{{0.02, 0.95}, {0.5, 0.05}} {
		p := newPool(random, 20*time.Millisecond)
		p.rate = 10
		p.answer = func() bool { return random.Float64() >= tt.refused }
		p.run(time.Minute)
		missed := p.run(3 * time.Minute)
		if most := p.began * 3 / 2; p.begun > most || 1-missed < tt.found {
			t.Errorf("%g refused: %d trunks were begun for %d flows, of which %.0f %% found none", tt.refused, p.begun, p.began, 100*missed)
		}
	}
}

func TestPauses(t *testing.T) {
	draw := 0.0
	s := NewSizer(4, 256, 0, func() float64 { return draw })
	now := epoch
	for i, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		s.Failed(now)
		if got := s.Retry() - now; got != want*time.Millisecond {
			t.Errorf("pause %d is %s, want %s", i, got, want*time.Millisecond)
		}
		if n := s.Open(s.Retry()-1, 0, 0); n != 0 {
			t.Errorf("%d are opened in a pause", n)
		}
		s.Failed(s.Retry() - 1) // is of the same failure
		now = s.Retry()
		if n := s.Open(now, 0, 0); n != 1 {
			t.Errorf("%d are opened after a pause, want 1", n)
		}
	}
	draw = 0.999
	if s.Failed(now); s.Retry()-now < 9*time.Second {
		t.Errorf("the longest pause is %s, want up to 10 s", s.Retry()-now)
	}
}

func TestFewFlows(t *testing.T) {
	s := NewSizer(0, 256, 100*time.Millisecond, func() float64 { return 0 })
	for i, want := range []int{4, 5, 7} { // 1.5 × flows within a set-up time, and 2
		s.Took(epoch + time.Duration(i)*time.Millisecond)
		if got := s.Want(epoch + time.Duration(i)*time.Millisecond); got != want {
			t.Errorf("%d are wanted after %d flows, want %d", got, i+1, want)
		}
	}
}

// TestSameInstant: flows that come at one time are a burst, also where a set-up takes no time that the clock shows.
func TestSameInstant(t *testing.T) {
	s := NewSizer(0, 256, 0, func() float64 { return 0 })
	for range 10 {
		s.Took(epoch)
		s.Opened(epoch, 0)
	}
	if got := s.Want(epoch); got != 17 {
		t.Errorf("%d are wanted after 10 flows at once, want 17", got)
	}
}

func TestAtOnce(t *testing.T) {
	s := NewSizer(100, 100, 0, func() float64 { return 0 })
	now := epoch
	if n := s.Open(now, 0, 0); n != 50 {
		t.Errorf("%d are opened, want half of 100", n)
	}
	if n := s.Open(now, 0, 50) + s.Open(now, 50, 49) + s.Open(now, 200, 0); n != 1 {
		t.Errorf("%d are opened, want the 1 that is missing in the second case", n)
	}
	s.Failed(now)
	now = s.Retry()
	for _, want := range []int{1, 2, 3, 4} {
		if n := s.Open(now, 0, 0); n != want {
			t.Errorf("%d are opened, want %d", n, want)
		}
		s.Opened(now, time.Millisecond)
	}
	s.Lost(now, shortLife)
	if n := s.Open(now, 0, 0); n != 5 {
		t.Errorf("%d are opened after the loss of a trunk that was ready for long, want 5", n)
	}
	if n := s.Close(now, 130); n != 30 {
		t.Errorf("%d of 130 are closed, want 30", n)
	}
}

// TestWantIsBounded: also for arrivals and set-up times beyond measure.
func TestWantIsBounded(t *testing.T) {
	random := seeded(t)
	for _, tt := range []struct{ least, most, low, high int }{
		{4, 256, 4, 256}, {0, 1, 0, 1}, {-3, -3, 0, 1}, {9, 3, 3, 3}, {0, 1 << 40, 0, mostReady},
	} {
		s, now := NewSizer(tt.least, tt.most, time.Hour, random.Float64), epoch
		if got := s.Want(now); got != tt.low {
			t.Errorf("between %d and %d: %d are wanted at first, want %d", tt.least, tt.most, got, tt.low)
		}
		for range 5000 {
			s.Took(now)
			if random.IntN(10) == 0 {
				now += time.Duration(random.Int64N(int64(time.Hour)))
			}
			s.Opened(now, time.Duration(random.Int64N(1<<62)))
			if got := s.Want(now); got < tt.low || got > tt.high {
				t.Fatalf("between %d and %d: %d are wanted", tt.least, tt.most, got)
			}
		}
	}
}

// TestTakes: the ring against a slice of all times.
func TestTakes(t *testing.T) {
	random := seeded(t)
	for range 100 {
		ring := takes{at: make([]time.Duration, 1+random.IntN(20))}
		var all []time.Duration
		now := epoch
		for range 60 {
			now += time.Duration(random.IntN(3))
			ring.add(now)
			all = append(all, now)
			after := now - time.Duration(random.IntN(20))
			want := 0
			for _, at := range all {
				if at > after {
					want++
				}
			}
			if got := ring.since(after); got != min(want, len(ring.at)) {
				t.Fatalf("%d of %d since %s, want %d", got, len(all), now-after, want)
			}
		}
	}
}
