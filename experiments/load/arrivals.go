package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// never is later than any run.
const never = time.Duration(math.MaxInt64)

// A gap draws the times between events that come mean apart.
type gap struct {
	mean   time.Duration
	even   bool // all alike; else exponential, as between events that know nothing of each other
	random *rand.Rand
}

func (g gap) draw() time.Duration {
	if g.even {
		return g.mean
	}
	return time.Duration(g.random.ExpFloat64() * float64(g.mean))
}

// arrivals are the requests of an open loop: when each is due, and what became of those that could not begin then.
// They know no clock; the engine tells the time.
type arrivals struct {
	gap
	next     time.Duration // when the request is due whose turn it is
	left     int64         // requests, that one included
	until    time.Duration // nothing becomes due from then on
	patience time.Duration // a request that could not begin for longer is missed

	missed int64
	late   int64
}

// lateness is what a request may begin after it is due and still be on time: far above what a timer is late, far
// below what a full set of connections costs.
const lateness = time.Millisecond

// over reports whether all has become due and has been taken or missed.
func (a *arrivals) over(now time.Duration) bool {
	return a.left <= 0 || a.next >= a.until && now >= a.until
}

// wake is when something is to be done next.
func (a *arrivals) wake() time.Duration {
	if a.left <= 0 {
		return never
	}
	return min(a.next, a.until)
}

// take returns when the next request was due if it is due now and can begin. Those that have waited too long for
// that are missed.
func (a *arrivals) take(now time.Duration, free bool) (due time.Duration, ok bool) {
	for a.left > 0 && a.next < a.until && a.next <= now {
		due = a.next
		waited := now - due
		if waited <= a.patience && !free {
			return 0, false
		}
		a.next += a.draw()
		a.left--
		if waited <= a.patience {
			if waited > lateness {
				a.late++
			}
			return due, true
		}
		a.missed++
	}
	return 0, false
}

// pauses are the slots that wait for their next request, the first to wake in front; for container/heap.
type pauses []*slot

func (p pauses) Len() int           { return len(p) }
func (p pauses) Less(i, j int) bool { return p[i].wake < p[j].wake }
func (p pauses) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *pauses) Push(s any)        { *p = append(*p, s.(*slot)) }
func (p *pauses) Pop() any {
	last := len(*p) - 1
	s := (*p)[last]
	*p = (*p)[:last]
	return s
}

func (p pauses) wake() time.Duration {
	if len(p) == 0 {
		return never
	}
	return p[0].wake
}
