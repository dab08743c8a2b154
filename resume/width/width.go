// Package width says over how many connections at a time a file is fetched whose connections break again and again. It is pure: times are
// passed in.
//
// Each new connection costs its handshake and TCP's slow start (Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks",
// section 3.2). As long as that is a small share of a connection's life, one is enough. Otherwise others run beside it, at other
// parts of the file and at other points of their lives, so that together they fill what the path has. A connection that waits in
// reserve would save a round trip or two of the handshake; one that carries a part of the file saves the slow start as well.
package width

import (
	"math"
	"time"
)

// Path is what is known of the connections so far.
type Path struct {
	Life   time.Duration // of a connection, on the average, until it breaks
	Breaks float64       // that Life was found from
	Trip   time.Duration // round trip
	Start  time.Duration // from the beginning of a connection to its first byte of content
	Rate   float64       // bytes per second that came over all connections together, at best
	Bytes  float64       // that a connection brought in its life, on the average; 0: not known
}

// initial is what a connection sends in its first round trip: ten segments (RFC 6928).
const initial = 10 * 1448

// enough is the share of the path that one connection has to get for no other to be worth its cost.
const enough = 0.995

// spare is by how much connections together are to outdo the path, as they are not evenly spread over their lives.
const spare = 1.25

// crowd is how many times as many connections there are at most as slow start alone would want.
const crowd = 3

// Lanes is the number of connections that fill the path, at most so many. It is 1 while nothing has broken, and 2 at most after a
// single break.
//
// What slow start alone would give is a bound from above: connections that run beside each other, and losses, end it early. So what
// connections really brought counts, as long as the number is not out of all proportion: on a full path each connection more takes
// from the others.
func (p Path) Lanes(most int) int {
	if p.Breaks <= 0 || p.Rate <= 0 || p.Life <= 0 {
		return 1
	}
	share := p.share()
	if share >= enough {
		return 1
	}
	if p.Breaks < 1.5 {
		most = min(most, 2)
	}
	wanted := spare / share
	if full := p.Rate * p.Life.Seconds(); p.Bytes > 0 {
		wanted = max(wanted, min(spare*full/p.Bytes, crowd*wanted))
	}
	return max(1, int(min(float64(most), math.Ceil(wanted))))
}

// share is how much of the path's rate a single connection gets over its life, by slow start alone: losses make it less, but they
// make the rate that was seen less as well.
func (p Path) share() float64 {
	full := p.Rate * p.Life.Seconds()
	left := (p.Life - p.Start).Seconds()
	trip := p.Trip.Seconds()
	got, window := 0.0, float64(initial)
	for ; left > 0 && window < p.Rate*trip; left -= trip {
		got += window * min(1, left/trip)
		window *= 2
	}
	got += max(0, left) * p.Rate
	return min(1, max(got, initial)/max(full, initial))
}

// Expected is how many bytes a connection of several brings in its life.
func (p Path) Expected() int64 { return int64(p.share() * p.Rate * p.Life.Seconds()) }

// Lives finds the average life of connections from those that broke, those that ended otherwise and those that go on. Old ones count less
// and less.
type Lives struct {
	lived  time.Duration // of connections that are over
	bytes  float64       // that those brought that broke
	broken float64
	open   map[int]time.Time
}

// memory is how much of the past counts at each break.
const memory = 0.875

// Opened begins a connection's life; the number is the caller's.
func (l *Lives) Opened(now time.Time, id int) {
	if l.open == nil {
		l.open = make(map[int]time.Time)
	}
	l.open[id] = now
}

// Ended ends a connection's life, by a break or otherwise.
func (l *Lives) Ended(now time.Time, id int, broke bool, bytes int64) {
	since, ok := l.open[id]
	if !ok {
		return
	}
	delete(l.open, id)
	if broke {
		l.lived = time.Duration(memory * float64(l.lived))
		l.bytes *= memory
		l.broken = memory*l.broken + 1
	}
	l.bytes += float64(bytes)
	l.lived += max(0, now.Sub(since))
}

// Average is the life of a connection, 0 if none has broken; from how many breaks it is; and how many bytes there are for each.
func (l *Lives) Average(now time.Time) (life time.Duration, breaks, bytes float64) {
	if l.broken == 0 {
		return 0, 0, 0
	}
	// A life that goes on says something only once it is longer than others were.
	lived, known := l.lived, time.Duration(float64(l.lived)/l.broken)
	for _, since := range l.open {
		lived += max(0, now.Sub(since)-known)
	}
	return time.Duration(float64(lived) / l.broken), l.broken, l.bytes / l.broken
}

// Rates finds the highest rate that was seen lately.
type Rates struct {
	begun time.Time
	bytes int64
	past  [32]float64 // of spans that are over
	next  int
}

// span is how long bytes are counted: longer than a queue takes that empties at once.
const span = 500 * time.Millisecond

// Came counts bytes.
func (r *Rates) Came(now time.Time, bytes int64) {
	if r.begun.IsZero() || now.Before(r.begun) {
		r.begun, r.bytes = now, 0
	}
	r.bytes += bytes
	if took := now.Sub(r.begun); took >= span {
		r.past[r.next%len(r.past)] = float64(r.bytes) / took.Seconds()
		r.next++
		r.begun, r.bytes = now, 0
	}
}

// Best is the highest rate of the last 16 seconds or so, in bytes per second.
func (r *Rates) Best() float64 {
	best := 0.0
	for _, rate := range r.past {
		best = max(best, rate)
	}
	return best
}
