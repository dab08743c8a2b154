package datapath

import (
	"math/bits"

	"github.com/cilium/ebpf/ringbuf"
)

// ErrClosed says that the reader was closed.
var ErrClosed = ringbuf.ErrClosed

// RingSize is a size of a ring, which must be a power of two, that holds so many records of a number of bytes, between least and most.
func RingSize(records, size int, least, most uint32) uint32 {
	const header = 8 // of a record
	want := min(max(records*(size+header), int(least)), int(most))
	return uint32(1) << bits.Len(uint(want-1))
}
