package width

import "time"

// Lives finds the average life of connections from those that broke, those that ended otherwise and those that go on. Old ones count less
// and less.
type Lives struct {
	lived  time.Duration // of connections that are over
	bytes  float64       // that those brought that broke
	broken float64
	open   map[int]time.Time
}

// memory is how much of the past counts at each break.
const memory = 0.94

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

// Trips finds the shortest of the last round trips: that of the path as it is now, as a route that moves may make it longer.
type Trips struct {
	last [8]time.Duration
	next int
}

// Saw notes a round trip.
func (t *Trips) Saw(d time.Duration) {
	if d > 0 {
		t.last[t.next%len(t.last)] = d
		t.next++
	}
}

// Least is 0 if none was seen.
func (t *Trips) Least() time.Duration {
	least := t.last[0]
	for _, d := range t.last[1:min(len(t.last), max(1, t.next))] {
		least = min(least, d)
	}
	return least
}

// Rates finds the highest rate that was held lately.
type Rates struct {
	begun time.Time
	bytes int64
	past  [32]float64 // of spans that are over
	held  [32]float64 // the least of a span and the one before
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

// Mean is the rate of the last four seconds or so.
func (r *Rates) Mean() float64 {
	spans := min(8, r.next)
	sum := 0.0
	for i := range spans {
		sum += r.past[(r.next-1-i)%len(r.past)]
	}
	return sum / float64(max(1, spans))
}

// Best is the highest rate of the last 16 seconds or so, in bytes per second. It was held for two spans: what comes in one span may have waited behind
// a byte that was lost, and be more than the path carries.
func (r *Rates) Best() float64 {
	best := 0.0
	for _, rate := range r.held {
		best = max(best, rate)
	}
	return best
}

// Flight finds how much a connection has under way, by what comes in a round trip: the most of the last three, as what is behind a byte that was lost
// waits for it.
type Flight struct {
	begun time.Time
	from  int64 // bytes that had come then
	last  [2]int64
}

// Saw notes how many bytes have come on the connection so far, and returns what it has under way. Less than before is another connection.
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
