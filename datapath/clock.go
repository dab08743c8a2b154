package datapath

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is the programs' clock, in ms: CLOCK_MONOTONIC_COARSE. The router's timestamps are taken from it before TSOffset is added.
func Clock() uint32 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts)
	return uint32(ts.Nano() / int64(time.Millisecond))
}
