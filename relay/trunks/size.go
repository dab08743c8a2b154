// Package trunks decides how many connections to other relays are kept ready.
package trunks

import (
	"math"
	"time"
)

// Parameters of a Sizer.
const (
	readyMargin   = 1.5              // times the peak demand within a set-up time, ...
	readySpare    = 2                // ... plus so many
	peakLife      = 5 * time.Minute  // a peak counts for one or two such periods
	shrinkTime    = time.Minute      // time constant of a falling target
	shortestSetup = time.Millisecond // lower bound of set-up times: an event loop does not see shorter ones
	longestSetup  = 10 * time.Second
	shortLife     = time.Second // a trunk that was lost sooner was not worth opening
	shortCalm     = 2 * lastPause
	mostReady     = 1 << 16                // ready trunks
	firstPause    = 100 * time.Millisecond // after a failure; doubled by each further one, ...
	lastPause     = 10 * time.Second       // ... up to this
)

// Sizer decides how many trunks to one peer a worker keeps ready, and how many it may open now. A trunk that is opened when another one is
// taken is ready one set-up time later, so the ready ones must cover the demand of that time. The target is the recent peak demand within a
// set-up time plus a margin: this is rate × set-up time with its variance and bursts, and it follows a rate that doubles within a set-up
// time (adding a mean of the rate was tried and changed nothing). The pool grows at once and shrinks slowly.
//
// It is pure: times are passed in, on any monotonic clock. It is for one goroutine.
type Sizer struct {
	min, max int
	random   func() float64

	setup time.Duration // time to open a trunk
	takes takes
	peak  peak // demand within a set-up time

	target   float64 // as of targetAt
	targetAt time.Duration

	atOnce   int // parallel set-ups
	failures int // since a trunk was opened
	short    int // trunks in a row that were lost at once, at most shortCalm apart
	shortAt  time.Duration
	retry    time.Duration
}

// NewSizer returns a sizer for between least and most ready trunks; least is at least 0 and most at least 1. setup is the expected time to
// open one: a round trip for TCP and another for the acceptor's hello or TLS. random is in [0, 1), and spreads the pauses of workers.
func NewSizer(least, most int, setup time.Duration, random func() float64) *Sizer {
	most = min(max(most, 1), mostReady)
	s := &Sizer{min: min(max(least, 0), most), max: most, random: random, setup: counted(setup)}
	s.takes.at = make([]time.Duration, most)
	s.atOnce = s.share()
	return s
}

func counted(setup time.Duration) time.Duration { return min(max(setup, shortestSetup), longestSetup) }

// share limits parallel set-ups to half of the ready trunks, so that a recovered peer or a burst does not cause a storm of handshakes.
func (s *Sizer) share() int { return max(1, s.max/2) }

// Took records that a flow needed a trunk, whether one was ready or not.
func (s *Sizer) Took(now time.Duration) {
	s.takes.add(now)
	s.peak.add(now, s.takes.since(now-s.setup))
}

// Opened records that a trunk became ready after a set-up time.
func (s *Sizer) Opened(now, took time.Duration) {
	took = counted(took)
	if took > s.setup {
		s.setup += (took - s.setup) / 2
	} else {
		s.setup -= (s.setup - took) / 8
	}
	if now < s.retry {
		return // started before the failure
	}
	s.failures = 0
	s.atOnce = min(s.atOnce+1, s.share())
}

// Failed records that a trunk could not be opened: the peer refused or did not answer. From then on one at a time is tried, after growing
// pauses, until trunks open again.
func (s *Sizer) Failed(now time.Duration) {
	if now >= s.retry {
		s.failures++
		s.pause(now, s.failures)
	}
}

// Lost records that the peer closed a ready trunk, and how long it was ready. Closing trunks at once counts as refusing them.
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

// pause is not called during a pause: what ends then was started before the failure.
func (s *Sizer) pause(now time.Duration, failures int) {
	s.atOnce = 1
	pause := min(firstPause<<min(failures-1, 10), lastPause)
	s.retry = now + pause/2 + time.Duration(s.random()*float64(pause/2))
}

// Retry returns the time before which Open returns 0 because of failures; it may be past.
func (s *Sizer) Retry() time.Duration { return s.retry }

// Want returns the target number of ready trunks.
func (s *Sizer) Want(now time.Duration) int {
	need := 0.0
	if most := s.peak.most(now); most > 0 {
		need = readyMargin*float64(most) + readySpare
	}
	s.target = max(need, s.target*math.Exp(-(now-s.targetAt).Seconds()/shrinkTime.Seconds()))
	s.targetAt = now
	return min(max(int(math.Ceil(s.target)), s.min), s.max)
}

// Open returns how many trunks to open, given the ready ones and those being opened.
func (s *Sizer) Open(now time.Duration, ready, opening int) int {
	if now < s.retry {
		return 0
	}
	return max(0, min(s.Want(now)-ready-opening, s.atOnce-opening))
}

// Close returns how many ready trunks to close.
func (s *Sizer) Close(now time.Duration, ready int) int { return max(0, ready-s.Want(now)) }
