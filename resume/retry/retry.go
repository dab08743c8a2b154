// Package retry decides when and where to retry a download that broke off, and when to give up. It is pure: callers pass time and
// randomness.
//
// A break within the content is assumed to be a change of servers, and is retried at once; a failed handshake is assumed to be an outage
// (Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks", section 3.1.1), and ends the download unless there is another
// mirror, or Policy.Outages. Tries without bytes are repeated with exponential backoff, up to a number in a row.
package retry

import (
	"fmt"
	"time"
)

// Policy bounds tries. The zero value is not useful: see Default.
type Policy struct {
	Tries   int           // consecutive failures without bytes; 0: no retries
	Time    time.Duration // since the last bytes, 0: no limit
	First   time.Duration // delay after the second consecutive failure; the first is retried at once
	Most    time.Duration // largest delay, except if a server asks for more
	Patient time.Duration // largest delay that a server may ask for; beyond, it counts as refusal
	Outages bool          // retry even after every mirror's handshake has failed
}

// Default is for interactive downloads.
func Default() Policy {
	return Policy{Tries: 10, First: 250 * time.Millisecond, Most: 20 * time.Second, Patient: 5 * time.Minute}
}

// Stage is how far a try got.
type Stage int

// The stages.
const (
	Handshake Stage = iota // no connection: name, TCP or TLS
	Head                   // a connection, but no usable answer
	Busy                   // the server asks to retry later
	Body                   // an answer whose content broke off
	Useless                // the mirror does not have the file, and will not
)

// Failure is a try that has failed.
type Failure struct {
	Stage  Stage
	Source int           // index of its source
	Bytes  int64         // received
	After  time.Duration // Busy: as the server asked
}

// Decision is the next step.
type Decision struct {
	GiveUp string // why to stop, "" to continue
	Source int    // to try next
	Wait   time.Duration
}

// refill is how many bytes undo one failure: a server that breaks off after each byte is not retried forever.
const refill = 1 << 10

// After many breaks within a short time tries are spread out: other clients see the same, because a moved route breaks all its connections.
const (
	many  = 8
	short = 10 * time.Second
	lap   = 50 * time.Millisecond // largest spread
	part  = 40                    // share of the time between breaks that spreading may cost
)

// Schedule holds the history of a download.
type Schedule struct {
	policy  Policy
	random  func() float64 // in [0, 1)
	sources []source
	failed  float64   // consecutive failures, less those undone by bytes
	since   time.Time // time of the first of those
	breaks  []time.Time
}

type source struct {
	out     bool // its handshake has failed since any bytes arrived
	tried   bool // tried without success since any bytes arrived
	useless bool
}

// New starts at source 0.
func New(p Policy, sources int, random func() float64) *Schedule {
	return &Schedule{policy: p, random: random, sources: make([]source, sources)}
}

// Progress records bytes received by a try that continues.
func (s *Schedule) Progress(bytes int64) {
	s.failed = max(0, s.failed-float64(bytes)/refill)
	if bytes > 0 {
		for i := range s.sources {
			s.sources[i].out, s.sources[i].tried = false, false
		}
	}
}

// Others reports whether another source may still have the file.
func (s *Schedule) Others(than int) bool {
	for i, c := range s.sources {
		if i != than && !c.useless {
			return true
		}
	}
	return false
}

// Failed decides what to do after a failure.
func (s *Schedule) Failed(now time.Time, f Failure) Decision {
	if s.failed == 0 || f.Bytes >= refill {
		s.since = now
	}
	s.Progress(f.Bytes)
	from := &s.sources[f.Source]
	from.tried = true
	switch f.Stage {
	case Handshake:
		from.out = true
	case Useless:
		from.useless = true
	case Busy:
		from.useless = from.useless || f.After > s.policy.Patient
	}
	s.failed++
	next, fresh, ok := s.next(f)
	switch {
	case !ok:
		return Decision{GiveUp: "no mirror has the file"}
	case f.Stage == Handshake && !s.policy.Outages && s.allOut():
		return Decision{GiveUp: "no connection to any server"}
	case s.failed > float64(s.policy.Tries):
		return Decision{GiveUp: fmt.Sprintf("%d consecutive tries brought no data", int(s.failed))}
	}
	wait := s.wait(now, f)
	if f.Stage == Busy && next == f.Source {
		wait = max(wait, f.After)
	} else if fresh {
		wait = 0
	}
	if s.policy.Time > 0 && now.Add(wait).Sub(s.since) > s.policy.Time {
		return Decision{GiveUp: fmt.Sprintf("nothing received for %s", s.policy.Time)}
	}
	return Decision{Source: next, Wait: wait}
}

// next chooses a source: the same one after a break that brought bytes, else the following one. fresh is one without failures.
func (s *Schedule) next(f Failure) (next int, fresh, ok bool) {
	if f.Stage == Body && f.Bytes > 0 && !s.sources[f.Source].useless {
		return f.Source, false, true
	}
	for _, out := range []bool{false, true} {
		for i := 1; i <= len(s.sources); i++ {
			at := (f.Source + i) % len(s.sources)
			if c := s.sources[at]; !c.useless && c.out == out {
				return at, !c.tried, true
			}
		}
	}
	return 0, false, false
}

func (s *Schedule) allOut() bool {
	for _, c := range s.sources {
		if !c.out && !c.useless {
			return false
		}
	}
	return true
}

// wait returns no delay after a single failure, and an increasing one from the second consecutive failure on, half of it random.
func (s *Schedule) wait(now time.Time, f Failure) time.Duration {
	if f.Stage == Body {
		s.breaks = append(s.breaks, now)
		s.breaks = s.breaks[max(0, len(s.breaks)-many):]
	}
	if s.failed < 2 {
		return s.spread(now)
	}
	wait := s.policy.First
	for n := 2.0; n+1 <= s.failed && wait < s.policy.Most; n++ {
		wait *= 2
	}
	wait = min(wait, s.policy.Most)
	return wait/2 + time.Duration(s.random()*float64(wait/2))
}

func (s *Schedule) spread(now time.Time) time.Duration {
	if len(s.breaks) < many {
		return 0
	}
	span := now.Sub(s.breaks[0])
	if span < 0 || span > short {
		return 0
	}
	return time.Duration(s.random() * float64(min(lap, span/many/part)))
}
