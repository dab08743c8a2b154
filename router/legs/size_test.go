package legs

import (
	"testing"
	"time"

	"baton/router/config"
)

// load is a simulated constant demand: requests per tick, some of which find no leg.
type load struct {
	perTick  int           // requests
	active   int           // sessions at once
	spends   bool          // the surrogate closes after each response
	every    time.Duration // between ticks; more than tickEvery on a busy machine
	openTime int           // ticks from a SYN to an idle leg
}

// run feeds the sizer for a time and returns its largest and last target, and the misses of the last second.
func (l load) run(s *sizer, start time.Time, length time.Duration) (most, last, missed int) {
	idle, out, opening := s.floor, 0, make([]int, l.openTime+1)
	late := int(l.every / tickEvery)
	for at := time.Duration(0); at < length; at += l.every {
		idle += opening[0]
		opening = append(opening[1:], 0)
		asked := l.perTick * late
		popped := min(asked, idle)
		idle -= popped
		out += popped
		spent := 0
		if l.spends {
			spent = popped
		} else if back := max(0, out-l.active); back > 0 {
			idle, out = idle+back, out-back
		}
		d := demand{idle: idle, active: l.active, popped: popped, spent: spent, missed: asked - popped}
		last = s.setTarget(start.Add(at), d)
		most = max(most, last)
		pending := 0
		for _, n := range opening {
			pending += n
		}
		opening[l.openTime] += min(max(0, last-idle-pending), openBatch)
		if at > length-time.Second {
			missed += asked - popped
		}
	}
	return most, last, missed
}

func TestPoolFollowsDemand(t *testing.T) {
	for _, tt := range []struct {
		name   string
		load   load
		atMost int // target; Debian's servers tolerate some 500
		noMiss bool
	}{
		{"nothing", load{every: tickEvery}, 16, true},
		{"twenty clients, legs come back", load{perTick: 40, active: 20, every: tickEvery}, 300, true},
		{"twenty clients, each uses a leg up", load{perTick: 40, active: 20, spends: true, every: tickEvery},
			300, true},
		{"the same where ticks are late", load{perTick: 40, active: 20, spends: true, every: 10 * tickEvery},
			300, false},
		{"a surrogate far away", load{perTick: 10, active: 60, spends: true, every: tickEvery, openTime: 5}, 200, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &sizer{floor: 16, ceiling: 4096}
			start := time.Unix(1, 0)
			most, _, missed := tt.load.run(s, start, 4*time.Second)
			if most > tt.atMost {
				t.Errorf("%d idle legs wanted, want at most %d", most, tt.atMost)
			}
			if tt.noMiss && missed > 0 {
				t.Errorf("%d requests of the last second found no leg", missed)
			}
			// Without demand the pool shrinks to its floor.
			_, last, _ := load{every: tickEvery}.run(s, start.Add(4*time.Second), time.Minute)
			if last > 2*s.floor {
				t.Errorf("%d idle legs wanted a minute after the last request, want about %d", last, s.floor)
			}
		})
	}
}

func TestPoolStaysBelowItsCap(t *testing.T) {
	s := &sizer{floor: 16, ceiling: 50}
	most, _, _ := load{perTick: 100, active: 500, spends: true, every: tickEvery}.run(s, time.Unix(1, 0), time.Second)
	if most != 50 {
		t.Errorf("%d idle legs wanted, want the cap of 50", most)
	}
}

// TestFreshLegsFollowNewClients: if clients get no used legs, the number of fresh legs must follow the rate of new
// clients, however many used ones there are.
func TestFreshLegsFollowNewClients(t *testing.T) {
	for _, tt := range []freshLoad{
		{"safe, short sessions", config.ReuseSafe, 10, 2, 0},
		{"safe, long sessions", config.ReuseSafe, 4, 100, 0},
		{"safe, with moves", config.ReuseSafe, 10, 10, 5},
		{"safe, few", config.ReuseSafe, 1, 10, 0},
		{"never, short sessions", config.ReuseNever, 10, 2, 0},
		{"never, long sessions", config.ReuseNever, 4, 100, 0},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t) })
	}
	t.Run("looked at before they run out", func(t *testing.T) {
		c := &class{}
		now := time.Unix(1000, 0)
		c.countMissing(now, usage{idle: 400, fresh: 16}, 16, 4096, config.ReuseSafe)
		u := usage{idle: 390, fresh: 6, popped: 10, poppedFresh: 10}
		_, busy := c.countMissing(now.Add(restEvery), u, 16, 4096, config.ReuseSafe)
		if !busy {
			t.Error("used legs hide that the fresh ones do not last")
		}
	})
}

// freshLoad is a constant rate of new clients that need fresh legs.
type freshLoad struct {
	name    string
	reuse   config.Reuse
	perTick int // new clients
	lasts   int // duration of a session in ticks
	moves   int // requests per tick that change surrogates
}

func (l freshLoad) run(t *testing.T) {
	const floor, most, openTime, ticks = 16, 4096, 2, 5000
	c := &class{}
	p := &pool{usable: true, reuse: l.reuse}
	u := usage{idle: floor, fresh: floor}
	opening, ending := make([]int, openTime+1), make([]int, l.lasts+1)
	missed, wanted := 0, 0
	now := time.Unix(1000, 0)
	for tick := range ticks {
		u.fresh, u.idle, u.active, u.recycled = u.fresh+opening[0], u.idle+opening[0], u.active-ending[0], 0
		if l.reuse == config.ReuseSafe {
			u.idle, u.recycled = u.idle+ending[0], ending[0]
		}
		opening, ending = append(opening[1:], 0), append(ending[1:], 0)
		u.poppedFresh = min(l.perTick, u.fresh)
		u.missed = l.perTick - u.poppedFresh
		u.popped = u.poppedFresh + min(l.moves, u.idle-u.fresh)
		u.fresh, u.idle, u.active = u.fresh-u.poppedFresh, u.idle-u.popped, u.active+u.popped
		ending[l.lasts] = u.popped
		if tick > ticks/2 {
			missed += u.missed
		}
		short, _ := c.countMissing(now, u, floor, most, l.reuse)
		for _, n := range opening {
			short -= n
		}
		opening[openTime] += min(max(0, short), openBatch)
		wanted = max(wanted, c.fresh.target)
		if tick%64 == 0 { // the used ones first
			u.idle -= min(p.countSurplus(c, u.idle), u.idle-u.fresh)
		}
		now = now.Add(tickEvery)
	}
	if missed > 0 {
		t.Errorf("%d clients found no fresh leg, %d were wanted at most", missed, wanted)
	}
	if atMost := 10*headroom*l.perTick + 2*l.perTick*l.lasts; wanted > max(atMost, floor) {
		t.Errorf("%d fresh legs were wanted, want %d at most", wanted, atMost)
	}
	if used := u.idle - u.fresh; l.moves == 0 && used > 100*l.perTick {
		t.Errorf("%d used legs lie about that nobody takes", used)
	}
}

// TestLegsUnderwayFollowTheRate: legs in their handshakes replace those that are used up meanwhile, and the pool rests
// by the average.
func TestLegsUnderwayFollowTheRate(t *testing.T) {
	const handshake = 150 * time.Millisecond
	now := time.Unix(1000, 0)
	c := &class{}
	run := func(length time.Duration, each int) {
		for end := now.Add(length); now.Before(end); {
			now = now.Add(tickEvery)
			c.trackRate(now, each)
		}
	}
	run(time.Second, 1) // 250 a second
	if got := c.countUnderway(handshake); got < 34 || got > 38 {
		t.Errorf("%d legs underway at 250 a second, want 37", got)
	}
	if c.countUnderway(0) != 0 {
		t.Error("legs are underway without a delay")
	}
	run(tickEvery, 0) // a tick without a session
	if c.coversRest(16) || c.coversRest(40) || !c.coversRest(60) {
		t.Error("at 250 a second 60 legs last for a resting tick, 16 and 40 do not")
	}
	run(time.Second, 20)
	if got := c.countUnderway(handshake); got != mostHeld {
		t.Errorf("%d legs underway at 5,000 a second, want %d", got, mostHeld)
	}
	run(2*time.Second, 0)
	if got := c.countUnderway(handshake); got != 0 || !c.coversRest(0) {
		t.Errorf("%d legs underway after two seconds of rest", got)
	}
	run(time.Second, 20)
	now = now.Add(time.Second) // no tick: what is known is old
	if c.trackRate(now, 1); c.countUnderway(handshake) != 0 {
		t.Error("legs are underway after a second without a tick")
	}
}
