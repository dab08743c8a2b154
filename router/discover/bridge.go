package discover

import (
	"slices"

	"baton/router/config"
)

// Bridge keeps surrogates that a source had, and has not any more, while none of their pool can serve: a source may exchange all at once,
// and those that are new are checked first. It changes next, and reports whether some are kept.
//
// An empty set and a removal by API are taken at their word, and a surrogate that does not serve is not kept.
func Bridge(inForce, next *config.Config, changes Changes, usable func(surrogate string) bool) bool {
	named := make(map[string]bool)
	for _, p := range next.Pools {
		for _, s := range p.Surrogates {
			named[s.Name] = true
		}
	}
	some := false
	for i := range next.Pools {
		p := &next.Pools[i]
		serves := func(s config.Surrogate) bool { return s.Weight > 0 && usable(s.Name) }
		waits := func(s config.Surrogate) bool { return s.Weight > 0 }
		old := slices.IndexFunc(inForce.Pools, func(o config.Pool) bool { return o.Name == p.Name })
		if old < 0 || slices.ContainsFunc(p.Surrogates, serves) || !slices.ContainsFunc(p.Surrogates, waits) {
			continue
		}
		for _, s := range inForce.Pools[old].Surrogates {
			of := func(d config.Discover) bool { return d.String() == s.Origin }
			if named[s.Name] || changes[s.Name].Gone || !slices.ContainsFunc(p.Discover, of) || !serves(s) || next.Refuses(p, &s) != "" || len(p.Surrogates) >= config.MaxSurrogates {
				continue
			}
			named[s.Name], some = true, true
			p.Surrogates = append(slices.Clip(p.Surrogates), s)
		}
	}
	return some
}
