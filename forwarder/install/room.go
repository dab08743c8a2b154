package install

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"
)

// errFull says that the kernel's array has no room.
var errFull = errors.New("the kernel's table is full")

// room hands out ranges of an array's places. What is given back rests until no packet can be looking at it any more.
type room struct {
	next, end uint32       // never used: [next, end)
	free      [32][]uint32 // by class, as resting
	resting   [32][]uint32
	rests     bool // anything does
	apart     bool // free ranges may be neighbours
	settle    func() error
}

// newRoom has the places [first, end). settle waits until no packet is looking at what was put until then.
func newRoom(first, end int, settle func() error) *room {
	return &room{next: uint32(first), end: uint32(end), settle: settle}
}

// class is the smallest power of two that holds n.
func class(n int) int { return bits.Len32(uint32(max(n, 1) - 1)) }

// take returns the first of n places.
func (r *room) take(n int) (uint32, error) {
	c := class(n)
	if at, ok := r.find(c); ok {
		return at, nil
	}
	if r.rests {
		if err := r.settle(); err != nil {
			return 0, err
		}
		for i := range r.resting {
			r.free[i] = append(r.free[i], r.resting[i]...)
			r.resting[i] = r.resting[i][:0]
		}
		r.rests, r.apart = false, true
		if at, ok := r.find(c); ok {
			return at, nil
		}
	}
	return 0, errFull
}

// find looks among the free places.
func (r *room) find(c int) (uint32, bool) {
	at, ok := r.pop(c)
	if !ok && r.apart {
		r.merge()
		at, ok = r.pop(c)
	}
	return at, ok
}

func (r *room) pop(c int) (uint32, bool) {
	if last := len(r.free[c]) - 1; last >= 0 {
		at := r.free[c][last]
		r.free[c] = r.free[c][:last]
		return at, true
	}
	if r.end-r.next >= 1<<c {
		r.next += 1 << c
		return r.next - 1<<c, true
	}
	return r.split(c)
}

// split takes from a larger free range.
func (r *room) split(c int) (uint32, bool) {
	for larger := c + 1; larger < len(r.free); larger++ {
		last := len(r.free[larger]) - 1
		if last < 0 {
			continue
		}
		at := r.free[larger][last]
		r.free[larger] = r.free[larger][:last]
		for ; larger > c; larger-- {
			r.free[larger-1] = append(r.free[larger-1], at+1<<(larger-1))
		}
		return at, true
	}
	return 0, false
}

// span is a free range of any length.
type span struct{ at, end uint32 }

// merge makes free ranges as large as they get.
func (r *room) merge() {
	var all []span
	for c, list := range r.free {
		for _, at := range list {
			all = append(all, span{at, at + 1<<c})
		}
		r.free[c] = list[:0]
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	for len(all) > 0 {
		s := all[0]
		for all = all[1:]; len(all) > 0 && all[0].at == s.end; all = all[1:] {
			s.end = all[0].end
		}
		if s.end == r.next {
			r.next = s.at
			break // it is the last one
		}
		for s.at < s.end {
			c := bits.Len32(s.end-s.at) - 1
			r.free[c] = append(r.free[c], s.at)
			s.at += 1 << c
		}
	}
	r.apart = false
}

// put gives back the n places from at on, which packets may be looking at.
func (r *room) put(at uint32, n int) {
	c := class(n)
	r.resting[c] = append(r.resting[c], at)
	r.rests = true
}

// back gives back places that no packet has been led to.
func (r *room) back(at uint32, n int) {
	c := class(n)
	r.free[c] = append(r.free[c], at)
	r.apart = true
}

// grace waits until every packet that was being looked at has gone (synchronize_rcu, which this call is documented to be like).
func grace() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, 1 /* MEMBARRIER_CMD_GLOBAL */, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
