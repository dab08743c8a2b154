package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"baton/router/config"
)

// LeftOut is a surrogate that is not in its pool, although a source or the API has it there.
type LeftOut struct {
	Pool, Name, Origin, Why string
}

func (l LeftOut) String() string {
	return fmt.Sprintf("pool %s: surrogate %s of %s is left out: %s", l.Pool, l.Name, l.Origin, l.Why)
}

// Merge makes the configuration in force: that of the file, with the surrogates that sources and the API have, and the changes. At most
// so many surrogates fit into it. The same input gives the same configuration, in whatever order it came about.
//
// Where two have a name, the file goes before the API, and that before the sources, in their order in the file.
func Merge(file *config.Config, sets map[Key]Set, changes Changes, most int) (*config.Config, []LeftOut) {
	m := merge{file: file, taken: make(map[string]bool), most: most, out: make([][]config.Surrogate, len(file.Pools))}
	for _, p := range file.Pools {
		for _, s := range p.Surrogates {
			m.taken[s.Name] = true
		}
	}
	m.fromFile(changes)
	m.fromAPI(changes)
	m.fromSources(sets, changes)
	merged := file.WithSurrogates(m.out)
	for i := range merged.Pools {
		m.zones(&merged.Pools[i], sets)
	}
	return merged, m.left
}

type merge struct {
	file  *config.Config
	taken map[string]bool // names
	count int
	most  int
	out   [][]config.Surrogate
	left  []LeftOut
}

// weighed applies a change to a surrogate. False: it is gone.
func weighed(s *config.Surrogate, changes Changes) bool {
	c, ok := changes[s.Name]
	if ok && c.Weight != nil {
		s.Weight, s.Weighed = *c.Weight, true
	}
	return !ok || !c.Gone
}

func (m *merge) fromFile(changes Changes) {
	for i, p := range m.file.Pools {
		for _, s := range p.Surrogates {
			if weighed(&s, changes) {
				m.out[i] = append(m.out[i], s)
				m.count++
			}
		}
	}
}

func (m *merge) fromAPI(changes Changes) {
	for _, c := range changes.Sorted() {
		if c.Pool == "" {
			continue
		}
		s := config.Surrogate{Name: c.Name, Address: c.Address, Weight: 1, Origin: API}
		if c.Weight != nil {
			s.Weight, s.Weighed = *c.Weight, true
		}
		i := slices.IndexFunc(m.file.Pools, func(p config.Pool) bool { return p.Name == c.Pool })
		if i < 0 {
			m.left = append(m.left, LeftOut{c.Pool, c.Name, API, "there is no such pool"})
			continue
		}
		m.add(i, s)
	}
}

func (m *merge) fromSources(sets map[Key]Set, changes Changes) {
	for i := range m.file.Pools {
		p := &m.file.Pools[i]
		fixed := m.out[i] // of the file and the API: a source has the same server again
		for _, of := range p.Discover {
			set := sets[Key{p.Name, of.String()}]
			for _, s := range set.Surrogates {
				sg := config.Surrogate{
					Name: cmp.Or(s.Name, nameOf(of.Prefix, s.Address)), Address: s.Address, Weight: s.Weight, Priority: s.Priority, Public: s.Public,
					Origin: of.String(), Weighed: of.Kind == config.DiscoverController,
				}
				same := func(o config.Surrogate) bool { return o.Address == s.Address }
				if slices.ContainsFunc(fixed, same) || !weighed(&sg, changes) {
					continue
				}
				if why := notRouted(&of, &sg); why != "" {
					m.left = append(m.left, LeftOut{p.Name, sg.Name, sg.Origin, why})
					continue
				}
				m.add(i, sg)
			}
		}
	}
}

// notRouted refuses answers of DNS that lead to the router itself, or to nobody: whoever can write the zone must not reach what listens
// on this host alone.
func notRouted(of *config.Discover, s *config.Surrogate) string {
	if a := s.Address.Addr(); of.Kind != config.DiscoverFile && !a.IsGlobalUnicast() {
		return fmt.Sprintf("%s is no address that another host can have", a)
	}
	return ""
}

// add adds a surrogate to a pool if it can be there.
func (m *merge) add(pool int, s config.Surrogate) {
	p := &m.file.Pools[pool]
	why := m.file.Refuses(p, &s)
	switch {
	case why != "":
	case m.taken[s.Name] && slices.ContainsFunc(m.out[pool], func(o config.Surrogate) bool { return o.Name == s.Name && o.Address == s.Address }):
		return // two sources have it
	case m.taken[s.Name]:
		why = "its name is another one's: a server in two pools has a name in each (a source's prefix makes them)"
	case len(m.out[pool]) >= config.MaxSurrogates:
		why = fmt.Sprintf("a pool has at most %d", config.MaxSurrogates)
	case m.count >= m.most:
		why = fmt.Sprintf("the router has at most %d", m.most)
	default:
		m.taken[s.Name] = true
		m.out[pool] = append(m.out[pool], s)
		m.count++
		return
	}
	m.left = append(m.left, LeftOut{p.Name, s.Name, s.Origin, why})
}

// zones adds the sources' zones that the file has not, for policies that have zones.
func (m *merge) zones(p *config.Pool, sets map[Key]Set) {
	if !p.Policy.HasZones() {
		return
	}
	have := make(map[string]config.Zone)
	for _, z := range p.Nearest {
		have[z.Prefix.String()] = z
	}
	before := len(have)
	for _, of := range p.Discover {
		set := sets[Key{p.Name, of.String()}]
		for _, z := range set.Zones {
			if _, ok := have[z.Prefix.String()]; !ok && z.Prefix.IsValid() {
				have[z.Prefix.String()] = z
			}
		}
	}
	if len(have) == before {
		return
	}
	p.Nearest = slices.SortedFunc(maps.Values(have), func(a, b config.Zone) int {
		return cmp.Or(b.Prefix.Bits()-a.Prefix.Bits(), a.Prefix.Addr().Compare(b.Prefix.Addr()))
	})
}
