package worker

import (
	"sync/atomic"

	"baton/relay/config"
)

// Counters are what a worker has done since its start. They are read from any goroutine.
type Counters struct {
	Flows   atomic.Uint64
	Live    atomic.Int64
	Refused atomic.Uint64 // servers that could not be had
	Copied  atomic.Uint64 // bytes
	Spliced atomic.Uint64 // bytes
	NoPipe  atomic.Uint64 // splices for which no pipe was to be had
	Full    atomic.Uint64 // times that no more flows were accepted for a while
	Expired [waitKinds]atomic.Uint64
}

// Counters are the worker's own; the caller only reads.
func (w *Worker) Counters() *Counters { return &w.count }

// configure puts a configuration in force.
func (w *Worker) configure(cfg *config.Config) {
	w.cfg = cfg
	t := cfg.Timeouts
	w.waits[waitHeader].after = t.Header
	w.waits[waitConnect].after = t.Connect
	w.waits[waitAccept].after = t.Early
	w.waits[waitBytes].after = t.Idle
	w.waits[waitAbort].after = t.Reset
}
