package resume

import (
	"context"
	"time"
)

// divisible reports whether several connections can share the missing part.
func (s *Stream) divisible() bool {
	h := &s.have
	return !s.narrow && s.ranges && s.limit == nil && h.Offset > h.From && h.Validator.Strong() && s.options.Lanes >= 2 &&
		h.End()-h.Offset >= 4*leastPiece
}

// widen starts a wide part after a break, if that is worth it. Until then nothing else has the wide part.
//
// +checklocksignore
func (s *Stream) widen() bool {
	if !s.divisible() || s.ledger.path().Lanes(s.options.Lanes) < 2 {
		return false
	}
	w := s.begin(1)
	w.pieces.next = w.pieces.at
	w.start(nil, nil)
	return true
}

// How long the first connection runs before a second one is started without a break: then its slow start is over.
const (
	settledTrips = 10
	settledTime  = time.Second
	drainTrips   = 20 // most round trips in which the first one's window shrinks before the second one starts
)

// ahead starts a wide part before anything has broken, if a break would cost much of the rest: a second connection gets the second half,
// slightly less than the first one has left. Both finish at the same time, or the second one helps.
// Until it starts nothing else has the wide part.
//
// +checklocksignore
func (s *Stream) ahead() bool {
	c, now := s.content, time.Now()
	if now.Sub(s.looked) < 100*time.Millisecond {
		return false
	}
	s.looked = now
	left := s.have.End() - s.have.Offset
	if !s.divisible() || c.skip > 0 || c.left != left || left/2 > s.options.Window {
		return false
	}
	path := s.ledger.path()
	if path.Breaks > 0 || !path.Ahead(left) || now.Sub(c.began) < max(settledTime, settledTrips*path.Trip) || !s.ledger.may(0, s.options.Waste) {
		return false
	}
	w := s.begin(2)
	first := &piece{first: s.have.Offset, end: s.have.Offset + left*11/20, taken: true}
	w.pieces.all = []*piece{first, {first: first.end, end: w.pieces.end}}
	w.pieces.next = w.pieces.end
	s.content = nil
	w.draining, w.until = true, now.Add(drainTrips*path.Trip)
	w.start(c, first)
	return true
}

// begin creates a wide part without lanes.
func (s *Stream) begin(least int) *wide {
	w := &wide{s: s, have: s.have, least: least, changed: make(chan struct{}), over: make(chan struct{}), most: s.options.Lanes, ids: s.lane.id + 1,
		pieces: pieces{at: s.have.Offset, end: s.have.End(), window: s.options.Window}}
	w.ctx, w.stop = context.WithCancel(s.ctx)
	w.have.Overlap = 0
	w.spacing.Begin(time.Now(), 0)
	s.wide = w
	return w
}
