package legs

import (
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// sizer computes the target for idle legs of a class from what happened since the last tick.
//
// Recycled legs need no replacement: the pool must cover the variation of concurrent use. Used-up legs (the surrogate
// closes after each response) must be replaced ahead of demand: the pool must cover consumption while new ones are
// being opened.
type sizer struct {
	floor, ceiling int
	target         int
	lowest         int // fewest idle legs seen in this window
	started        time.Time
	ticked         time.Time
}

const (
	sizeWindow = 5 * time.Second // a pool shrinks only when it had a surplus for this long
	headroom   = 3               // ticks of consumption kept ready
)

// demand is the use of a class since the last tick.
type demand struct {
	idle   int // now
	active int // current sessions on legs of the surrogate
	popped int // legs taken by requests
	spent  int // of those, not recycled
	missed int // requests that found no leg
}

// lastsRest reports whether half of the idle legs suffice until the next resting tick, at the rate since the last one.
func (s *sizer) lastsRest(now time.Time, popped, idle int) bool {
	since := now.Sub(s.ticked)
	return since > 0 && time.Duration(popped)*restEvery < since*time.Duration(idle/2)
}

// setTarget returns the target.
//
// Idle legs cost the surrogate something: Apache a thread once its SYN queue is full, nginx a slot of
// worker_connections. So a burst of misses makes no pool larger than the demand of a normal tick explains, however late
// this tick is.
func (s *sizer) setTarget(now time.Time, d demand) int {
	if s.started.IsZero() {
		s.started, s.lowest, s.target, s.ticked = now, d.idle, min(s.floor, s.ceiling), now
		return s.target // the duration of this demand is unknown
	}
	late := max(1, int(now.Sub(s.ticked)/tickEvery))
	s.ticked = now
	perTick := func(n int) int { return (n + late - 1) / late }
	s.lowest = min(s.lowest, d.idle)
	want := s.target
	if d.missed > 0 {
		explained := headroom*perTick(d.popped+d.missed) + 2*d.active
		want = max(want, min(want+max(d.missed, want/2), explained))
	} else if d.popped > 0 && d.idle < want/4 {
		want = max(want, min(want+max(want/4, 1), headroom*perTick(d.popped)+2*d.active))
	}
	want = max(want, headroom*perTick(d.spent))
	if now.Sub(s.started) >= sizeWindow {
		if s.lowest > want/2 {
			want -= (s.lowest - want/2) / 2
		}
		s.started, s.lowest = now, d.idle
	}
	s.target = min(max(want, s.floor), s.ceiling)
	return s.target
}

// usage is the kernel's counters of a class: differences since the last tick, and current values.
type usage struct {
	idle, fresh         int // current; fresh have served nobody
	active              int // sessions on legs of the surrogate
	popped, poppedFresh int
	recycled            int // recycled legs of the surrogate, of any class
	missed              int
}

// countUsage returns the differences since the last call.
func (c *class) countUsage(counted kernel.Surrogate, id uint8) usage {
	u := usage{
		idle: counted.Idle[id], fresh: counted.Fresh[id], active: counted.Active,
		popped: int(counted.Popped[id] - c.popped), poppedFresh: int(counted.PoppedFresh[id] - c.poppedFresh),
		recycled: int(counted.Recycled - c.recycled), missed: int(counted.Missed[id] - c.missed),
	}
	c.popped, c.poppedFresh = counted.Popped[id], counted.PoppedFresh[id]
	c.recycled, c.missed = counted.Recycled, counted.Missed[id]
	return u
}

// lateness is how late a tick may be on a busy machine: fresh legs that serve once cover it, as a request that finds
// none costs more than a leg.
const lateness = 25 * time.Millisecond

// rateOver is the time over which the rate of used-up legs is averaged: longer than the bursts of one client.
const rateOver = 200 * time.Millisecond

// trackRate follows the rate at which legs are used up, given those since the last tick.
func (c *class) trackRate(now time.Time, spent int) {
	since := now.Sub(c.spentAt)
	c.spentAt = now
	if since <= 0 || since > restEvery+rateOver {
		c.rate = 0 // after a rest
		return
	}
	c.rate += (float64(spent)/since.Seconds() - c.rate) * min(1, since.Seconds()/rateOver.Seconds())
}

// coversRest reports whether so many legs suffice until the next resting tick at the average rate: the last tick may
// have seen none of a burst.
func (c *class) coversRest(legs int) bool {
	return c.rate*restEvery.Seconds() < max(1, float64(legs/2))
}

// countLacking is how many fresh legs will be missing by the next tick but one, if as many are used up as since the
// last tick, which is so long ago. A session that finds none is decided in user space, on a leg without any delay.
func countLacking(u usage, since time.Duration) int {
	late := max(1, int(since/tickEvery))
	return 2*((u.poppedFresh+u.missed+late-1)/late) - u.fresh
}

// countUnderway is how many legs must be in their handshakes, which take that long, for legs to come up at the rate at
// which they are used up. More than mostHeld do not wait for so long.
func (c *class) countUnderway(handshake time.Duration) int {
	return min(int(c.rate*handshake.Seconds()), mostHeld)
}

// countMissing returns how many legs of the class are missing, and whether to check again at the next tick.
//
// A fresh leg never becomes fresh again, so fresh legs are sized like used-up ones. With reuse always they matter only
// to the few clients that no used leg fits. With safe and never, all new clients need fresh legs: all legs kept ready
// are fresh, and their rate of consumption counts. Used legs then serve clients that change surrogates (safe) or nobody
// (never): they come back by themselves, and none is opened to replace them.
func (c *class) countMissing(now time.Time, u usage, floor, ceiling int, reuse config.Reuse) (short int, busy bool) {
	c.floor, c.sizer.floor, c.fresh.floor = floor, floor, (floor+1)/2
	c.sizer.ceiling, c.fresh.ceiling = ceiling, ceiling
	busy = u.missed > 0 || u.popped > 0 && !c.sizer.lastsRest(now, u.popped, u.idle)
	d := demand{idle: u.idle, active: u.active, popped: u.popped, spent: max(u.popped-u.recycled, 0), missed: u.missed}
	f := demand{idle: u.fresh, active: u.active, popped: u.poppedFresh, spent: u.poppedFresh, missed: u.missed}
	if reuse == config.ReuseAlways {
		return max(c.sizer.setTarget(now, d)-u.idle, c.fresh.setTarget(now, f)-u.fresh), busy
	}
	c.trackRate(now, u.poppedFresh)
	floor = max(floor, int(c.rate*lateness.Seconds()))
	busy = busy || !c.coversRest(u.fresh) || u.poppedFresh > 0 && !c.fresh.lastsRest(now, u.poppedFresh, u.fresh)
	c.sizer.floor, c.fresh.floor = 0, floor
	d.idle, d.popped, d.spent, d.missed = u.idle-u.fresh, u.popped-u.poppedFresh, 0, 0
	c.sizer.setTarget(now, d)
	return c.fresh.setTarget(now, f) - u.fresh, busy
}
