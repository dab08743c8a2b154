package check

import (
	"fmt"
	"math"
	"time"
)

// rate computes a counter's growth per second.
type rate struct {
	value float64
	at    time.Time
}

// add adds a sample of the counter. The first sample gives no rate; after a counter reset the next one is the first again.
func (r *rate) add(value float64, at time.Time) (perSecond float64, ready bool, err error) {
	if err := plausible(value); err != nil {
		return 0, false, err
	}
	before := *r
	*r = rate{value, at}
	passed := at.Sub(before.at).Seconds() // on the monotonic clock
	if before.at.IsZero() || value < before.value || passed <= 0 {
		return 0, false, nil
	}
	return (value - before.value) / passed, true, nil
}

// plausible rejects impossible loads, which would make a site shed everything or nothing.
func plausible(value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return fmt.Errorf("%v is no load", value)
	}
	return nil
}
