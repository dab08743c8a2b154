package tables

import (
	"cmp"
	"slices"

	"baton/balance/config"
	"baton/openflow"
)

// Set is the links that a rule's flows may use. Groups belong to sets, not to rules, so that a group with flows stays the same when rules
// are added, removed or reordered.
type Set struct {
	Links uint16 // bit n: the link at place n
	Only  bool   // no others, even if none of these is usable
}

// Option is a link for new flows. Weight 0 means standby: the first live one is used if no weighted link is live.
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

// Options returns the usable links for new flows of a set, best first: the set's lowest tier, by place; as standby the set's other links by
// tier; and then, if the set allows it, links outside of the set.
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

// The groups. Their numbers are derived from their meaning, so that switches and states never disagree.
const (
	// GroupIn takes a packet to the host: indirect.
	GroupIn    openflow.GroupID = 1
	firstLinks openflow.GroupID = 16
	firstSets  openflow.GroupID = 1 << 20
)

// LinkGroup returns the indirect group that sends a packet out over a link.
func LinkGroup(place int, v6 bool) openflow.GroupID {
	return firstLinks + 2*openflow.GroupID(place) + bit(v6)
}

// Group returns the select group of a set.
func (t Set) Group(v6 bool) openflow.GroupID {
	return firstSets | openflow.GroupID(t.Links)<<2 | bit(t.Only)<<1 | bit(v6)
}

func bit(b bool) openflow.GroupID {
	if b {
		return 1
	}
	return 0
}
