package width_test

import (
	"testing"
	"time"

	"baton/resume/width"
)

// crowded plays connections that each live for so long from their begin on, or until the route moves, and are followed by others. It returns the
// longest time between two begins in the last of its seconds, and how many connections there were then on the average.
func crowded(n int, life, moves time.Duration) (apart time.Duration, mean float64) {
	const gap = 60 * time.Millisecond
	var s width.Spacing
	start := time.Unix(1000, 0)
	born := make([]time.Time, n) // all at once, as badly as can be
	for i := range born {
		born[i] = start
	}
	late, end := start.Add(10*time.Second), start.Add(14*time.Second)
	last := late
	for now := start; now.Before(end); now = now.Add(time.Millisecond) {
		moved := moves > 0 && now.Sub(start)%moves == 0
		for i := range born {
			if old := now.Sub(born[i]); old > 0 && (old >= life || moved) {
				born[i] = now.Add(s.Broke(now, born[i], gap))
			}
			if now.Before(late) {
				continue
			}
			if born[i].Equal(now) {
				apart, last = max(apart, now.Sub(last)), now
			}
			if !born[i].After(now) {
				mean += 1 / float64(end.Sub(late).Milliseconds())
			}
		}
	}
	return apart, mean
}

func TestSpacing(t *testing.T) {
	t.Run("connections that started together drift apart", func(t *testing.T) {
		if apart, mean := crowded(12, time.Second, 0); apart > 450*time.Millisecond || mean < 11.9 {
			t.Errorf("%s between two begins, %.1f connections", apart, mean)
		}
	})
	t.Run("a route that moves is followed at once", func(t *testing.T) {
		for _, every := range []time.Duration{900 * time.Millisecond, 2100 * time.Millisecond} {
			if _, mean := crowded(12, time.Hour, every); mean < 11 {
				t.Errorf("every %s: %.1f connections", every, mean)
			}
		}
	})
	t.Run("clocks jump", func(t *testing.T) {
		var s width.Spacing
		now := time.Unix(1000, 0)
		for _, jump := range []time.Duration{time.Second, -24 * time.Hour, 48 * time.Hour, -time.Hour, 0} {
			now = now.Add(jump)
			if wait := s.Broke(now, now.Add(-time.Second), 100*time.Millisecond); wait < 0 || wait > time.Second {
				t.Errorf("after a jump of %s: %s", jump, wait)
			}
		}
	})
}
