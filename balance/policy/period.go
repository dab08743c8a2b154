package policy

import (
	"time"

	"baton/balance/config"
)

// Period returns the period of a cap that contains a time, in the time's zone. A first day that a month does not have is its last day.
func Period(now time.Time, c config.Cap) (begin, end time.Time) {
	y, m, d := now.Date()
	day := func(d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, now.Location()) }
	switch c.Every {
	case config.Day:
		return day(d), day(d + 1)
	case config.Week:
		monday := d - (int(now.Weekday())+6)%7
		first := monday + max(c.Day, 1) - 1
		if first > d {
			first -= 7
		}
		return day(first), day(first + 7)
	default:
		of := func(m time.Month) time.Time {
			last := time.Date(y, m+1, 0, 0, 0, 0, 0, now.Location()).Day()
			return time.Date(y, m, min(max(c.Day, 1), last), 0, 0, 0, 0, now.Location())
		}
		if of(m).After(now) {
			return of(m - 1), of(m)
		}
		return of(m), of(m + 1)
	}
}
