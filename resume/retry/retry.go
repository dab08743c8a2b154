// Package retry says when and where a download that has broken off is tried again, and when it is given up. It is pure: times and
// randomness are passed in.
//
// A break within the content is taken for a change of servers, and the next try is made at once; a failure in the handshake is taken
// for an outage (Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks", section 3.1.1), and ends the download unless there is
// another mirror, or Policy.Outages. What brings no bytes is tried again after a time that doubles, and so many times in a row at most.
package retry

import (
	"fmt"
	"time"
)

// Policy bounds tries. The zero value is not useful: see Default.
type Policy struct {
	Tries   int           // failures in a row without bytes; 0: none is tried again
	Time    time.Duration // since the last bytes, 0: unbounded
	First   time.Duration // wait after the second failure in a row; the first is tried again at once
	Most    time.Duration // wait at most, but for what a server asks for
	Patient time.Duration // what a server may ask for; longer is as if it refused
	Outages bool          // try again, too, after every mirror's handshake has failed
}

// Default is for a download that somebody waits for.
func Default() Policy {
	return Policy{Tries: 10, First: 250 * time.Millisecond, Most: 20 * time.Second, Patient: 5 * time.Minute}
}

// Stage is how far a try came.
type Stage int

// The stages.
const (
	Handshake Stage = iota // no connection: name, TCP or TLS
	Head                   // a connection, and no answer that can be used
	Busy                   // the server asks for patience
	Body                   // an answer, and its content broke off
	Useless                // the mirror has not what is wanted, and will not have it
)

// Failure is a try that has ended.
type Failure struct {
	Stage  Stage
	Source int           // whose it was, from 0
	Bytes  int64         // that it brought
	After  time.Duration // Busy: what the server asked for
}

// Decision is what to do now.
type Decision struct {
	GiveUp string // why nothing is tried any more, "" to go on
	Source int    // to be tried
	Wait   time.Duration
}

// refill is how many bytes undo one failure: a server that breaks off after each byte is not tried for ever.
const refill = 1 << 10

// many breaks in so short a time have tries spread out: others see the same (a route that moves takes all its connections).
const (
	many  = 8
	short = 10 * time.Second
	lap   = 50 * time.Millisecond // spread at most
	part  = 40                    // of the time between breaks: what spreading may cost
)

// Schedule holds what has happened so far.
type Schedule struct {
	policy  Policy
	random  func() float64 // in [0, 1)
	sources []source
	failed  float64   // in a row, less what bytes have undone
	since   time.Time // of the first of those
	breaks  []time.Time
}

type source struct {
	out     bool // its handshake has failed since the last bytes of any
	tried   bool // without bytes, since the last bytes of any
	useless bool
}

// New begins at source 0 of so many.
func New(p Policy, sources int, random func() float64) *Schedule {
	return &Schedule{policy: p, random: random, sources: make([]source, sources)}
}

// Progress tells of bytes that came by a try that goes on.
func (s *Schedule) Progress(bytes int64) {
	s.failed = max(0, s.failed-float64(bytes)/refill)
	if bytes > 0 {
		for i := range s.sources {
			s.sources[i].out, s.sources[i].tried = false, false
		}
	}
}

// Others tells whether a source other than this one may still have what is wanted.
func (s *Schedule) Others(than int) bool {
	for i, c := range s.sources {
		if i != than && !c.useless {
			return true
		}
	}
	return false
}

// Failed decides what comes after a failure.
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
		return Decision{GiveUp: "no mirror has what is wanted"}
	case f.Stage == Handshake && !s.policy.Outages && s.allOut():
		return Decision{GiveUp: "no connection to any server"}
	case s.failed > float64(s.policy.Tries):
		return Decision{GiveUp: fmt.Sprintf("%d tries in a row brought nothing", int(s.failed))}
	}
	wait := s.wait(now, f)
	if f.Stage == Busy && next == f.Source {
		wait = max(wait, f.After)
	} else if fresh {
		wait = 0
	}
	if s.policy.Time > 0 && now.Add(wait).Sub(s.since) > s.policy.Time {
		return Decision{GiveUp: fmt.Sprintf("nothing came for %s", s.policy.Time)}
	}
	return Decision{Source: next, Wait: wait}
}

// next chooses a source: the same one after a break that brought bytes, else the one behind it. fresh is one that nothing is held
// against.
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

// wait is nothing after a single failure, and grows from the second one in a row on, half of it by chance.
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
