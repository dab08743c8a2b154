package pipeline

import "testing"

// TestChain is of slots whose keys have the same hash, which no key can be found for: it is inside the package.
func TestChain(t *testing.T) {
	for gone := range 3 {
		s := &shape{byKey: map[uint64]*slot{}}
		slots := make([]*slot, 3)
		for i := range slots {
			slots[i] = &slot{hash: 7, next: s.byKey[7]}
			s.byKey[7] = slots[i]
		}
		s.unchain(slots[gone])
		var left []*slot
		for c := s.byKey[7]; c != nil; c = c.next {
			left = append(left, c)
		}
		want := append(append([]*slot{}, slots[:gone]...), slots[gone+1:]...)
		if len(left) != 2 || left[0] != want[1] || left[1] != want[0] {
			t.Errorf("%d is gone: %v of %v", gone, left, slots)
		}
		s.unchain(left[0])
		s.unchain(left[1])
		if len(s.byKey) != 0 {
			t.Errorf("%d: %v", gone, s.byKey)
		}
	}
}
