package legs

import (
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// sizer finds how many idle legs of one class are to be kept ready. It is told, each tick, what happened since the last.
//
// Legs that come back need no replacement: then the pool has to cover the spread of what is in use at once. Legs that are used
// up (the surrogate closes after each response) have to be there before they are needed: then it covers what is taken
// while new ones are being opened.
type sizer struct {
	floor, ceiling int
	target         int
	lowest         int // fewest idle legs seen in this window
	started        time.Time
	ticked         time.Time
}

const (
	sizeWindow = 5 * time.Second // a pool shrinks only when it had a surplus for this long
	headroom   = 3               // ticks of consumption that are kept ready
)

// demand is what happened to the legs of a class since the last tick.
type demand struct {
	idle   int // now
	active int // sessions on legs of the surrogate now
	popped int // legs that requests took
	spent  int // those of them that did not come back
	missed int // requests that found none
}

// lasts tells whether half of the idle legs are enough until the next look at a pool at rest, if as many are taken as since
// the last tick.
func (s *sizer) lasts(now time.Time, popped, idle int) bool {
	since := now.Sub(s.ticked)
	return since > 0 && time.Duration(popped)*restEvery < since*time.Duration(idle/2)
}

// tick returns how many idle legs are wanted.
//
// A surrogate holds something for each idle leg: Apache a thread once its queue of half-open connections is full, nginx one
// of its worker_connections. So no run of misses makes a pool larger than the demand of an ordinary tick can explain,
// however late this tick is.
func (s *sizer) tick(now time.Time, d demand) int {
	if s.started.IsZero() {
		s.started, s.lowest, s.target, s.ticked = now, d.idle, min(s.floor, s.ceiling), now
		return s.target // how long this demand took to come is not known
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

// usage is what the kernel has counted of a class since the last tick, and what there is now.
type usage struct {
	idle, fresh         int // now; fresh have served nobody
	active              int // sessions on legs of the surrogate
	popped, poppedFresh int
	recycled            int // legs of the surrogate that came back, of any class
	missed              int
}

// since takes what is new of the counters.
func (c *class) since(counted kernel.Surrogate, id uint8) usage {
	u := usage{
		idle: counted.Idle[id], fresh: counted.Fresh[id], active: counted.Active,
		popped: int(counted.Popped[id] - c.popped), poppedFresh: int(counted.PoppedFresh[id] - c.poppedFresh),
		recycled: int(counted.Recycled - c.recycled), missed: int(counted.Missed[id] - c.missed),
	}
	c.popped, c.poppedFresh, c.recycled, c.missed = counted.Popped[id], counted.PoppedFresh[id], counted.Recycled, counted.Missed[id]
	return u
}

// size tells how many legs of the class are short, and whether it is to be looked at again at the next tick.
//
// A fresh leg that was taken is never fresh again, so fresh legs are sized as those that are used up. Where every leg may be used
// again that matters for the few clients that no used leg fits; with reuse safe and never all new clients live by them, so that
// all that are kept ready are to be fresh, and how long they last is what counts. Used legs then serve those who change surrogates
// (safe) or nobody (never): they come back by themselves, and none is opened for want of them.
func (c *class) size(now time.Time, u usage, floor, ceiling int, reuse config.Reuse) (short int, busy bool) {
	c.floor, c.sizer.floor, c.fresh.floor = floor, floor, (floor+1)/2
	c.sizer.ceiling, c.fresh.ceiling = ceiling, ceiling
	busy = u.missed > 0 || u.popped > 0 && !c.sizer.lasts(now, u.popped, u.idle)
	d := demand{idle: u.idle, active: u.active, popped: u.popped, spent: max(u.popped-u.recycled, 0), missed: u.missed}
	f := demand{idle: u.fresh, active: u.active, popped: u.poppedFresh, spent: u.poppedFresh, missed: u.missed}
	if reuse == config.ReuseAlways {
		return max(c.sizer.tick(now, d)-u.idle, c.fresh.tick(now, f)-u.fresh), busy
	}
	busy = busy || u.poppedFresh > 0 && !c.fresh.lasts(now, u.poppedFresh, u.fresh)
	c.sizer.floor, c.fresh.floor = 0, floor
	d.idle, d.popped, d.spent, d.missed = u.idle-u.fresh, u.popped-u.poppedFresh, 0, 0
	c.sizer.tick(now, d)
	return c.fresh.tick(now, f) - u.fresh, busy
}
