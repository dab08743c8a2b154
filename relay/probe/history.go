package probe

import "time"

const (
	kept           = 4 // measurements that the least is looked for in
	mostUnanswered = 2 // measurements in a row without an answer: the target is out of reach
	stale          = 3 // intervals without a measurement: nothing is known any more
)

// history is the last measurements of a target.
type history struct {
	rounds     int // that were made
	mins       [kept]time.Duration
	unanswered int // the last ones without an answer, in a row
	last       Result
	at         time.Time
	err        error
}

// add notes a measurement; one that could not be made says nothing of the target.
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

// rtt is the least of the last measurements, 0 if it is not known.
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
