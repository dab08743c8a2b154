package forwarder

import (
	"context"
	"time"

	kernel "baton/datapath/forwarder"
)

// sweepBindings has the kernel remove expired flows from the binding table, until ctx ends.
func (f *Forwarder) sweepBindings(ctx context.Context) {
	tick := time.NewTicker(kernel.SweepBindingsEvery)
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

// sweepOnce reports whether to continue. It does not delay the handling of messages.
func (f *Forwarder) sweepOnce() bool {
	f.sweeping.Lock()
	defer f.sweeping.Unlock()
	if f.swept {
		return false
	}
	if _, err := f.kernel.SweepBindings(); err != nil {
		f.log.Error("expired bindings were not removed", "error", err)
	}
	return true
}

// endSweeps returns when no sweep is running and none will start.
func (f *Forwarder) endSweeps() {
	f.sweeping.Lock()
	defer f.sweeping.Unlock()
	f.swept = true
}
