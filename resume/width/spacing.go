package width

import "time"

// Spacing has connections begin apart from each other, so that they end apart: a dozen that begin together fill the path's queue together, end
// together, and leave the path empty until their successors are there. Where a route moves they end together whenever they
// began, and all that is to be done is to begin again at once.
type Spacing struct {
	opened time.Time // last begin that was planned
	broke  time.Time // last break that no other was near before
	born   time.Time // begin of the connection that broke then
	moves  bool      // connections break together, whatever their age
}

// near is how far apart breaks are at most that have the same cause.
const near = 50 * time.Millisecond

// Gap is how far apart connections begin, when there are so many: a good part of what would be even, but no longer than one takes to become fast, as
// then it fills the path for the next one.
func (p Path) Gap(lanes int) time.Duration {
	return min(p.Life*17/20/time.Duration(max(1, lanes)), p.Cost()*3/2)
}

// Broke is how long to wait before the place of a connection that broke now, and was begun at born, is taken by another.
func (s *Spacing) Broke(now, born time.Time, gap time.Duration) time.Duration {
	if now.Sub(s.broke).Abs() <= near {
		s.moves = s.moves || born.Sub(s.born).Abs() > 3*gap
		return s.Begin(now, gap)
	}
	if born.Before(s.broke) { // it has survived the break before
		s.moves = false
	}
	s.broke, s.born = now, born
	return s.Begin(now, gap)
}

// Free tells whether one more connection may be begun now; it is taken for begun then.
func (s *Spacing) Free(now time.Time, gap time.Duration) bool {
	if at := s.opened.Add(gap); at.After(now) && at.Sub(now) <= maxWait {
		return false
	}
	s.opened = now
	return true
}

// Begin is how long to wait before a connection is begun.
func (s *Spacing) Begin(now time.Time, gap time.Duration) time.Duration {
	if s.moves {
		gap = 0
	}
	at := s.opened.Add(gap)
	if at.Before(now) || at.Sub(now) > maxWait { // the clock has jumped
		at = now
	}
	s.opened = at
	return at.Sub(now)
}

// maxWait is longer than there is reason to wait: as many gaps as there may be connections are less than a life and a half.
const maxWait = time.Minute
