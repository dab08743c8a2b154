// Package start learns the initial window of trunks to one peer, which is the size of a flow's first flight.
//
// The window is carried from one trunk to the next (Riptide; Careful Resume, RFC 9959), as if they were one connection that always probes:
//
//   - It starts at four times the minimum: slow start reaches that after two round trips, and servers in the wild start with as much (arXiv
//     1902.08937: mostly below 50, up to 100).
//   - A first flight that used the window without loss doubles it, up to the path's bandwidth-delay product (delivery rate × minimum RTT).
//     So a jump is at most twice what has been sent successfully: the half of RFC 9959, section 3.3.
//   - A first flight that lost more than 1 % of its segments halves it at once (section 3.5), and so do three in a row that lost less: a
//     single loss may be chance, which a smaller window does not prevent. The new window becomes a ceiling. It is raised only after a
//     thousand flights without loss or a long time, and later still after a failed attempt.
//   - Without samples, or after a change of the path's RTT, everything is forgotten (section 3.2).
//
// Such windows should be paced over a round trip (section 3.3), as BBR does. A trunk that was opened with a larger window still has it: the
// owner reports this in Sample.Window, and may replace such trunks.
//
// The code is pure: time is passed in. A Learner is for one peer, and is used by one goroutine at a time.
package start

import "time"

// Parameters of the learner.
const (
	beginning = 4                // times the minimum
	steady    = 8                // changes of the product below 1/steady have no effect
	chance    = 100              // one lost segment in so many may be chance, ...
	repeated  = 3                // ... but not in so many flights in a row
	trial     = 1024             // flights without loss at the ceiling before it is raised, ...
	patience  = 10 * time.Minute // ... or this long without a loss
	doublings = 6                // of both, at most, after failed attempts
	lifetime  = 10 * time.Minute // without samples
	rttLife   = 5 * time.Minute  // the minimum RTT is of the last one or two such periods
	bound     = 1 << 24          // segments: more than any window
)

// Sample is what trunks to the peer have shown since the last sample. 0 means unknown.
type Sample struct {
	DeliveryRate int64         // bytes per second of a flow (tcpi_delivery_rate)
	AppLimited   bool          // limited by the sender's data, the receiver's window or a buffer: the path can carry more
	MinRTT       time.Duration // tcpi_min_rtt
	MSS          int           // bytes (tcpi_snd_mss)
	FirstFlights int           // of flows
	Sent         int           // segments in them
	Retransmits  int           // retransmitted ones of them
	Window       int           // segments with which they could start; 0: the current window
}

// Learner is what was learnt about one peer.
type Learner struct {
	least, most int // segments

	window  int       // segments
	ceiling int       // upper bound of the window
	safe    int       // a ceiling that held for a trial; 0: none
	lostAt  int       // window at the last loss; 0: none
	trials  int       // failed attempts since a ceiling was set
	flights int       // without loss, at the ceiling
	since   time.Time // of these flights
	fell    time.Time
	touched int // flights in a row, until now, with few losses

	last time.Time // time of the last sample
	path path
}

// New returns a learner for windows between least and most segments; least is at least 1, and most at least least.
func New(least, most int) *Learner {
	least = min(max(least, 1), bound)
	l := &Learner{least: least, most: min(max(most, least), bound)}
	l.forget()
	return l
}

func (l *Learner) forget() {
	*l = Learner{least: l.least, most: l.most, window: min(beginning*l.least, l.most), ceiling: l.most}
}

// Window returns the initial window, in segments, of a trunk opened now.
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
		if 2*sent >= l.window && began >= l.window { // an unused window proves nothing (RFC 7661)
			l.clean(now, s.FirstFlights)
		}
	case l.touched+1 >= repeated, s.Retransmits > 1 && s.Retransmits > sent/chance: // possibly all of one flight
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
			l.ceiling, l.trials = l.most, 0 // the earlier loss did not recur
		} else {
			l.ceiling = min(l.ceiling+max(l.ceiling/2, 1), l.most)
		}
	}
	if limit > l.window+l.window/steady {
		l.window = min(2*l.window, limit, l.ceiling)
	}
}

// fall halves the window with which lossy flights started. Flights that started with twice the current window or more say nothing about it.
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
