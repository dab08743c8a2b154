package policy

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// randomAddr has few bits that differ, so that prefixes nest and meet.
func randomAddr(r *rand.Rand, v6 bool) netip.Addr {
	if v6 {
		a := [16]byte{0: 0x20, 1: byte(r.IntN(2)), 7: byte(r.IntN(4)), 15: byte(r.IntN(256))}
		if r.IntN(16) == 0 {
			a = [16]byte{0: 255, 1: 255, 15: 255}
		}
		return netip.AddrFrom16(a)
	}
	a := [4]byte{byte(r.IntN(2) * 255), byte(r.IntN(3)), byte(r.IntN(2) * 255), byte(r.IntN(4) * r.IntN(86))}
	return netip.AddrFrom4(a)
}

// TestTable compares the table with a look at every prefix.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		prefixes := make([]netip.Prefix, r.IntN(40))
		for i := range prefixes {
			a := randomAddr(r, r.IntN(3) == 0)
			bits := r.IntN(a.BitLen() + 1)
			if r.IntN(2) == 0 {
				bits = a.BitLen() - r.IntN(4)
			}
			prefixes[i], _ = a.Prefix(bits)
		}
		naive := func(a netip.Addr) int {
			best := -1
			for i, p := range prefixes {
				if p.Contains(a) && (best < 0 || p.Bits() > prefixes[best].Bits()) {
					best = i
				}
			}
			return best
		}
		table := newTable(prefixes)
		for range 200 {
			a := randomAddr(r, r.IntN(2) == 0)
			got, scope := table.find(a)
			if got != naive(a) {
				t.Fatalf("%v in %v: %d, want %d", a, prefixes, got, naive(a))
			}
			checkScope(t, r, prefixes, a, got, scope, naive)
		}
	}
}

// checkScope: all addresses of the scope have the same answer, and not all of the next shorter one.
func checkScope(t *testing.T, r *rand.Rand, prefixes []netip.Prefix, a netip.Addr, got, scope int, naive func(netip.Addr) int) {
	t.Helper()
	p, err := a.Prefix(scope)
	if err != nil {
		t.Fatalf("%v has scope %d", a, scope)
	}
	for _, b := range []netip.Addr{p.Addr(), last(p), randomIn(r, p)} {
		if naive(b) != got {
			t.Fatalf("%v and %v are in scope %d, and have %d and %d of %v", a, b, scope, got, naive(b), prefixes)
		}
	}
	if scope == 0 {
		return
	}
	wider, _ := a.Prefix(scope - 1)
	for _, q := range prefixes {
		if wider.Overlaps(q) && wider.Bits() < q.Bits() || q.Contains(wider.Addr()) != q.Contains(last(wider)) {
			return // a prefix ends in it
		}
	}
	t.Fatalf("%v: scope %d of %v, and %d is enough", a, scope, prefixes, scope-1)
}

func randomIn(r *rand.Rand, p netip.Prefix) netip.Addr {
	a, _ := netip.AddrFromSlice(p.Addr().AsSlice())
	raw := a.AsSlice()
	for i := p.Bits(); i < len(raw)*8; i++ {
		if r.IntN(2) == 0 {
			raw[i/8] |= 0x80 >> (i % 8)
		}
	}
	a, _ = netip.AddrFromSlice(raw)
	return a
}
