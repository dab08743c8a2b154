package level

import "time"

// patience is for how many dwells a site believes what it has seen a level to be worth, before it tries whether that is still so.
const patience = 10

// Shed is what a level was seen to be worth: the load when it was entered, and what it had become when its dwell was over. Whoever
// comes back for all that was given away has to give it away again, and again.
type Shed struct {
	before, after float64
	left          time.Duration
	tries         int // that ended where they had begun
}

// Enter has the level begin.
func (s *Shed) Enter(at time.Duration, load float64, dwell time.Duration) {
	tries := 0
	if s.left > 0 && at-s.left < 3*dwell {
		tries = min(s.tries+1, 8)
	}
	*s = Shed{before: load, tries: tries}
}

// Leave has it end.
func (s *Shed) Leave(at time.Duration) { s.left = at }

// Settle records the load once the dwell is over; passed is how long the level has been in force.
func (s *Shed) Settle(passed time.Duration, load float64, dwell time.Duration) {
	if s.after == 0 && passed >= dwell {
		s.after = load
	}
}

// Regained is what the load would be without the level.
func (s *Shed) Regained(passed time.Duration, load float64, dwell time.Duration) float64 {
	if s.before <= s.after || s.after <= 0 || passed > dwell*patience<<s.tries {
		return load
	}
	return load * min(s.before/s.after, 100)
}
