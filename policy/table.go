package policy

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"
)

// table finds the longest of many prefixes that has an address. The prefixes are cut into ranges that do not overlap, so a lookup is one binary search.
type table struct{ v4, v6 []bound }

// bound is where a range begins; it ends before the next one.
type bound struct {
	start netip.Addr
	value int // index of the prefix; -1: none
}

// newTable makes a table whose values are the indices of the prefixes. Of equal prefixes the first counts.
func newTable(prefixes []netip.Prefix) table {
	order := make([]int, len(prefixes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(prefixes[a].Addr().Compare(prefixes[b].Addr()), cmp.Compare(prefixes[a].Bits(), prefixes[b].Bits()))
	})
	order = slices.CompactFunc(order, func(a, b int) bool { return prefixes[a] == prefixes[b] })
	split := len(order)
	if i := slices.IndexFunc(order, func(i int) bool { return prefixes[i].Addr().Is6() }); i >= 0 {
		split = i
	}
	return table{ranges(prefixes, order[:split]), ranges(prefixes, order[split:])}
}

// ranges cuts the prefixes of one family, which are in order and parents before children.
func ranges(prefixes []netip.Prefix, order []int) []bound {
	var out []bound
	add := func(start netip.Addr, value int) {
		if n := len(out); n > 0 && out[n-1].start == start {
			out[n-1].value = value
			return
		}
		out = append(out, bound{start, value})
	}
	var open []int // prefixes that have the current address, the longest last
	closeBefore := func(start netip.Addr) {
		for len(open) > 0 {
			end := last(prefixes[open[len(open)-1]])
			if start.IsValid() && end.Compare(start) >= 0 {
				return
			}
			open = open[:len(open)-1]
			value := -1
			if len(open) > 0 {
				value = open[len(open)-1]
			}
			if after := end.Next(); after.IsValid() {
				add(after, value)
			}
		}
	}
	for _, i := range order {
		closeBefore(prefixes[i].Addr())
		add(prefixes[i].Addr(), i)
		open = append(open, i)
	}
	closeBefore(netip.Addr{})
	return out
}

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	a := p.Addr().AsSlice()
	for i := p.Bits(); i < len(a)*8; i++ {
		a[i/8] |= 0x80 >> (i % 8)
	}
	out, _ := netip.AddrFromSlice(a)
	return out
}

// find returns the value of the longest prefix that has a, or -1, and the length of the shortest prefix of a whose addresses all have that answer.
func (t *table) find(a netip.Addr) (value, scope int) {
	in := t.v6
	if a.Is4() {
		in = t.v4
	}
	i, exact := slices.BinarySearchFunc(in, a, func(b bound, a netip.Addr) int { return b.start.Compare(a) })
	if !exact {
		i--
	}
	value = -1
	if i >= 0 {
		value = in[i].value
		scope = beyond(a, in[i].start.Prev())
	}
	if i+1 < len(in) {
		scope = max(scope, beyond(a, in[i+1].start))
	}
	return value, scope
}

// beyond returns the length of the shortest prefix of a that does not have the neighbour.
func beyond(a, neighbour netip.Addr) int {
	if !neighbour.IsValid() {
		return 0
	}
	if a.Is4() {
		x, y := a.As4(), neighbour.As4()
		for i := range x {
			if d := x[i] ^ y[i]; d != 0 {
				return 8*i + bits.LeadingZeros8(d) + 1
			}
		}
		return 32
	}
	x, y := a.As16(), neighbour.As16()
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d) + 1
		}
	}
	return 128
}
