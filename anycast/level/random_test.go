package level

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// history is what routers have seen of a site: it counts penalties from the beginning at each look, as no router would.
type history []struct {
	at   time.Duration
	cost float64
}

func (h history) penalty(at, halfLife time.Duration) (sum float64) {
	for _, e := range h {
		sum += e.cost * math.Exp2(-float64(at-e.at)/float64(halfLife))
	}
	return sum
}

// TestRandom holds what must be so whatever comes; instructions are left out, as an operator may override everything.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	changes, held := 0, 0
	for range 60 {
		r := rules()
		r.Dwell = time.Duration(random.IntN(300)+1) * time.Second
		r.Flaps.Suppress = []float64{2000, 3000, 6000}[random.IntN(3)]
		r.Flaps.Share = 1 - WithdrawPenalty/r.Flaps.Suppress
		m := New(r)
		in := up()
		in.Planned = random.IntN(2) == 0
		var seen history
		resort := false
		changed := -time.Hour
		for at := time.Duration(0); at < 6*time.Hour; at += time.Duration(random.IntN(20)+1) * time.Second {
			vary(random, &in)
			before := m.Level()
			d := m.Step(at, in)
			if d.Changed {
				changes++
				seen = append(seen, struct {
					at   time.Duration
					cost float64
				}{at, costOf(&r, before, d.Level)})
			}
			if d.Held != "" {
				held++
			}
			penalty := seen.penalty(at, r.Flaps.HalfLife)
			dead, alone := in.Health == Down, in.Others && in.Alive == 0
			switch {
			case math.Abs(penalty-d.Penalty) > 1e-6*max(1, penalty):
				t.Fatalf("seed %d: penalty %v, the routers count %v", seed, d.Penalty, penalty)
			case d.Changed && before != r.Withdrawn() && d.Level != r.Withdrawn() && !dead && penalty > r.Flaps.Share*r.Flaps.Suppress+1e-6:
				t.Fatalf("seed %d: at %v the penalty of a chosen change is %v", seed, at, penalty)
			case dead && !alone && !resort && d.Level != r.Withdrawn():
				t.Fatalf("seed %d: at %v the site is dead, others are up, and it announces", seed, at)
			case dead && alone && d.Level != r.Drain():
				t.Fatalf("seed %d: at %v the last site, dead, is at level %d", seed, at, d.Level)
			case !dead && d.Changed && d.Level == r.Withdrawn():
				t.Fatalf("seed %d: at %v a healthy site is withdrawn", seed, at)
			case d.Changed && !dead && at-changed < r.Dwell && !(before == r.Withdrawn() && in.Alive == 0):
				t.Fatalf("seed %d: at %v a change after %v", seed, at, at-changed)
			case !dead && in.Planned && in.Proposal < 0 && d.Want != 0:
				t.Fatalf("seed %d: at %v nobody proposes a level, and the site wants level %d", seed, at, d.Want)
			}
			resort = dead && d.Level == r.Drain()
			if d.Changed {
				changed = at
			}
		}
	}
	if changes < 500 || held < 500 {
		t.Errorf("%d changes, held %d times: the inputs are badly chosen", changes, held)
	}
}

func costOf(r *Rules, from, to int) float64 {
	switch {
	case from == r.Withdrawn():
		return 0
	case to == r.Withdrawn():
		return 1000
	}
	return 500
}

// vary changes something now and then; deaths are rare, as of real sites.
func vary(random *rand.Rand, in *Input) {
	in.Load = max(-1, in.Load+random.NormFloat64()*0.2)
	if in.Load > 2 {
		in.Load = 0.5
	}
	switch random.IntN(120) {
	case 0:
		in.Health = Down
	case 1, 2, 3, 4, 5:
		in.Health = Up
	case 6, 7:
		in.Alive = random.IntN(3)
	case 8:
		in.Headroom = !in.Headroom
	case 9, 10, 11:
		in.Proposal = random.IntN(8) - 1
	case 12:
		in.Load = -1
	}
}

// TestOscillation has the load swing as much as a site that sheds all of it and gets all of it back, at every pace: the level must not
// follow it.
func TestOscillation(t *testing.T) {
	for _, period := range []time.Duration{time.Second, 7 * time.Second, time.Minute, 4 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour} {
		r := rules()
		m := New(r)
		in := up()
		const day = 24 * time.Hour
		changes, worst := 0, 0.0
		for at := time.Duration(0); at < day; at += time.Second {
			in.Load = 0.85 + 0.7*math.Sin(2*math.Pi*float64(at)/float64(period))
			d := m.Step(at, in)
			worst = max(worst, d.Penalty)
			if d.Changed {
				changes++
			}
		}
		// In the long run a change costs 500, and the budget of 1000 refills by half in each half-life.
		most := int(1000/500) + int(day/r.Flaps.HalfLife)*2
		if worst > 1000 || changes > most {
			t.Errorf("period %v: %d changes in a day (at most %d), penalty up to %.0f (at most 1000)", period, changes, most, worst)
		}
	}
}

// TestLoneSiteDoesNotFlap has the service of a site that knows of no others die and come back at every pace.
func TestLoneSiteDoesNotFlap(t *testing.T) {
	for _, period := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 10 * time.Minute} {
		r := rules()
		m := New(r)
		in := up()
		in.Others, in.Alive = false, 0
		withdrawals, worst := 0, 0.0
		const day = 24 * time.Hour
		for at := time.Duration(0); at < day; at += time.Second {
			in.Health = Up
			if at%period >= period/2 {
				in.Health = Down
			}
			d := m.Step(at, in)
			worst = max(worst, d.Penalty)
			if d.Changed && d.Level == r.Withdrawn() {
				withdrawals++
			}
		}
		if most := 2 + int(day/r.Flaps.HalfLife); worst > r.Flaps.Suppress || withdrawals > most {
			t.Errorf("period %v: %d withdrawals in a day (at most %d), penalty up to %.0f (at most %.0f)", period, withdrawals, most, worst, r.Flaps.Suppress)
		}
	}
}

// TestNoFlapAtASteadyLoad has two sites whose clients follow the levels: a site that sheds must come to rest.
func TestNoFlapAtASteadyLoad(t *testing.T) {
	r := rules()
	r.Flaps = Flaps{} // the hysteresis alone
	// What a site has of its clients at each level.
	share := []float64{1, 0.85, 0.6, 0.4, 0}
	for _, demand := range []float64{0.5, 0.9, 1, 1.1, 1.3, 1.6, 1.9} {
		a, b := New(r), New(r)
		changes := 0
		for at := time.Duration(0); at < 24*time.Hour; at += 10 * time.Second {
			la, lb := a.Level(), b.Level()
			loadA, loadB := 0.0, 0.0
			if la <= r.Drain() && lb <= r.Drain() {
				kept := demand * share[la]
				loadA, loadB = kept, 0.1+demand-kept
			}
			ia, ib := up(), up()
			ia.Load, ib.Load = loadA, loadB
			ia.Headroom, ib.Headroom = loadB < 0.7, loadA < 0.7
			da, db := a.Step(at, ia), b.Step(at, ib)
			if da.Changed || db.Changed {
				changes++
			}
		}
		// Down to where the load fits, and tries after 20, 40, 80, ... min of whether it has become less.
		if changes > 2+2*len(ladder())+2*6 {
			t.Errorf("demand %.1f: %d changes in a day", demand, changes)
		}
	}
}
