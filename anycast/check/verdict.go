package check

import (
	"time"

	"baton/anycast/level"
)

// verdict changes the health only after several equal results in a row.
type verdict struct {
	rise, fall int
	health     level.Health
	seen       level.Health // last
	row        int          // how often in a row
	last       string
	fault      string // failure that made it Down
	at         time.Time
}

func newVerdict(rise, fall int) verdict { return verdict{rise: rise, fall: fall} }

// record counts a result and reports whether the health has changed.
func (v *verdict) record(err error, at time.Time) (changed bool) {
	seen, needed := level.Up, v.rise
	v.at, v.last = at, ""
	if err != nil {
		seen, needed, v.last = level.Down, v.fall, err.Error()
	}
	if seen != v.seen {
		v.seen, v.row = seen, 0
	}
	if v.row = min(v.row+1, needed); v.row < needed || v.health == seen {
		return false
	}
	v.health = seen
	if seen == level.Down {
		v.fault = v.last
	}
	return true
}
