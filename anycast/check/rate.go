package check

import (
	"fmt"
	"math"
	"time"
)

// rate makes the growth per second of a counter.
type rate struct {
	value float64
	at    time.Time
}

// take adds a sample of the counter. The first sample gives no rate; after a counter reset the next one is the first again.
func (r *rate) take(value float64, at time.Time) (perSecond float64, ready bool, err error) {
	if err := plausible(value); err != nil {
		return 0, false, err
	}
	before := *r
	*r = rate{value, at}
	passed := at.Sub(before.at).Seconds() // of a clock that nobody sets
	if before.at.IsZero() || value < before.value || passed <= 0 {
		return 0, false, nil
	}
	return (value - before.value) / passed, true, nil
}

// plausible refuses what no load is: whoever believed it would shed all clients, or none.
func plausible(value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		return fmt.Errorf("%v is no load", value)
	}
	return nil
}
