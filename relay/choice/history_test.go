package choice

import (
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	var h history
	for i, step := range []struct {
		o    Outcome
		want time.Duration
	}{
		{Outcome{Unreached: true, Why: "no_trunk"}, 0},
		{Outcome{RTT: 30}, 30},
		{Outcome{RTT: 20}, 20},
		{Outcome{Unreached: true}, 20},
		{Outcome{RTT: 40}, 20},
		{Outcome{Why: "no answer"}, 20},
		{Outcome{RTT: 50}, 20},
		{Outcome{RTT: 50}, 40},
		{Outcome{Why: "no answer"}, 50},
		{Outcome{Why: "no answer"}, 0},
		{Outcome{RTT: 60}, 50},
		{Outcome{Never: true}, 0},
		{Outcome{RTT: 70}, 70},
	} {
		if h.add(start, step.o); h.rtt() != step.want {
			t.Errorf("after step %d, %+v: %d, want %d", i, step.o, h.rtt(), step.want)
		}
	}
	if !h.tried || !h.at.Equal(start) {
		t.Errorf("%+v", h)
	}
}
