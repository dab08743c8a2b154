package install

import (
	"slices"
	"testing"

	"baton/forwarder/match"
)

// TestChain is of entries whose keys have the same hash, which no keys can be found for: it is inside the package.
func TestChain(t *testing.T) {
	named := map[*entry]string{}
	of := func(name string, key byte, priority uint16) *entry {
		e := &entry{hash: 7, priority: priority, key: match.Key{key}}
		named[e] = name
		return e
	}
	all := []*entry{of("low a", 'a', 1), of("high b", 'b', 3), of("middle a", 'a', 2), of("middle b", 'b', 2)}
	s := &subtable{byHash: map[uint64]*entry{}}
	chained := func() (names []string) {
		for e := s.byHash[7]; e != nil; e = e.next {
			names = append(names, named[e])
		}
		return names
	}
	wants := func(want ...string) {
		t.Helper()
		if got := chained(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, e := range all {
		s.chain(e)
	}
	wants("high b", "middle b", "middle a", "low a")
	s.unchain(all[2])
	wants("high b", "middle b", "low a")
	s.unchain(all[1])
	wants("middle b", "low a")
	s.unchain(all[0])
	s.unchain(all[3])
	if len(s.byHash) != 0 {
		t.Errorf("left: %q", chained())
	}
}
