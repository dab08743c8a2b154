package level

import "time"

// patience is how many dwells a site relies on what a level was seen to shed, before it tries whether that still holds.
const patience = 10

// Shed records how much load a level has shed: the load when the level was entered, and when its dwell was over. A site that takes
// everything back would have to shed it again and again.
type Shed struct {
	before, after float64
	left          time.Duration
	tries         int // failed attempts to leave the level
}

// Enter starts a level.
func (s *Shed) Enter(at time.Duration, load float64, dwell time.Duration) {
	tries := 0
	if s.left > 0 && at-s.left < 3*dwell {
		tries = min(s.tries+1, 8)
	}
	*s = Shed{before: load, tries: tries}
}

// Leave ends it.
func (s *Shed) Leave(at time.Duration) { s.left = at }

// Settle records the load once the dwell is over; passed is how long the level has been in force.
func (s *Shed) Settle(passed time.Duration, load float64, dwell time.Duration) {
	if s.after == 0 && passed >= dwell {
		s.after = load
	}
}

// Regained estimates the load without the level.
func (s *Shed) Regained(passed time.Duration, load float64, dwell time.Duration) float64 {
	if s.before <= s.after || s.after <= 0 || passed > dwell*patience<<s.tries {
		return load
	}
	return load * min(s.before/s.after, 100)
}
