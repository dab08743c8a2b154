package endhost

import (
	"errors"
	"testing"
	"time"

	"baton/experiments/load"
)

func TestMoved(t *testing.T) {
	began := time.Now()
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	flow := func(due, connected float64) load.Exchange {
		return load.Exchange{Due: at(due), Connected: at(connected)}
	}
	never := func(due float64) load.Exchange {
		return load.Exchange{Due: at(due), Err: errors.New("nothing came")}
	}
	tests := []struct {
		name  string
		flows []load.Exchange
		last  time.Duration
		late  int
	}{
		{"none is late", []load.Exchange{flow(4.9, 4.95), flow(5.1, 5.2), flow(9, 9.9)}, 0, 0},
		{"a SYN was lost", []load.Exchange{flow(5.1, 5.2), flow(5.15, 6.151), flow(5.2, 5.3)}, 150 * time.Millisecond, 1},
		{"never connected, reported as they ended", []load.Exchange{flow(5.3, 5.4), never(5.19), never(5.05), never(5.3)}, 300 * time.Millisecond, 3},
		{"one that is late for another reason", []load.Exchange{never(5.05), flow(5.1, 5.2), flow(5.4, 5.5), never(8)}, 50 * time.Millisecond, 2},
		{"before the failure, and after the link was back", []load.Exchange{never(4.99), never(10)}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			last, late := moved(tt.flows, at(5), at(10))
			if (last-tt.last).Abs() > time.Microsecond || late != tt.late {
				t.Errorf("%v, %d late; want %v, %d", last, late, tt.last, tt.late)
			}
		})
	}
}

func TestUseful(t *testing.T) {
	began := time.Now()
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	files := []load.Exchange{
		{Due: at(1), Ended: at(2), Bytes: 100},
		{Due: at(9), Ended: at(11), Bytes: 100},                         // half of it in time
		{Due: at(10.5), Ended: at(11), Bytes: 100},                      // none of it
		{Due: at(3), Ended: at(4), Bytes: 70, Err: errors.New("reset")}, // lost
	}
	if got := useful(files, began, 10*time.Second); got < 149.99 || got > 150.01 {
		t.Errorf("%v bytes, want 150", got)
	}
}

// TestMixedFiles: round-robin files do not always meet the same round-robin links.
func TestMixedFiles(t *testing.T) {
	for _, k := range courses {
		n := len(k.files())
		for _, cycle := range []int{2, 3} {
			if n > 1 && n%cycle == 0 {
				t.Errorf("%s: %d files, which %d links or weights divide", k.name, n, cycle)
			}
		}
	}
}
