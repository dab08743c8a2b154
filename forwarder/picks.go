package forwarder

import (
	"context"
	"time"

	"baton/datapath"
)

// sweepPicks has the kernel forget remembered flows that are old, until ctx ends.
func (f *Forwarder) sweepPicks(ctx context.Context) {
	tick := time.NewTicker(datapath.SweepPicksEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !f.sweepOnce() {
			return
		}
	}
}

// sweepOnce reports whether there may be another one.
func (f *Forwarder) sweepOnce() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	if _, err := f.kernel.SweepPicks(); err != nil {
		f.log.Error("remembered flows are not forgotten", "error", err)
	}
	return true
}
