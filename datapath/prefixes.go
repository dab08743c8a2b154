package datapath

import (
	"cmp"
	"net/netip"
	"slices"
)

// PrefixRule says of which sets the addresses within a prefix are members, and of which they are not though a prefix around this one says
// so. A set is a bit.
type PrefixRule struct {
	Prefix          netip.Prefix
	Member, Without uint64
}

func (r PrefixRule) sets() uint64 { return r.Member &^ r.Without }

// PrefixSets gives each prefix the sets of its addresses, with what is said of the prefixes around it: what a table of longest prefixes (LPM)
// must hold. One that changes nothing is left out. ::/0 is always there: in such a table IPv4-mapped addresses are below it.
func PrefixSets(rules []PrefixRule) map[netip.Prefix]uint64 {
	sets := make(map[netip.Prefix]uint64)
	for _, family := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
		cover(sets, family, rules)
	}
	return sets
}

// cover does it for a family.
func cover(sets map[netip.Prefix]uint64, family netip.Prefix, rules []PrefixRule) {
	of := []PrefixRule{{Prefix: family}}
	for _, r := range rules {
		if r.Prefix.Addr().Is4() == family.Addr().Is4() {
			of = append(of, r)
		}
	}
	// those around a prefix come before it
	slices.SortStableFunc(of, func(a, b PrefixRule) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	var around []PrefixRule
	for len(of) > 0 {
		r := PrefixRule{Prefix: of[0].Prefix}
		for len(of) > 0 && of[0].Prefix == r.Prefix {
			r.Member, r.Without = r.Member|of[0].Member, r.Without|of[0].Without
			of = of[1:]
		}
		for len(around) > 0 && !around[len(around)-1].Prefix.Contains(r.Prefix.Addr()) {
			around = around[:len(around)-1]
		}
		changes := true
		if len(around) > 0 {
			outer := around[len(around)-1]
			r.Member, r.Without = r.Member|outer.Member, r.Without|outer.Without
			changes = r.sets() != outer.sets()
		}
		around = append(around, r)
		if changes {
			sets[r.Prefix] = r.sets()
		}
	}
}
