package width

import "time"

// Lives estimates the average life of connections from broken, ended and running ones, with decay.
type Lives struct {
	lived  time.Duration // total time of finished connections
	bytes  float64       // bytes that the broken ones received
	broken float64
	open   map[int]time.Time
}

// memory is the weight of the past at each break.
const memory = 0.94

// Opened starts a connection's life; the number is the caller's.
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

// Average returns the average life of a connection, 0 if none has broken; the number of breaks; and the bytes for each.
func (l *Lives) Average(now time.Time) (life time.Duration, breaks, bytes float64) {
	if l.broken == 0 {
		return 0, 0, 0
	}
	// A running connection counts only once it is older than the others were.
	lived, known := l.lived, time.Duration(float64(l.lived)/l.broken)
	for _, since := range l.open {
		lived += max(0, now.Sub(since)-known)
	}
	return time.Duration(float64(lived) / l.broken), l.broken, l.bytes / l.broken
}

// Trips finds the shortest of recent round trips: the path's current one, because a moved route may be longer.
type Trips struct {
	last [8]time.Duration
	next int
}

// Saw adds a round trip.
func (t *Trips) Saw(d time.Duration) {
	if d > 0 {
		t.last[t.next%len(t.last)] = d
		t.next++
	}
}

// Least returns 0 if there was none.
func (t *Trips) Least() time.Duration {
	least := t.last[0]
	for _, d := range t.last[1:min(len(t.last), max(1, t.next))] {
		least = min(least, d)
	}
	return least
}

// Rates finds the highest recent rate that was sustained.
type Rates struct {
	begun time.Time
	bytes int64
	past  [32]float64 // finished spans
	held  [32]float64 // the lower rate of a span and its predecessor
	next  int
}

// span is the time over which bytes are counted: longer than a queue takes to empty.
const span = 500 * time.Millisecond

// Came adds bytes.
func (r *Rates) Came(now time.Time, bytes int64) {
	if r.begun.IsZero() || now.Before(r.begun) {
		r.begun, r.bytes = now, 0
	}
	r.bytes += bytes
	if took := now.Sub(r.begun); took >= span {
		rate := float64(r.bytes) / took.Seconds()
		i := r.next % len(r.past)
		r.past[i], r.held[i] = rate, rate
		if r.next > 0 {
			r.held[i] = min(rate, r.past[(r.next-1)%len(r.past)])
		}
		r.next++
		r.begun, r.bytes = now, 0
	}
}

// Mean returns the rate of about the last four seconds.
func (r *Rates) Mean() float64 {
	spans := min(8, r.next)
	sum := 0.0
	for i := range spans {
		sum += r.past[(r.next-1-i)%len(r.past)]
	}
	return sum / float64(max(1, spans))
}

// Best returns the highest rate of about the last 16 seconds, in bytes per second. It must be sustained for two spans: bytes in a single
// one may have waited behind a lost byte, and exceed the path's rate.
func (r *Rates) Best() float64 {
	best := 0.0
	for _, rate := range r.held {
		best = max(best, rate)
	}
	return best
}

// Flight estimates how much a connection has in flight, by the bytes per round trip: the maximum of the last three, because bytes behind a
// lost one arrive late.
type Flight struct {
	begun time.Time
	from  int64 // bytes received then
	last  [2]int64
}

// Saw adds the total bytes received on the connection, and returns how much it has in flight. A decrease means another connection.
func (f *Flight) Saw(now time.Time, trip time.Duration, brought int64) int64 {
	if brought < f.from || f.begun.IsZero() {
		*f = Flight{begun: now, from: 0}
	}
	came := brought - f.from
	flight := max(came, f.last[0], f.last[1])
	if now.Sub(f.begun) >= trip {
		f.last[1], f.last[0] = f.last[0], came
		f.begun, f.from = now, brought
	}
	return flight
}
