package policy

import (
	"maps"
	"net/netip"
	"slices"
)

// Area is a prefix of clients and what a State decides for them whatever they ask for. Of several areas with a client the longest prefix counts.
type Area struct {
	Prefix netip.Prefix
	// Surrogates get the clients: one gets all, several get each request by Weights. None: the State must be asked, as Why says.
	Surrogates []string
	Weights    []int
	Why        string
}

// mostCuts bounds the prefixes that Areas looks at, by all rules together.
const mostCuts = 1 << 16

// Areas says for all clients what is certain without their requests, for programs that can only look up an address. services are the hosts that may be
// asked for; none: all. There is an area for each family's whole. nil: there would be more areas than most.
func (s *State) Areas(services []string, most int) []Area {
	asked := s.policy.rulesFor(services)
	if len(asked)*(len(s.policy.zoneList)+len(s.prefixes)) > mostCuts {
		return nil
	}
	cuts := s.cuts()
	var out []Area
	var open []int // of out: those around the current prefix, the longest last
	var d Decision
	for i, prefix := range cuts {
		client, ok := uncovered(prefix, cuts[i+1:])
		if !ok {
			continue // it is never the longest
		}
		one := s.certain(asked, client, &d)
		one.Prefix = prefix
		for len(open) > 0 && !out[open[len(open)-1]].Prefix.Overlaps(prefix) {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && sameArea(&out[open[len(open)-1]], &one) {
			continue
		}
		if len(out) == most {
			return nil
		}
		open = append(open, len(out))
		out = append(out, one)
	}
	return out
}

// cuts are the prefixes at whose borders decisions change, but for the database of places, in order.
func (s *State) cuts() []netip.Prefix {
	cuts := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	add := func(p netip.Prefix) {
		if !p.Addr().Is4In6() { // no client has such an address here: see Whole
			cuts = append(cuts, p)
		}
	}
	for i := range s.policy.zoneList {
		add(s.policy.zoneList[i].Prefix)
	}
	for _, p := range s.prefixes {
		add(p)
	}
	slices.SortFunc(cuts, comparePrefixes)
	return slices.Compact(cuts)
}

// comparePrefixes has what is around a prefix before it.
func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

func sameArea(a, b *Area) bool {
	return slices.Equal(a.Surrogates, b.Surrogates) && slices.Equal(a.Weights, b.Weights) && a.Why == b.Why
}

// uncovered returns an address of a prefix that none of the next ones has, which are in order; false if there is none.
func uncovered(prefix netip.Prefix, next []netip.Prefix) (netip.Addr, bool) {
	at := prefix.Addr()
	for _, inner := range next {
		if !prefix.Overlaps(inner) || at.Less(inner.Addr()) {
			break
		}
		end := last(inner)
		if end.Less(at) {
			continue // within the one before
		}
		if at = end.Next(); !at.IsValid() || !prefix.Contains(at) {
			return netip.Addr{}, false
		}
	}
	return at, true
}

// rulesFor returns the rules of hosts, each once; without hosts all that there are.
func (p *Policy) rulesFor(hosts []string) []*rules {
	var out []*rules
	add := func(r *rules) {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, h := range hosts {
		add(p.rulesOf(canonicalHost(h)))
	}
	if len(hosts) == 0 {
		add(&p.rules)
		for _, host := range slices.Sorted(maps.Keys(p.byHost)) {
			add(p.byHost[host])
		}
	}
	return out
}

// certain decides for one client under all rules.
func (s *State) certain(asked []*rules, client netip.Addr, d *Decision) Area {
	var out Area
	for i, r := range asked {
		one := s.certainBy(r, client, d)
		if i > 0 && !slices.Equal(one.Surrogates, out.Surrogates) {
			return Area{Why: "services differ"}
		}
		if out = one; out.Surrogates == nil {
			return out
		}
	}
	return out
}

func (s *State) certainBy(r *rules, client netip.Addr, d *Decision) Area {
	p := s.policy
	q := &Query{Client: Whole(client)}
	*d = Decision{Choices: d.Choices[:0], order: d.order[:0], ranks: d.ranks[:0]}
	from := s.distancesOf(q, d)
	if r.steer != nil {
		return s.certainlySteered(r, from, d)
	}
	s.locate(q, from, d)
	if why := s.looksUpPlaces(d.Method); why != "" {
		return Area{Why: why}
	}
	for _, i := range d.order {
		if !s.passOver(i, r, d) {
			return s.certainIn(&p.sites[i], r, from)
		}
	}
	return Area{Why: "nothing can serve"}
}

// looksUpPlaces reports whether the database had a say in how the site was found: it has more networks than an area is worth.
func (s *State) looksUpPlaces(found Method) string {
	geo := slices.Index(s.policy.locate, ByGeo)
	at := slices.Index(s.policy.locate, found)
	if s.geo != nil && geo >= 0 && (at < 0 || geo <= at) {
		return "the site is by the database of places"
	}
	return ""
}

// certainlySteered is certain if one site alone of those that are listed can serve.
func (s *State) certainlySteered(r *rules, from []uint32, d *Decision) Area {
	var left []int
	for i, weight := range r.steer {
		if weight > 0 && !s.passOver(i, r, d) {
			left = append(left, i)
		}
	}
	switch len(left) {
	case 0:
		return Area{Why: "nothing can serve"}
	case 1:
		return s.certainIn(&s.policy.sites[left[0]], r, from)
	}
	return Area{Why: "the site is by steering"}
}

func (s *State) certainIn(in *site, r *rules, from []uint32) Area {
	var a Area
	var list []int
	for u := in.first; u < in.past; u++ {
		if s.usable(u) {
			list = append(list, u)
			a.Surrogates, a.Weights = append(a.Surrogates, s.policy.surrogates[u].Name), append(a.Weights, s.surrogates[u].weight)
		}
	}
	if len(list) == 1 {
		a.Weights = nil
		return a
	}
	if r.Spread == ByWeight {
		return a
	}
	if r.Spread == ByNearest {
		nearest, count := list[0], 0
		for _, u := range list {
			if distance(from, u) < distance(from, nearest) {
				nearest = u
			}
		}
		for _, u := range list {
			if distance(from, u) == distance(from, nearest) {
				count++
			}
		}
		if count == 1 {
			return Area{Surrogates: []string{s.policy.surrogates[nearest].Name}}
		}
	}
	return Area{Why: "spread " + string(r.Spread) + " of " + in.Name}
}
