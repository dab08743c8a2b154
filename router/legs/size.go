package legs

import "time"

// sizer finds how many idle legs of one class are to be kept ready. It is told, each tick, what happened since the last.
//
// Legs that come back need no replacement: then the pool has to cover the spread of what is in use at once. Legs that are used
// up (the surrogate closes after each response) have to be there before they are needed: then it covers what is taken
// while new ones are being opened.
type sizer struct {
	floor, ceiling int
	want           int
	lowest         int // fewest idle legs seen in this window
	started        time.Time
}

const (
	sizeWindow = 5 * time.Second // a pool shrinks only when it had a surplus for this long
	headroom   = 3               // ticks of consumption that are kept ready
)

// tick returns how many idle legs are wanted. taken: legs that requests took; spent: those of them that did not come back;
// missed: requests that found none.
func (s *sizer) tick(now time.Time, idle, taken, spent, missed int) int {
	if s.started.IsZero() {
		s.started, s.lowest, s.want = now, idle, s.floor
	}
	s.lowest = min(s.lowest, idle)
	want := s.want
	if missed > 0 {
		want += max(missed, want/2)
	} else if taken > 0 && idle < want/4 {
		want += max(want/4, 1)
	}
	want = max(want, headroom*spent)
	if now.Sub(s.started) >= sizeWindow {
		if s.lowest > want/2 {
			want -= (s.lowest - want/2) / 2
		}
		s.started, s.lowest = now, idle
	}
	s.want = min(max(want, s.floor), s.ceiling)
	return s.want
}
