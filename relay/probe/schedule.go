package probe

import (
	"cmp"
	"net/netip"
	"strings"
	"time"
)

// Target is a port to measure.
type Target struct {
	Name    string // of the node, as in a matrix
	Address netip.AddrPort
}

func (t Target) compare(o Target) int {
	return cmp.Or(strings.Compare(t.Name, o.Name), t.Address.Compare(o.Address))
}

// schedule decides which target to measure next. It is pure: times are passed in. A new target is due at once, others a randomised interval
// after their last measurement, so that those of many relays are spread.
type schedule struct {
	every   time.Duration
	most    int            // in parallel
	random  func() float64 // in [0, 1)
	slots   map[Target]*slot
	running int
}

type slot struct {
	due     time.Time
	running bool
	gone    bool // while it is running
}

func newSchedule(every time.Duration, most int, random func() float64) *schedule {
	return &schedule{every: every, most: most, random: random, slots: make(map[Target]*slot)}
}

// set replaces the targets. The state of remaining ones is kept.
func (s *schedule) set(now time.Time, targets []Target) {
	before := s.slots
	s.slots = make(map[Target]*slot)
	for _, t := range targets {
		s.slots[t] = &slot{due: now}
		if old, ok := before[t]; ok {
			old.gone = false
			s.slots[t] = old
		}
	}
	for t, old := range before {
		if _, stays := s.slots[t]; !stays && old.running {
			old.gone = true
			s.slots[t] = old
		}
	}
}

// next returns the target that has been due for the longest and marks it as running, if another one may start.
func (s *schedule) next(now time.Time) (Target, bool) {
	var best Target
	found := false
	if s.running >= s.most {
		return best, false
	}
	for t, slot := range s.slots {
		if slot.running || slot.due.After(now) {
			continue
		}
		if !found || cmp.Or(slot.due.Compare(s.slots[best].due), t.compare(best)) < 0 {
			best, found = t, true
		}
	}
	if found {
		s.slots[best].running = true
		s.running++
	}
	return best, found
}

// done completes a measurement, and reports whether the target still exists.
func (s *schedule) done(now time.Time, t Target) bool {
	slot := s.slots[t]
	s.running--
	slot.running = false
	slot.due = now.Add(time.Duration((0.9 + 0.2*s.random()) * float64(s.every)))
	if slot.gone {
		delete(s.slots, t)
	}
	return !slot.gone
}

// wake returns when next will have a target, if that only takes time.
func (s *schedule) wake() (time.Time, bool) {
	var at time.Time
	found := false
	for _, slot := range s.slots {
		if !slot.running && s.running < s.most && (!found || slot.due.Before(at)) {
			at, found = slot.due, true
		}
	}
	return at, found
}
