package choose

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"baton/packet/hello"
	"baton/policy"
	"baton/router/config"
	"baton/router/head"
)

// Seen is what a router knows of a surrogate.
type Seen struct {
	Up       bool
	Draining bool
	Why      string // it is not up
	Sessions int
}

// Shared is a policy of a file at one time, for a pool.
type Shared struct {
	State *policy.State

	pool  *config.Pool
	index map[string]int // in the pool's surrogates, by name in the policy
}

// NewShared makes a snapshot of the pool's policy p. before is the policy's previous state, or nil: sites and surrogates
// that were full in it stay full until they are below the policy's resume share. A surrogate of the policy that is not
// in the pool is down.
func NewShared(pool *config.Pool, p *policy.Policy, before *policy.State, seen func(name string) Seen) *Shared {
	s := &Shared{pool: pool, index: make(map[string]int)}
	for i := range pool.Surrogates {
		name := config.PolicyName(pool.Surrogates[i].Name)
		if _, twice := s.index[name]; !twice {
			s.index[name] = i
		}
	}
	observed := make(map[string]policy.Observed)
	for _, site := range p.Config().Sites {
		for i := range site.Surrogates {
			observed[site.Surrogates[i].Name] = s.observe(site.Surrogates[i].Name, seen)
		}
	}
	s.State = p.State(before, observed, measured(pool.Nearest))
	return s
}

func (s *Shared) observe(name string, seen func(name string) Seen) policy.Observed {
	i, ok := s.index[name]
	if !ok {
		return policy.Observed{Down: true, Error: "it is not in pool " + s.pool.Name}
	}
	sg := &s.pool.Surrogates[i]
	now := seen(sg.Name)
	o := policy.Observed{Down: !now.Up, Error: now.Why, Sessions: now.Sessions}
	if now.Draining {
		o.Maintenance = &now.Draining
	}
	if sg.Weighed || sg.Weight == 0 {
		o.Weight = &sg.Weight
	}
	return o
}

// measured are the zones of a pool as distances, which a controller measures.
func measured(zones []config.Zone) []policy.Measured {
	out := make([]policy.Measured, len(zones))
	for i, z := range zones {
		names := make([]string, len(z.Surrogates))
		for j, name := range z.Surrogates {
			names[j] = config.PolicyName(name)
		}
		out[i] = policy.Ranked(z.Prefix, names)
	}
	return out
}

// Question is what the policy is asked about a client's request.
func Question(p *config.Shared, req *head.Request, client netip.Addr) policy.Query {
	q := question(p, string(req.Host), client)
	q.Path, q.RawQuery = string(req.Path), string(req.Query)
	if p.Cookie != "" {
		q.Sticky = cookie(req.Fields, p.Cookie)
	}
	return q
}

// QuestionOfHello returns the policy's query for a client's hello, which gives only the host name.
func QuestionOfHello(p *config.Shared, h *hello.Hello, client netip.Addr) policy.Query {
	return question(p, h.ServerName, client)
}

func question(p *config.Shared, host string, client netip.Addr) policy.Query {
	q := policy.Query{Host: cmp.Or(p.Service, host), Random: rand.Uint64()}
	if client.IsValid() {
		q.Client = policy.Whole(client)
	}
	return q
}

// cookie returns the value of a request's first cookie of a name (RFC 6265, section 4.2); "": it has none.
func cookie(fields head.Fields, name string) string {
	for field, value := range fields.All() {
		if !bytes.EqualFold(field, []byte("cookie")) {
			continue
		}
		for one := range bytes.SplitSeq(value, []byte(";")) {
			if k, v, ok := bytes.Cut(bytes.TrimSpace(one), []byte("=")); ok && string(k) == name {
				return string(v)
			}
		}
	}
	return ""
}

// First returns the index of a decision's first surrogate that is not one of exclude.
func (s *Shared) First(d *policy.Decision, exclude []string) (int, bool) {
	for _, c := range d.Choices {
		if i, ok := s.index[c.Surrogate.Name]; ok && !slices.Contains(exclude, s.pool.Surrogates[i].Name) {
			return i, true
		}
	}
	return 0, false
}

// Decide decides with reasons, for so many surrogates more than one as may be excluded.
func (s *Shared) Decide(q policy.Query, excluded int) policy.Decision {
	q.Want = 1 + excluded
	return s.State.Explain(&q)
}

// Excluded is the reason for which each of the pool's surrogates gets no new sessions, "" if it can be chosen.
func (s *Shared) Excluded() []string {
	out := make([]string, len(s.pool.Surrogates))
	for i := range s.pool.Surrogates {
		name := config.PolicyName(s.pool.Surrogates[i].Name)
		if j, ok := s.index[name]; ok && j != i {
			out[i] = fmt.Sprintf("%s is %s of the policy, too", s.pool.Surrogates[j].Name, name)
			continue
		}
		out[i] = s.State.Unusable(name)
	}
	return out
}

// MostAreas bounds the areas of a pool in the kernel's tables: at each change of a surrogate they are written anew.
const MostAreas = 16384

// Tables are what the kernel can choose by of a Shared. Where both are empty user space chooses.
type Tables struct {
	Turns []uint16    // for all clients, in turn; empty: by zone
	Zones []ZoneTable // the longest prefix with the client: an empty table is for user space
	whys  []string    // that it is, by zone
	why   string      // there are neither
}

// Tables returns what the kernel chooses exactly as the State decides.
func (s *Shared) Tables() Tables {
	var services []string
	if s.pool.Shared.Service != "" {
		services = []string{s.pool.Shared.Service}
	}
	areas := s.State.Areas(services, MostAreas)
	if areas == nil {
		return Tables{why: fmt.Sprintf("the policy tells apart more than %d networks of clients", MostAreas)}
	}
	if turns, ok := s.turns(areas); ok {
		return Tables{Turns: turns}
	}
	var t Tables
	some := false
	for _, a := range areas {
		z, why := ZoneTable{Prefix: a.Prefix}, a.Why
		switch {
		case len(a.Surrogates) == 1:
			z.Table, some = []uint16{uint16(s.index[a.Surrogates[0]])}, true
		case len(a.Surrogates) > 1:
			why = "spread weight among some of the clients, or with weights that the kernel's tables do not hold exactly"
		}
		t.Zones, t.whys = append(t.Zones, z), append(t.whys, why)
	}
	if !some {
		return Tables{why: t.whys[0]}
	}
	return t
}

// turns is a table by weight, if all clients have the same one and it holds the weights exactly. Clients of different sites would disturb each other's turns.
func (s *Shared) turns(areas []policy.Area) ([]uint16, bool) {
	first := &areas[0]
	for i := range areas {
		if len(areas[i].Surrogates) < 2 || !slices.Equal(areas[i].Surrogates, first.Surrogates) || !slices.Equal(areas[i].Weights, first.Weights) {
			return nil, false
		}
	}
	candidates := make([]Candidate, len(s.pool.Surrogates))
	divisor, sum := 0, 0
	for i, name := range first.Surrogates {
		candidates[s.index[name]] = Candidate{Name: name, Up: true, Weight: first.Weights[i]}
		divisor, sum = gcd(divisor, first.Weights[i]), sum+first.Weights[i]
	}
	if sum/divisor > Slots {
		return nil, false
	}
	return weighted(candidates), true
}

// Of is the kernel's choice for a client, as a model for tests and for explanations; without one user space chooses, as why says.
func (t *Tables) Of(client netip.Addr) (table []uint16, why string) {
	if len(t.Turns) > 0 || len(t.Zones) == 0 {
		return t.Turns, t.why
	}
	client = client.Unmap().WithZone("")
	best := -1
	for i, z := range t.Zones {
		if z.Prefix.Contains(client) && (best < 0 || z.Prefix.Bits() > t.Zones[best].Prefix.Bits()) {
			best = i
		}
	}
	if best < 0 {
		return nil, "the client's address is not known"
	}
	return t.Zones[best].Table, t.whys[best]
}
