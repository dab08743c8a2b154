package choice

import "time"

const (
	// Samples is the number of probes of a measurement, of which the minimum counts.
	Samples        = 5
	kept           = 4 // measurements of which the minimum counts: 20 probes, as in the paper (section 2.2)
	mostUnanswered = 2 // unanswered measurements in a row after which the target counts as unreachable
)

// Outcome is the result of a measurement.
type Outcome struct {
	RTT time.Duration // minimum; 0: no answer
	Why string        // why there was none
	// Never means that there will be none: the relay may not connect there.
	Never bool
	// Unreached means that the relay itself was not reached. This says nothing about its target.
	Unreached bool
}

// history is one relay's measurements of one target.
type history struct {
	due        time.Time // of the next measurement
	tried      bool      // one was made or attempted
	pending    bool      // one is running
	mins       [kept]time.Duration
	rounds     int
	unanswered int       // in a row, until now
	at         time.Time // of the last one
	why        string    // why it had no answer
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

// rtt is the minimum of the last measurements, 0 if it is unknown.
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
