package install

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// held is what a test has taken out of a room.
type held struct {
	at uint32
	n  int
}

// steward is a room and what must be true of it, place by place.
type steward struct {
	t       *testing.T
	room    *room
	first   int
	state   []byte // of each place
	settled int    // times that the room waited
	list    []held
}

const (
	placeFree = iota
	placeTaken
	placeResting
)

func newSteward(t *testing.T, first, end int) *steward {
	s := &steward{t: t, first: first, state: make([]byte, end)}
	s.room = newRoom(first, end, func() error {
		s.settled++
		for at, state := range s.state {
			if state == placeResting {
				s.state[at] = placeFree
			}
		}
		return nil
	})
	return s
}

func (s *steward) mark(h held, from, to byte) {
	s.t.Helper()
	for at := int(h.at); at < int(h.at)+1<<class(h.n); at++ {
		if at < s.first || at >= len(s.state) {
			s.t.Fatalf("place %d of [%d, %d)", at, s.first, len(s.state))
		}
		if s.state[at] != from {
			s.t.Fatalf("place %d was %d, not %d", at, s.state[at], from)
		}
		s.state[at] = to
	}
}

func (s *steward) count(state byte) int {
	n := 0
	for _, v := range s.state[s.first:] {
		if v == state {
			n++
		}
	}
	return n
}

// fits reports whether a run of free places, and of resting ones if they count, holds n in a row.
func (s *steward) fits(n int, resting bool) bool {
	run := 0
	for _, v := range s.state[s.first:] {
		if v == placeFree || resting && v == placeResting {
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

func (s *steward) take(n int) bool {
	s.t.Helper()
	before, free, might := s.settled, s.fits(n, false), s.fits(n, true)
	at, err := s.room.take(n)
	if s.settled > before && free {
		s.t.Fatalf("waited for %d places that were free", n)
	}
	if err != nil {
		if !errors.Is(err, errFull) || might {
			s.t.Fatalf("take %d: %v, with %d free and %d resting places", n, err, s.count(placeFree), s.count(placeResting))
		}
		return false
	}
	h := held{at, n}
	s.mark(h, placeFree, placeTaken)
	s.list = append(s.list, h)
	return true
}

func (s *steward) give(i int, unseen bool) {
	s.t.Helper()
	h := s.list[i]
	s.list[i] = s.list[len(s.list)-1]
	s.list = s.list[:len(s.list)-1]
	if unseen {
		s.room.back(h.at, h.n)
		s.mark(h, placeTaken, placeFree)
	} else {
		s.room.put(h.at, h.n)
		s.mark(h, placeTaken, placeResting)
	}
}

// TestRoomIsHonest: no place is handed out twice, none while it rests, none is lost, and nobody waits without a reason.
func TestRoomIsHonest(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		first := r.IntN(3)
		s := newSteward(t, first, first+1+r.IntN(300))
		most := 1 + r.IntN(40)
		for range 1000 {
			if len(s.list) == 0 || r.IntN(5) < 3 {
				s.take(1 + r.IntN(most))
			} else {
				s.give(r.IntN(len(s.list)), r.IntN(3) == 0)
			}
		}
		for len(s.list) > 0 {
			s.give(0, false)
		}
		whole := 1
		for 2*whole <= len(s.state)-first {
			whole *= 2
		}
		if !s.take(whole) {
			t.Fatalf("%d of %d places in a row are not to be had, though all were given back", whole, len(s.state)-first)
		}
	}
}

// TestRoomWaitsOnlyWhenFull: what is replaced again and again waits once for as many as there is room for.
func TestRoomWaitsOnlyWhenFull(t *testing.T) {
	s := newSteward(t, 0, 1000)
	for range 10_000 {
		if !s.take(1) {
			t.Fatal("no place")
		}
		s.give(0, false)
	}
	if s.settled > 10 {
		t.Errorf("waited %d times for 10,000 changes in a room of 1,000", s.settled)
	}
}

func TestRoomPassesFaultsOn(t *testing.T) {
	fault := errors.New("no barrier")
	r := newRoom(0, 1, func() error { return fault })
	at, err := r.take(1)
	if err != nil {
		t.Fatal(err)
	}
	r.put(at, 1)
	if _, err := r.take(1); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
}
