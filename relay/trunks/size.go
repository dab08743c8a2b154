// Package trunks keeps connections to other relays ready before flows need them.
package trunks

import (
	"math"
	"time"
)

// What a Sizer goes by.
const (
	readyMargin   = 1.5              // times the most that was taken within a set-up time, ...
	readySpare    = 2                // ... and so many
	peakLife      = 5 * time.Minute  // the most that was taken counts so long, at most twice
	shrinkTime    = time.Minute      // time constant of what is wanted, downwards
	shortestSetup = time.Millisecond // set-up times that are counted with: an event loop does not see shorter ones
	longestSetup  = 10 * time.Second
	shortLife     = time.Second // a trunk that was lost sooner was not worth opening
	shortCalm     = 2 * lastPause
	mostReady     = 1 << 16                // ready trunks
	firstPause    = 100 * time.Millisecond // after a failure; doubled by each further one, ...
	lastPause     = 10 * time.Second       // ... up to this
)

// Sizer says how many trunks to one peer a worker keeps ready, and how many it may open now. A trunk that is opened when one is taken is
// there a set-up time later, so that the ready ones must last for what comes in this time. The most that has come in such a time lately,
// and a margin, is what is wanted: it is rate × set-up time with the spread of chance and of bursts in it, and it follows a rate that
// doubles within a set-up time (a mean of the rate beside it was tried and changed nothing). The pool grows at once and shrinks slowly.
//
// It is pure: times are passed in, on any clock that never goes back. It is for one goroutine.
type Sizer struct {
	min, max int
	random   func() float64

	setup time.Duration // what opening a trunk takes
	takes takes
	peak  peak // of what was taken within a set-up time

	target   float64 // as of asked
	targetAt time.Duration

	atOnce   int // set-ups that may be under way
	failures int // since a trunk was opened
	short    int // trunks that were lost at once, none longer than shortCalm after the one before
	shortAt  time.Duration
	retry    time.Duration
}

// NewSizer returns a sizer for between least and most ready trunks; least is taken to be at least 0 and most at least 1. setup is what
// opening one takes, as far as is known: a round trip for TCP and one more for the acceptor's hello or TLS. random gives numbers in
// [0, 1), for pauses that differ from those of other workers.
func NewSizer(least, most int, setup time.Duration, random func() float64) *Sizer {
	most = min(max(most, 1), mostReady)
	s := &Sizer{min: min(max(least, 0), most), max: most, random: random, setup: counted(setup)}
	s.takes.at = make([]time.Duration, most)
	s.atOnce = s.share()
	return s
}

func counted(setup time.Duration) time.Duration { return min(max(setup, shortestSetup), longestSetup) }

// share is how many set-ups may be under way at once: half of what may be ready, so that a peer that comes back, or a burst, does not
// cost a storm of handshakes.
func (s *Sizer) share() int { return max(1, s.max/2) }

// Took is told of each flow that asks for a trunk, whether there was one or not.
func (s *Sizer) Took(now time.Duration) {
	s.takes.add(now)
	s.peak.add(now, s.takes.since(now-s.setup))
}

// Opened is told of each trunk that has become ready, and how long that took.
func (s *Sizer) Opened(now, took time.Duration) {
	took = counted(took)
	if took > s.setup {
		s.setup += (took - s.setup) / 2
	} else {
		s.setup -= (s.setup - took) / 8
	}
	if now < s.retry {
		return // begun before the failure
	}
	s.failures = 0
	s.atOnce = min(s.atOnce+1, s.share())
}

// Failed is told of each trunk that could not be opened: the peer has refused, or was silent. One at a time is tried from then on, after
// pauses that grow, until trunks open again.
func (s *Sizer) Failed(now time.Duration) {
	if now >= s.retry {
		s.failures++
		s.pause(now, s.failures)
	}
}

// Lost is told of a ready trunk that its peer has closed, and how long it was ready. A peer that closes trunks at once is treated like
// one that refuses them.
func (s *Sizer) Lost(now, ready time.Duration) {
	if ready >= shortLife || now < s.retry {
		return
	}
	if now-s.shortAt > shortCalm {
		s.short = 0
	}
	s.short++
	s.shortAt = now
	s.pause(now, s.short)
}

// pause is not called in a pause: what ends in one was begun before the failure that is known.
func (s *Sizer) pause(now time.Duration, failures int) {
	s.atOnce = 1
	pause := min(firstPause<<min(failures-1, 10), lastPause)
	s.retry = now + pause/2 + time.Duration(s.random()*float64(pause/2))
}

// Retry returns the time before which Open returns 0 because of failures; it may be past.
func (s *Sizer) Retry() time.Duration { return s.retry }

// Want returns how many trunks are to be ready.
func (s *Sizer) Want(now time.Duration) int {
	need := 0.0
	if most := s.peak.most(now); most > 0 {
		need = readyMargin*float64(most) + readySpare
	}
	s.target = max(need, s.target*math.Exp(-(now-s.targetAt).Seconds()/shrinkTime.Seconds()))
	s.targetAt = now
	return min(max(int(math.Ceil(s.target)), s.min), s.max)
}

// Open returns how many trunks to begin to open, where some are ready and some are being opened.
func (s *Sizer) Open(now time.Duration, ready, opening int) int {
	if now < s.retry {
		return 0
	}
	return max(0, min(s.Want(now)-ready-opening, s.atOnce-opening))
}

// Close returns how many of the ready trunks are to be closed.
func (s *Sizer) Close(now time.Duration, ready int) int { return max(0, ready-s.Want(now)) }
