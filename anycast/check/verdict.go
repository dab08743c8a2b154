package check

import (
	"time"

	"baton/anycast/level"
)

// verdict believes what it sees only when it has seen it several times in a row.
type verdict struct {
	rise, fall int
	health     level.Health
	seen       level.Health // last
	row        int          // how often in a row
	last       string
	fault      string // that has made it Down
	at         time.Time
}

func newVerdict(rise, fall int) verdict { return verdict{rise: rise, fall: fall} }

// take counts a result and reports whether the health has changed.
func (v *verdict) take(err error, at time.Time) (changed bool) {
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
