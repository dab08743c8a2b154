package choice

import "time"

const (
	// Samples are probes of one measurement, of which the least counts.
	Samples        = 5
	kept           = 4 // measurements that the least is looked for in: of 20 probes, as in the paper (section 2.2)
	mostUnanswered = 2 // measurements in a row without an answer: nothing is known any more
)

// Outcome is what became of a measurement.
type Outcome struct {
	RTT time.Duration // the least; 0: there was no answer
	Why string        // there was none
	// Never says that there will be none: the relay may not connect there.
	Never bool
	// Unreached says that the relay itself was not reached, so that nothing is said of its target.
	Unreached bool
}

// history is what one relay has measured to one target.
type history struct {
	due        time.Time // of the next measurement
	tried      bool      // there was one, or an attempt
	pending    bool      // one is under way
	mins       [kept]time.Duration
	rounds     int
	unanswered int       // the last ones without an answer, in a row
	at         time.Time // of the last one
	why        string    // it had no answer
}

func (h *history) add(now time.Time, o Outcome) {
	h.tried, h.why = true, o.Why
	switch {
	case o.Unreached:
		return
	case o.Never:
		h.mins, h.unanswered = [kept]time.Duration{}, mostUnanswered
	case o.RTT == 0:
		h.unanswered++
		h.mins[h.rounds%kept] = 0
		h.rounds++
	default:
		h.unanswered = 0
		h.mins[h.rounds%kept] = o.RTT
		h.rounds++
	}
	h.at = now
}

// rtt is the least of the last measurements, 0 if it is not known.
func (h *history) rtt() time.Duration {
	if h.unanswered >= mostUnanswered {
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
