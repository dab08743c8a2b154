package router

import "testing"

// TestPathsOfAnEarlierProcess: the interfaces that an earlier process has set for a surrogate are replaced, and no others.
func TestPathsOfAnEarlierProcess(t *testing.T) {
	k := newRig(t)
	has := func(surrogate uint16, ifindex int) bool {
		var v uint8
		return k.maps.Paths.Lookup(routerPathKey{Surrogate: uint32(surrogate), Ifindex: uint32(ifindex)}, &v) == nil
	}
	k.must(k.SetPaths(900, []int{11, 12}))
	k.must(k.SetPaths(901, []int{11}))
	k.paths = newPaths() // as at a start
	k.must(k.SetPaths(900, []int{12, 13}))
	if has(900, 11) || !has(900, 12) || !has(900, 13) || !has(901, 11) {
		t.Error("interfaces of an earlier process are left, or of another surrogate gone")
	}
	k.must(k.SetPaths(900, nil))
	k.must(k.SetPaths(901, nil))
	if has(900, 12) || has(900, 13) || has(901, 11) {
		t.Error("interfaces are left")
	}
}
