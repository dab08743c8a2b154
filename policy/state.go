package policy

import (
	"fmt"
	"net/netip"
	"slices"
)

// Observed is what is known of a surrogate, from outside: checks, operators, counters.
type Observed struct {
	Down        bool
	Error       string // why it is down
	Maintenance *bool  // nil: as in the configuration
	Weight      *int   // nil: that of the configuration
	Sessions    int
}

// InMaintenance reports whether a surrogate is in maintenance, by the configuration or by what was observed.
func (o *Observed) InMaintenance(u *Surrogate) bool {
	if o.Maintenance != nil {
		return *o.Maintenance
	}
	return u.Maintenance
}

// WeightOf is a surrogate's weight, by the configuration or by what was observed.
func (o *Observed) WeightOf(u *Surrogate) int {
	if o.Weight != nil {
		return max(*o.Weight, 0)
	}
	return u.Weight
}

// Measured has the distances from clients to surrogates, as a controller knows them: hops, or a time in any unit.
type Measured struct {
	Prefix    netip.Prefix
	Distances map[string]uint32 // by surrogate; those without one come last
}

// Far is the distance of a surrogate without one.
const Far = ^uint32(0)

// Ranked has the order of surrogates from a prefix, the nearest first, as distances.
func Ranked(prefix netip.Prefix, surrogates []string) Measured {
	m := Measured{Prefix: prefix, Distances: make(map[string]uint32, len(surrogates))}
	for i, name := range surrogates {
		m.Distances[name] = uint32(i) + 1
	}
	return m
}

// State is a policy with what is known at one time. It never changes: callers keep it in an atomic pointer, and swap it.
type State struct {
	policy     *Policy
	surrogates []condition
	sites      []fullness
	near       table      // values: indices of distances
	distances  [][]uint32 // by surrogate
	prefixes   []netip.Prefix
	geo        Geo
}

type condition struct {
	Observed
	maintenance bool
	weight      int
	fullness
}

// fullness is a count of sessions with its limit.
type fullness struct {
	sessions, capacity int
	full               bool // has reached the capacity, and was not below Config.Resume since
}

// percent rounds up, so that what is full is never called less.
func (f *fullness) percent() int { return (100*f.sessions + f.capacity - 1) / f.capacity }

func (f *fullness) update(was bool, resume float64) {
	switch {
	case f.capacity == 0:
	case f.sessions >= f.capacity:
		f.full = true
	default:
		f.full = was && float64(f.sessions) >= resume*float64(f.capacity)
	}
}

// State returns a snapshot. before is the snapshot until then, also one of another policy; nil: none. It says which sites and surrogates were full: those take
// clients again below Config.Resume of their capacity. Surrogates that seen lacks are up, with the configuration's weight and without sessions.
func (p *Policy) State(before *State, seen map[string]Observed, measured []Measured) *State {
	s := &State{policy: p, surrogates: make([]condition, len(p.surrogates)), sites: make([]fullness, len(p.sites)), geo: p.files.geo}
	was := before.whatWasFull()
	for i := range p.sites {
		s.sites[i].capacity = p.sites[i].Capacity
	}
	for i := range p.surrogates {
		u, c := &p.surrogates[i], &s.surrogates[i]
		c.Observed = seen[u.Name]
		c.maintenance, c.weight = c.InMaintenance(&u.Surrogate), c.WeightOf(&u.Surrogate)
		c.sessions, c.capacity = c.Sessions, u.Capacity
		c.update(was["surrogate "+u.Name], p.resume)
		s.sites[u.site].sessions += c.sessions
	}
	for i := range s.sites {
		s.sites[i].update(was["site "+p.sites[i].Name], p.resume)
	}
	s.measure(measured)
	return s
}

func (s *State) whatWasFull() map[string]bool {
	if s == nil {
		return nil
	}
	was := make(map[string]bool)
	for i := range s.sites {
		was["site "+s.policy.sites[i].Name] = s.sites[i].full
	}
	for i := range s.surrogates {
		was["surrogate "+s.policy.surrogates[i].Name] = s.surrogates[i].full
	}
	return was
}

func (s *State) measure(measured []Measured) {
	for _, m := range measured {
		far := slices.Repeat([]uint32{Far}, len(s.surrogates))
		for i := range s.policy.surrogates {
			if d, ok := m.Distances[s.policy.surrogates[i].Name]; ok {
				far[i] = d
			}
		}
		s.prefixes = append(s.prefixes, m.Prefix.Masked())
		s.distances = append(s.distances, far)
	}
	s.near = newTable(s.prefixes)
}

// Policy returns the policy of the snapshot.
func (s *State) Policy() *Policy { return s.policy }

// SiteState is what a snapshot says of a site, for status pages.
type SiteState struct {
	Name     string
	Sessions int
	Capacity int  // 0: no limit
	Full     bool // takes no clients until it is below Config.Resume
	Serves   int  // surrogates that can serve
}

// Sites returns the state of all sites, in the configuration's order.
func (s *State) Sites() []SiteState {
	out := make([]SiteState, len(s.sites))
	for i := range s.sites {
		site, f := &s.policy.sites[i], &s.sites[i]
		out[i] = SiteState{Name: site.Name, Sessions: f.sessions, Capacity: f.capacity, Full: f.full}
		for u := site.first; u < site.past; u++ {
			if s.unusable(u) == "" {
				out[i].Serves++
			}
		}
	}
	return out
}

// usable reports whether a surrogate can take a client.
func (s *State) usable(u int) bool {
	c := &s.surrogates[u]
	return !c.maintenance && !c.Down && c.weight > 0 && !c.full
}

// unusable says why a surrogate cannot take a client; "": it can.
func (s *State) unusable(u int) string {
	name, c := s.policy.surrogates[u].Name, &s.surrogates[u]
	switch {
	case c.maintenance:
		return name + " is in maintenance"
	case c.Down && c.Error != "":
		return name + " is down: " + c.Error
	case c.Down:
		return name + " is down"
	case c.weight <= 0:
		return name + " has weight 0"
	case c.full:
		return name + " is " + c.text(s.policy.resume)
	}
	return ""
}

// Weight returns the weight of a surrogate, or 0 for an unknown one.
func (s *State) Weight(name string) int {
	if i := s.policy.Index(name); i >= 0 {
		return s.surrogates[i].weight
	}
	return 0
}

// Unusable says why a surrogate cannot take a client; "": it can. Its site may be full, or in maintenance.
func (s *State) Unusable(name string) string {
	if i := s.policy.Index(name); i >= 0 {
		return s.unusable(i)
	}
	return name + " is not in the policy"
}

// text says how full something is that is full.
func (f *fullness) text(resume float64) string {
	if f.sessions >= f.capacity {
		return fmt.Sprintf("at %d %% of %d sessions", f.percent(), f.capacity)
	}
	return fmt.Sprintf("at %d %% of %d sessions, was full and resumes below %g %%", f.percent(), f.capacity, 100*resume)
}
