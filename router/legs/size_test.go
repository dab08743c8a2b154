package legs

import (
	"testing"
	"time"
)

// load is a steady demand in a simulation: requests a tick, of which a share finds no leg while there are too few.
type load struct {
	perTick  int           // requests
	active   int           // sessions at once
	spends   bool          // the surrogate closes after each response
	every    time.Duration // between ticks; more than tickEvery on a busy machine
	openTime int           // ticks from a SYN to an idle leg
}

// run feeds the sizer for a time and returns the most and the last that it wanted, and the misses of the last second.
func (l load) run(s *sizer, start time.Time, length time.Duration) (most, last, missed int) {
	idle, out, opening := s.floor, 0, make([]int, l.openTime+1)
	late := int(l.every / tickEvery)
	for at := time.Duration(0); at < length; at += l.every {
		idle += opening[0]
		opening = append(opening[1:], 0)
		asked := l.perTick * late
		taken := min(asked, idle)
		idle -= taken
		out += taken
		spent := 0
		if l.spends {
			spent = taken
		} else if back := max(0, out-l.active); back > 0 {
			idle, out = idle+back, out-back
		}
		d := demand{idle: idle, active: l.active, taken: taken, spent: spent, missed: asked - taken}
		last = s.tick(start.Add(at), d)
		most = max(most, last)
		pending := 0
		for _, n := range opening {
			pending += n
		}
		opening[l.openTime] += min(max(0, last-idle-pending), openBatch)
		if at > length-time.Second {
			missed += asked - taken
		}
	}
	return most, last, missed
}

func TestPoolFollowsDemand(t *testing.T) {
	for _, tt := range []struct {
		name   string
		load   load
		atMost int // legs wanted; what Debian's servers bear is some 500
		noMiss bool
	}{
		{"nothing", load{every: tickEvery}, 16, true},
		{"twenty clients, legs come back", load{perTick: 40, active: 20, every: tickEvery}, 300, true},
		{"twenty clients, each uses a leg up", load{perTick: 40, active: 20, spends: true, every: tickEvery}, 300, true},
		{"the same where ticks are late", load{perTick: 40, active: 20, spends: true, every: 10 * tickEvery}, 300, false},
		{"a surrogate far away", load{perTick: 10, active: 60, spends: true, every: tickEvery, openTime: 5}, 200, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &sizer{floor: 16, ceiling: 4096}
			start := time.Unix(1, 0)
			most, _, missed := tt.load.run(s, start, 4*time.Second)
			if most > tt.atMost {
				t.Errorf("%d idle legs wanted, want at most %d", most, tt.atMost)
			}
			if tt.noMiss && missed > 0 {
				t.Errorf("%d requests of the last second found no leg", missed)
			}
			// When the demand has ended the pool goes back to its floor.
			_, last, _ := load{every: tickEvery}.run(s, start.Add(4*time.Second), time.Minute)
			if last > 2*s.floor {
				t.Errorf("%d idle legs wanted a minute after the last request, want about %d", last, s.floor)
			}
		})
	}
}

func TestPoolStaysBelowItsCap(t *testing.T) {
	s := &sizer{floor: 16, ceiling: 50}
	most, _, _ := load{perTick: 100, active: 500, spends: true, every: tickEvery}.run(s, time.Unix(1, 0), time.Second)
	if most != 50 {
		t.Errorf("%d idle legs wanted, want the cap of 50", most)
	}
}
