package probe

import "time"

const (
	kept           = 4 // measurements of which the minimum counts
	mostUnanswered = 2 // unanswered measurements in a row after which the target counts as unreachable
	stale          = 3 // intervals without a measurement after which nothing is known
)

// history is the last measurements of a target.
type history struct {
	rounds     int // measurements made
	mins       [kept]time.Duration
	unanswered int // in a row, until now
	last       Result
	at         time.Time
	err        error
}

// add records a measurement. One that could not be made says nothing about the target.
func (h *history) add(now time.Time, r Result, err error) {
	if h.err = err; err != nil {
		return
	}
	h.mins[h.rounds%kept] = r.Min
	h.rounds++
	h.unanswered++
	if r.Answered() > 0 {
		h.unanswered = 0
	}
	h.last, h.at = r, now
}

// rtt is the minimum of the last measurements, 0 if it is unknown.
func (h *history) rtt(now time.Time, every time.Duration) time.Duration {
	if h.unanswered >= mostUnanswered || now.Sub(h.at) > stale*every {
		return 0
	}
	var least time.Duration
	for _, d := range h.mins {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}
