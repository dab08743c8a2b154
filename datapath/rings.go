package datapath

import "github.com/cilium/ebpf/ringbuf"

// ErrClosed says that the reader was closed.
var ErrClosed = ringbuf.ErrClosed
