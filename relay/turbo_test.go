package relay

import (
	"testing"
	"time"
)

// Trunks that wait are outgrown when the window is twice what it was when the last were, or what it has fallen to.
func TestOutgrown(t *testing.T) {
	p := path{window: 40, base: 40}
	began := time.Now()
	for i, tt := range []struct {
		window   int
		outgrown bool
	}{
		{60, false}, {79, false}, {80, true}, {80, false}, {159, false}, {400, true}, {200, false}, {399, false}, {400, true}, {300, false}, {599, false}, {600, true},
	} {
		now := began.Add(time.Duration(i+1) * time.Second)
		p.window = tt.window
		p.adopted(now)
		if got := p.since.Equal(now); got != tt.outgrown {
			t.Errorf("%d, window %d: outgrown %v, want %v", i, tt.window, got, tt.outgrown)
		}
	}
}
