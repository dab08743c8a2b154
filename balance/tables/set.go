package tables

import (
	"cmp"
	"slices"

	"baton/balance/config"
	"baton/openflow"
)

// Set is which links a rule's flows may use. A group is made of a set, not of a rule: rules may come, go and change places, and a group
// that flows go by stays what it was.
type Set struct {
	Links uint16 // bit n: the link at place n
	Only  bool   // no others, even if none of these is usable
}

// Option is a link that a new flow may get. Those of weight 0 are standby: the first of them that is live is used when none that has a
// weight is.
type Option struct {
	Place  int // in State.Links
	Weight uint16
}

// Set returns the set of a rule's links.
func (s State) Set(r Rule) Set {
	set := Set{Only: r.Otherwise == config.Drop}
	for _, place := range r.Links {
		set.Links |= 1 << place
	}
	if len(r.Links) == 0 {
		set.Links = 1<<len(s.Links) - 1
	}
	return set
}

func (t Set) has(place int) bool { return t.Links>>place&1 != 0 }

// Options returns the links that new flows of a set may get, the best first: those of the lowest tier of the set by their place, then
// as standby its others by their tiers, and then, if the set allows it, those outside of it. They are all usable.
func (s State) Options(set Set, v6 bool) []Option {
	var own, others []Option
	for place, l := range s.Links {
		switch {
		case !l.Usable || !l.Family(v6).Complete():
		case set.has(place):
			own = append(own, Option{place, max(l.Weight, 1)})
		case !set.Only:
			others = append(others, Option{place, max(l.Weight, 1)})
		}
	}
	list := append(s.byTier(own), s.byTier(others)...)
	for i := range list {
		if first := list[0].Place; s.Links[list[i].Place].Tier != s.Links[first].Tier || set.has(list[i].Place) != set.has(first) {
			list[i].Weight = 0
		}
	}
	return list
}

func (s State) byTier(list []Option) []Option {
	slices.SortStableFunc(list, func(a, b Option) int { return cmp.Compare(s.Links[a.Place].Tier, s.Links[b.Place].Tier) })
	return list
}

// The groups. Their numbers say what they are, so that no two switches or states differ in them.
const (
	// GroupIn takes a packet to the host: indirect.
	GroupIn    openflow.GroupID = 1
	firstLinks openflow.GroupID = 16
	firstSets  openflow.GroupID = 1 << 20
)

// LinkGroup is the indirect group that takes a packet out by a link.
func LinkGroup(place int, v6 bool) openflow.GroupID {
	return firstLinks + 2*openflow.GroupID(place) + bit(v6)
}

// Group is the select group of a set.
func (t Set) Group(v6 bool) openflow.GroupID {
	return firstSets | openflow.GroupID(t.Links)<<2 | bit(t.Only)<<1 | bit(v6)
}

func bit(b bool) openflow.GroupID {
	if b {
		return 1
	}
	return 0
}
