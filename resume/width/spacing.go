package width

import "time"

// Spacing starts connections at different times, so that they end at different times: a dozen that start together fill the path's queue
// together, end together, and leave the path empty until their successors have started. When a route moves all of them end together anyway,
// and have to be started again at once.
type Spacing struct {
	opened time.Time // last planned start
	broke  time.Time // last break without another one close before
	born   time.Time // start of the connection that broke then
	moves  bool      // connections break together, whatever their age
}

// near is how far apart breaks with the same cause can be.
const near = 50 * time.Millisecond

// Gap returns the interval between starts for this many connections: almost an even spread, but no longer than a connection takes to become
// fast, because then it fills the path for the next one.
func (p Path) Gap(lanes int) time.Duration {
	return min(p.Life*17/20/time.Duration(max(1, lanes)), p.Cost()*3/2)
}

// Broke returns how long to wait before replacing a connection that was started at born and broke now.
func (s *Spacing) Broke(now, born time.Time, gap time.Duration) time.Duration {
	if now.Sub(s.broke).Abs() <= near {
		s.moves = s.moves || born.Sub(s.born).Abs() > 3*gap
		return s.Begin(now, gap)
	}
	if born.Before(s.broke) { // it survived the previous break
		s.moves = false
	}
	s.broke, s.born = now, born
	return s.Begin(now, gap)
}

// Free reports whether another connection may be started now, and if so counts it as started.
func (s *Spacing) Free(now time.Time, gap time.Duration) bool {
	if at := s.opened.Add(gap); at.After(now) && at.Sub(now) <= maxWait {
		return false
	}
	s.opened = now
	return true
}

// Begin returns how long to wait before starting a connection.
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

// maxWait is longer than any reasonable delay: the gaps of all connections add up to less than one and a half lives.
const maxWait = time.Minute
