package datapath

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// read is the clock as last read: the time in units of 2^20 ns (1 ms) in the upper half, the clock in the lower.
var (
	read    atomic.Uint64
	started = time.Now()
)

// Clock is the programs' clock, in ms: CLOCK_MONOTONIC_COARSE, up to one ms late. The router's timestamps are taken from it before
// TSOffset is added. It is read by a system call, which takes longer than anything else that is done for a splice: hence once in
// each ms.
func Clock() uint32 {
	unit := uint32(time.Since(started)>>20) + 1 // not the zero value's
	if c := read.Load(); uint32(c>>32) == unit {
		return uint32(c)
	}
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts)
	now := uint32(ts.Nano() / int64(time.Millisecond))
	read.Store(uint64(unit)<<32 | uint64(now))
	return now
}
