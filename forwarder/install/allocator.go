package install

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"
)

// errFull reports that an array of the kernel has no free range of the size asked for.
var errFull = errors.New("the kernel's table is full")

// allocator hands out ranges of an array's indices. A range that packets may still be reading is freed after a grace period only.
type allocator struct {
	next, end uint32       // never used: [next, end)
	avail     [32][]uint32 // free ranges, by class
	deferred  [32][]uint32 // freed ranges that packets may still be reading, by class
	pending   bool         // deferred has any
	unmerged  bool         // free ranges may be adjacent
	settle    func() error
}

// newAllocator manages the indices [first, end). settle waits until no packet reads a range freed before the call.
func newAllocator(first, end int, settle func() error) *allocator {
	return &allocator{next: uint32(first), end: uint32(end), settle: settle}
}

// class is the smallest power of two that holds n.
func class(n int) int { return bits.Len32(uint32(max(n, 1) - 1)) }

// alloc returns the first index of a range of n. It waits for a grace period only when nothing else is free.
func (a *allocator) alloc(n int) (uint32, error) {
	c := class(n)
	if at, ok := a.find(c); ok {
		return at, nil
	}
	if a.pending {
		if err := a.settle(); err != nil {
			return 0, err
		}
		for i := range a.deferred {
			a.avail[i] = append(a.avail[i], a.deferred[i]...)
			a.deferred[i] = a.deferred[i][:0]
		}
		a.pending, a.unmerged = false, true
		if at, ok := a.find(c); ok {
			return at, nil
		}
	}
	return 0, errFull
}

// find searches the free ranges.
func (a *allocator) find(c int) (uint32, bool) {
	at, ok := a.pop(c)
	if !ok && a.unmerged {
		a.merge()
		at, ok = a.pop(c)
	}
	return at, ok
}

func (a *allocator) pop(c int) (uint32, bool) {
	if last := len(a.avail[c]) - 1; last >= 0 {
		at := a.avail[c][last]
		a.avail[c] = a.avail[c][:last]
		return at, true
	}
	if a.end-a.next >= 1<<c {
		a.next += 1 << c
		return a.next - 1<<c, true
	}
	return a.split(c)
}

// split cuts the range from a larger free one.
func (a *allocator) split(c int) (uint32, bool) {
	for larger := c + 1; larger < len(a.avail); larger++ {
		last := len(a.avail[larger]) - 1
		if last < 0 {
			continue
		}
		at := a.avail[larger][last]
		a.avail[larger] = a.avail[larger][:last]
		for ; larger > c; larger-- {
			a.avail[larger-1] = append(a.avail[larger-1], at+1<<(larger-1))
		}
		return at, true
	}
	return 0, false
}

// span is a free range of any length.
type span struct{ at, end uint32 }

// merge coalesces adjacent free ranges.
func (a *allocator) merge() {
	var all []span
	for c, list := range a.avail {
		for _, at := range list {
			all = append(all, span{at, at + 1<<c})
		}
		a.avail[c] = list[:0]
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	for len(all) > 0 {
		s := all[0]
		for all = all[1:]; len(all) > 0 && all[0].at == s.end; all = all[1:] {
			s.end = all[0].end
		}
		if s.end == a.next {
			a.next = s.at
			break // the last one
		}
		for s.at < s.end {
			c := bits.Len32(s.end-s.at) - 1
			a.avail[c] = append(a.avail[c], s.at)
			s.at += 1 << c
		}
	}
	a.unmerged = false
}

// deferFree frees a range of n that packets may be reading: it becomes free after the next grace period.
func (a *allocator) deferFree(at uint32, n int) {
	c := class(n)
	a.deferred[c] = append(a.deferred[c], at)
	a.pending = true
}

// free frees a range of n that was never published to packets.
func (a *allocator) free(at uint32, n int) {
	c := class(n)
	a.avail[c] = append(a.avail[c], at)
	a.unmerged = true
}

// grace waits for an RCU grace period: membarrier(2) documents the global command as equivalent to synchronize_rcu.
func grace() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, 1 /* MEMBARRIER_CMD_GLOBAL */, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
