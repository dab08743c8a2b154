package install

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// held is a range that a test has allocated.
type held struct {
	at uint32
	n  int
}

// mirror is an allocator and the expected state of each of its indices.
type mirror struct {
	t       *testing.T
	a       *allocator
	first   int
	state   []byte // of each index
	settled int    // grace periods that the allocator waited for
	list    []held
}

const (
	isFree = iota
	isUsed
	isDeferred
)

func newMirror(t *testing.T, first, end int) *mirror {
	s := &mirror{t: t, first: first, state: make([]byte, end)}
	s.a = newAllocator(first, end, func() error {
		s.settled++
		for at, state := range s.state {
			if state == isDeferred {
				s.state[at] = isFree
			}
		}
		return nil
	})
	return s
}

func (s *mirror) mark(h held, from, to byte) {
	s.t.Helper()
	for at := int(h.at); at < int(h.at)+1<<class(h.n); at++ {
		if at < s.first || at >= len(s.state) {
			s.t.Fatalf("index %d of [%d, %d)", at, s.first, len(s.state))
		}
		if s.state[at] != from {
			s.t.Fatalf("index %d was %d, not %d", at, s.state[at], from)
		}
		s.state[at] = to
	}
}

func (s *mirror) count(state byte) int {
	n := 0
	for _, v := range s.state[s.first:] {
		if v == state {
			n++
		}
	}
	return n
}

// fits reports whether n indices in a row are free, or deferred if those count.
func (s *mirror) fits(n int, deferred bool) bool {
	run := 0
	for _, v := range s.state[s.first:] {
		if v == isFree || deferred && v == isDeferred {
			run++
		} else {
			run = 0
		}
		if run >= 1<<class(n) {
			return true
		}
	}
	return false
}

func (s *mirror) alloc(n int) bool {
	s.t.Helper()
	before, free, might := s.settled, s.fits(n, false), s.fits(n, true)
	at, err := s.a.alloc(n)
	if s.settled > before && free {
		s.t.Fatalf("waited for %d indices although they were free", n)
	}
	if err != nil {
		if !errors.Is(err, errFull) || might {
			s.t.Fatalf("alloc %d: %v, with %d free and %d deferred indices", n, err, s.count(isFree), s.count(isDeferred))
		}
		return false
	}
	h := held{at, n}
	s.mark(h, isFree, isUsed)
	s.list = append(s.list, h)
	return true
}

func (s *mirror) free(i int, unseen bool) {
	s.t.Helper()
	h := s.list[i]
	s.list[i] = s.list[len(s.list)-1]
	s.list = s.list[:len(s.list)-1]
	if unseen {
		s.a.free(h.at, h.n)
		s.mark(h, isUsed, isFree)
	} else {
		s.a.deferFree(h.at, h.n)
		s.mark(h, isUsed, isDeferred)
	}
}

// TestAllocator: no index is allocated twice or before its grace period, none is leaked, and alloc waits only if it must.
func TestAllocator(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		first := r.IntN(3)
		s := newMirror(t, first, first+1+r.IntN(300))
		most := 1 + r.IntN(40)
		for range 1000 {
			if len(s.list) == 0 || r.IntN(5) < 3 {
				s.alloc(1 + r.IntN(most))
			} else {
				s.free(r.IntN(len(s.list)), r.IntN(3) == 0)
			}
		}
		for len(s.list) > 0 {
			s.free(0, false)
		}
		whole := 1
		for 2*whole <= len(s.state)-first {
			whole *= 2
		}
		if !s.alloc(whole) {
			t.Fatalf("%d of %d indices in a row cannot be allocated, although all were freed", whole, len(s.state)-first)
		}
	}
}

// TestAllocatorWaitsOnlyWhenFull: replacing one range over and over waits once per exhaustion, not once per replacement.
func TestAllocatorWaitsOnlyWhenFull(t *testing.T) {
	s := newMirror(t, 0, 1000)
	for range 10_000 {
		if !s.alloc(1) {
			t.Fatal("nothing free")
		}
		s.free(0, false)
	}
	if s.settled > 10 {
		t.Errorf("waited %d times for 10,000 replacements among 1,000 indices", s.settled)
	}
}

func TestAllocatorPassesFaultsOn(t *testing.T) {
	fault := errors.New("no barrier")
	a := newAllocator(0, 1, func() error { return fault })
	at, err := a.alloc(1)
	if err != nil {
		t.Fatal(err)
	}
	a.deferFree(at, 1)
	if _, err := a.alloc(1); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
}
