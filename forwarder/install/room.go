package install

import (
	"errors"
	"math/bits"

	"golang.org/x/sys/unix"
)

// errFull says that the kernel's array has no room.
var errFull = errors.New("the kernel's table is full")

// room hands out ranges of an array's places. What is given back rests until no packet can be looking at it any more.
type room struct {
	changed   func() // has cached paths forgotten, which may lead to what rests
	next, end uint32 // never used: [next, end)
	free      [32][]uint32
	resting   [32][]uint32
}

func newRoom(first, end int, changed func()) *room {
	return &room{changed: changed, next: uint32(first), end: uint32(end)}
}

// class is the smallest power of two that holds n.
func class(n int) int { return bits.Len32(uint32(max(n, 1) - 1)) }

// take returns the first of n places.
func (r *room) take(n int) (uint32, error) {
	c := class(n)
	if len(r.free[c]) == 0 && r.end-r.next < 1<<c && len(r.resting[c]) > 0 {
		r.changed()
		if err := grace(); err != nil {
			return 0, err
		}
		for i := range r.resting {
			r.free[i] = append(r.free[i], r.resting[i]...)
			r.resting[i] = r.resting[i][:0]
		}
	}
	if last := len(r.free[c]) - 1; last >= 0 {
		at := r.free[c][last]
		r.free[c] = r.free[c][:last]
		return at, nil
	}
	if r.end-r.next >= 1<<c {
		r.next += 1 << c
		return r.next - 1<<c, nil
	}
	return r.split(c)
}

// split takes from a larger free range.
func (r *room) split(c int) (uint32, error) {
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
		return at, nil
	}
	return 0, errFull
}

// put gives back the n places from at on.
func (r *room) put(at uint32, n int) {
	c := class(n)
	r.resting[c] = append(r.resting[c], at)
}

// grace waits until every packet that was being looked at has gone (synchronize_rcu, which this call is documented to be like).
func grace() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, 1 /* MEMBARRIER_CMD_GLOBAL */, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
