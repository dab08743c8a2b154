// Package start learns with how many segments trunks to one peer may begin: the initial window, and so what the first flight of a flow
// may be.
//
// A window is carried from one trunk to the next (Riptide; Careful Resume, RFC 9959), as if it were one connection that is always
// probing:
//
//   - It begins with four times the least: slow start has that after two round trips, and it is within what servers in the wild begin
//     with (arXiv 1902.08937: mostly below 50, up to 100).
//   - A first flight that has used the window and came through clean allows twice as much, up to the path's bandwidth-delay product
//     (delivery rate × least RTT) and no further. So a jump is never more than twice what has been sent through: the half of RFC 9959,
//     section 3.3.
//   - A first flight that has lost more than a segment in a hundred halves it at once (section 3.5), three in a row that have lost less
//     do the same: one such flight may have met chance, which smaller windows do not help against. Where it has fallen to becomes a
//     ceiling; the next trial above it comes only after a thousand clean flights, or a long time, and after one that failed later still.
//   - Without samples, or on a path whose RTT is another, nothing is known any more (section 3.2).
//
// Windows of this kind are meant to be paced over a round trip (section 3.3; BBR does so). A trunk that was opened with a larger window
// than the present one still has it: its owner tells by Sample.Window what a flight could begin with, and may replace such trunks.
//
// The code is pure: the time is passed in. A Learner is for one peer and one goroutine at a time.
package start

import "time"

// What the learner goes by.
const (
	beginning = 4                // times the least
	steady    = 8                // a product that is another by less than one part in so many changes nothing
	chance    = 100              // one segment of a flight in so many may be lost by chance, ...
	repeated  = 3                // ... but not in so many flights in a row
	trial     = 1024             // clean flights at the ceiling before it is raised, ...
	patience  = 10 * time.Minute // ... or this long without a loss
	doublings = 6                // of both, at most, after trials that failed
	lifetime  = 10 * time.Minute // without samples
	rttLife   = 5 * time.Minute  // the least RTT is of this last time or twice it
	bound     = 1 << 24          // segments: more than any window
)

// Sample is what trunks to the peer have shown since the one before. A field of 0 is not known.
type Sample struct {
	DeliveryRate int64         // bytes per second of a flow (tcpi_delivery_rate)
	AppLimited   bool          // it was held by what there was to send, by the receiver's window or by a buffer: the path can do more
	MinRTT       time.Duration // tcpi_min_rtt
	MSS          int           // bytes (tcpi_snd_mss)
	FirstFlights int           // of flows
	Sent         int           // segments in them
	Retransmits  int           // segments of them that were sent again
	Window       int           // segments that they could begin with; 0: the present window
}

// Learner is what has been learnt of one peer.
type Learner struct {
	least, most int // segments

	window  int       // segments
	ceiling int       // of the window
	safe    int       // a ceiling that held for a trial; 0: none yet
	lostAt  int       // window that the last loss was at; 0: none
	trials  int       // that have failed since a ceiling was found
	flights int       // clean, at the ceiling
	since   time.Time // of them
	fell    time.Time
	touched int // flights in a row, now, that have lost a little

	last time.Time // sample
	path path
}

// New returns a learner of windows between least and most segments, which are taken to be at least 1, and most at least as much as
// least. It knows nothing.
func New(least, most int) *Learner {
	least = min(max(least, 1), bound)
	l := &Learner{least: least, most: min(max(most, least), bound)}
	l.forget()
	return l
}

func (l *Learner) forget() {
	*l = Learner{least: l.least, most: l.most, window: min(beginning*l.least, l.most), ceiling: l.most}
}

// Window returns the segments that a trunk opened now may begin with.
func (l *Learner) Window(now time.Time) int {
	if now.Sub(l.last) > lifetime {
		return min(beginning*l.least, l.most)
	}
	return l.window
}

// Observe learns from a sample.
func (l *Learner) Observe(now time.Time, s Sample) {
	flown, measured := s.FirstFlights > 0, s.MinRTT > 0
	if !flown && !measured {
		return
	}
	if now.Sub(l.last) > lifetime || measured && l.path.changed(s.MinRTT) {
		l.forget()
	}
	l.last = now
	if measured {
		l.path.observe(now, s)
		if limit, full := l.path.product(); full && limit < l.window-l.window/steady {
			l.window = max(l.least, limit)
		}
	}
	if flown {
		l.fly(now, s)
	}
}

// fly learns from first flights.
func (l *Learner) fly(now time.Time, s Sample) {
	began, sent := s.Window, s.Sent/s.FirstFlights
	if began <= 0 {
		began = l.window
	}
	switch {
	case s.Retransmits <= 0:
		l.touched = 0
		if 2*sent >= l.window && began >= l.window { // what was not used proves nothing (RFC 7661)
			l.clean(now, s.FirstFlights)
		}
	case l.touched+1 >= repeated, s.Retransmits > 1 && s.Retransmits > sent/chance: // all by one flight, for all that is known
		l.touched = 0
		if s.Window > 0 || now.Sub(l.fell) >= l.path.settling() {
			l.fall(now, began)
		}
	default:
		l.touched++
	}
}

// clean raises the window, or counts towards a higher ceiling.
func (l *Learner) clean(now time.Time, flights int) {
	limit, _ := l.path.product()
	if l.window >= l.ceiling && min(limit, l.most) > l.ceiling {
		l.flights += min(flights, trial<<doublings)
		doubled := min(l.trials, doublings)
		if l.flights < trial<<doubled && now.Sub(l.since) < patience<<doubled {
			return
		}
		l.safe, l.flights, l.since = l.ceiling, 0, now
		if l.ceiling >= l.lostAt {
			l.ceiling, l.trials = l.most, 0 // what was lost there does not come again
		} else {
			l.ceiling = min(l.ceiling+max(l.ceiling/2, 1), l.most)
		}
	}
	if limit > l.window+l.window/steady {
		l.window = min(2*l.window, limit, l.ceiling)
	}
}

// fall halves what flights began with that have lost. Flights that began with twice the present window or more say nothing about it.
func (l *Learner) fall(now time.Time, began int) {
	half := max(l.least, began/2)
	if half >= l.window && l.window > l.least {
		return
	}
	l.window = min(l.window, half)
	if l.safe > 0 && began > l.safe {
		l.ceiling = max(l.safe, l.window)
		l.trials++
	} else {
		l.safe, l.trials, l.ceiling = 0, 0, l.window
	}
	l.lostAt, l.flights, l.since, l.fell = began, 0, now, now
}
