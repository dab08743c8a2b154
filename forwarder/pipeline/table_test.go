package pipeline

import "testing"

// TestChain is of slots that have the same hash, which no match can be found for: it is inside the package.
func TestChain(t *testing.T) {
	for gone := range 3 {
		tab := &table{byHash: map[uint64]*slot{}}
		slots := make([]*slot, 3)
		for i := range slots {
			slots[i] = &slot{hash: 7, next: tab.byHash[7]}
			tab.byHash[7] = slots[i]
		}
		tab.unchain(slots[gone])
		var left []*slot
		for c := tab.byHash[7]; c != nil; c = c.next {
			left = append(left, c)
		}
		want := append(append([]*slot{}, slots[:gone]...), slots[gone+1:]...)
		if len(left) != 2 || left[0] != want[1] || left[1] != want[0] {
			t.Errorf("%d is gone: %v of %v", gone, left, slots)
		}
		tab.unchain(left[0])
		tab.unchain(left[1])
		if len(tab.byHash) != 0 {
			t.Errorf("%d: %v", gone, tab.byHash)
		}
	}
}
