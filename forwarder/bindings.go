package forwarder

import (
	"context"
	"time"

	kernel "baton/datapath/forwarder"
)

// sweepBindings has the kernel forget remembered flows that are old, until ctx ends.
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

// sweepOnce reports whether there may be another one. It holds nobody up who carries out messages.
func (f *Forwarder) sweepOnce() bool {
	f.sweeping.Lock()
	defer f.sweeping.Unlock()
	if f.swept {
		return false
	}
	if _, err := f.kernel.SweepBindings(); err != nil {
		f.log.Error("remembered flows are not forgotten", "error", err)
	}
	return true
}

// endSweeps returns when the kernel is not asked any more.
func (f *Forwarder) endSweeps() {
	f.sweeping.Lock()
	defer f.sweeping.Unlock()
	f.swept = true
}
