package policy

import (
	"fmt"
	"net/netip"
	"slices"
)

// distancesOf returns the distances from the client by surrogate, or nil.
func (s *State) distancesOf(q *Query, d *Decision) []uint32 {
	if q.Distances != nil || len(s.distances) == 0 || !q.Client.IsValid() {
		return q.Distances
	}
	i, scope := s.near.find(q.Client.Addr())
	d.Scope = max(d.Scope, scope)
	if i < 0 {
		return nil
	}
	return s.distances[i]
}

// locate fills in the order of sites, the client's first.
func (s *State) locate(q *Query, from []uint32, d *Decision) {
	p := s.policy
	for _, m := range p.locate {
		first := -1
		switch {
		case m == ByDistance:
			first = s.nearestMeasured(q, from, d)
		case !q.Client.IsValid():
		case m == ByZone:
			first = s.byZone(q, d)
		case m == ByGeo && s.geo != nil:
			first = s.byGeo(q, d)
		}
		if first < 0 {
			continue
		}
		d.Method = m
		d.order = append(append(d.order, first), p.sites[first].next...)
		if m == ByDistance && p.sites[first].Spill == nil {
			s.sortMeasured(from, d.order)
		}
		return
	}
	if p.fallback < 0 {
		if d.explain {
			d.because("there is no default site")
		}
		return
	}
	d.Method = ByDefault
	d.order = append(append(d.order, p.fallback), p.sites[p.fallback].next...)
	if d.explain {
		d.because("default site %s", p.sites[p.fallback].Name)
	}
}

// steer fills in the order of sites by their weights, for a client or a key.
func (s *State) steer(q *Query, r *rules, d *Decision) {
	p := s.policy
	d.Method = BySteering
	key := hashName(q.Sticky)
	if q.Sticky == "" {
		client := r.clientPrefix(q.Client)
		key, d.Scope = addrKey(client), max(d.Scope, client.Bits())
	}
	d.ranks = d.ranks[:0]
	sum := 0
	for i, weight := range r.steer {
		if sum += weight; weight > 0 {
			d.ranks = append(d.ranks, rank{which: i, score: score(mix(key), p.sites[i].id, weight)})
		}
	}
	slices.SortFunc(d.ranks, compareRanks)
	for _, one := range d.ranks {
		d.order = append(d.order, one.which)
	}
	if !d.explain || len(d.order) == 0 {
		return
	}
	who := "key " + clip(q.Sticky)
	if q.Sticky == "" {
		who = "client " + clientText(r.clientPrefix(q.Client))
	}
	d.because("steering of %s: weight %d of %d -> site %s", who, r.steer[d.order[0]], sum, p.sites[d.order[0]].Name)
}

func (s *State) byZone(q *Query, d *Decision) int {
	p := s.policy
	i, scope := p.zones.find(q.Client.Addr())
	d.Scope = max(d.Scope, scope)
	if i < 0 {
		if d.explain && len(p.zoneList) > 0 {
			d.because("no coverage zone has %s", clientText(q.Client))
		}
		return -1
	}
	z := &p.zoneList[i]
	if site := &p.sites[z.site]; d.explain && site.Name == z.Site {
		d.because("coverage zone %v -> site %s", z.Prefix, z.Site)
	} else if d.explain {
		d.because("coverage zone %v of %s, which is no site -> nearest site %s", z.Prefix, clip(z.Site), site.Name)
	}
	return z.site
}

// clientText writes one address without its length.
func clientText(c netip.Prefix) string {
	if !c.IsValid() {
		return "whose address is not known"
	}
	if c.IsSingleIP() {
		return c.Addr().String()
	}
	return c.String()
}

// siteDistance is that of the site's nearest surrogate that can serve.
func (s *State) siteDistance(site int, from []uint32) uint32 {
	nearest := Far
	for u := s.policy.sites[site].first; u < s.policy.sites[site].past; u++ {
		if s.usable(u) {
			nearest = min(nearest, distance(from, u))
		}
	}
	return nearest
}

func distance(from []uint32, surrogate int) uint32 {
	if surrogate >= len(from) {
		return Far
	}
	return from[surrogate]
}

func (s *State) nearestMeasured(q *Query, from []uint32, d *Decision) int {
	best, nearest := -1, Far
	for i := range s.policy.sites {
		if at := s.siteDistance(i, from); at < nearest {
			best, nearest = i, at
		}
	}
	if best >= 0 && d.explain {
		d.because("client %s is nearest to site %s: measured distance %d", clientText(q.Client), s.policy.sites[best].Name, nearest)
	}
	return best
}

// sortMeasured sorts sites by their distances. There are few: an insertion sort needs no memory.
func (s *State) sortMeasured(from []uint32, order []int) {
	for i := range order {
		for j := i; j > 0 && s.siteDistance(order[j], from) < s.siteDistance(order[j-1], from); j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
}

func (s *State) byGeo(q *Query, d *Decision) int {
	p := s.policy
	at, ok := s.geo.Find(q.Client.Addr())
	d.Scope = max(d.Scope, at.Bits)
	if !ok {
		if d.explain {
			d.because("the database does not have %s", clientText(q.Client))
		}
		return -1
	}
	if i, ok := p.countries[at.Country]; ok {
		if d.explain {
			d.because("%s is in %s: country %s -> site %s", clientText(q.Client), at, at.Country, p.sites[i].Name)
		}
		return i
	}
	best := p.nearest(at.At)
	switch {
	case !d.explain:
	case best < 0:
		d.because("%s is in %s, and no site's distance from there is known", clientText(q.Client), at)
	default:
		d.because("%s is in %s: nearest site %s, %.0f km", clientText(q.Client), at, p.sites[best].Name, at.At.Kilometres(p.sites[best].Location))
	}
	return best
}

// String names a place.
func (p Place) String() string {
	switch {
	case p.City != "" && p.Country != "":
		return p.City + ", " + p.Country
	case p.City+p.Country != "":
		return p.City + p.Country
	}
	return fmt.Sprintf("%.2f, %.2f", p.At.Latitude, p.At.Longitude)
}
