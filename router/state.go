package router

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"baton/packet/hello"
	"baton/policy"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/discover"
	"baton/router/fields"
	"baton/router/head"
	"baton/router/health"
	"baton/router/route"
)

// state is a configuration in force and what derives from it. A reload replaces it as a whole; a change of a surrogate's health
// replaces the pools' choices.
type state struct {
	cfg     *config.Config
	routes  *route.Table
	kernel  route.Kernel
	pools   []*poolState           // in the order of cfg.Pools
	ids     map[string]uint16      // surrogates' numbers in the data path, by name
	names   map[uint16]string      // and the reverse
	byAddr  map[netip.AddrPort]int // VIP index, but for those of QUIC
	quics   map[netip.AddrPort]int // VIP index of those
	watched [][]string             // by VIP: names of fields that requests to pools with fields must not have
	fresh   []uint16               // newly assigned surrogates' numbers, until stored in the data path
	changes discover.Changes       // by API
}

type poolState struct {
	cfg     *config.Pool
	fields  fields.Set
	id      uint16   // number in the data path
	ids     []uint16 // numbers of cfg.Surrogates
	turn    atomic.Uint64
	choices atomic.Pointer[choices]
}

// choices are the available surrogates of a pool.
type choices struct {
	candidates []choose.Candidate
	table      []uint16
	zones      []choose.ZoneTable

	// Of a policy of a file. The kernel's tables are made of it in place of those above.
	shared   *choose.Shared
	tables   choose.Tables
	excluded []string // of the pool's surrogates
}

// newState builds a state; pools and surrogates known to n keep their numbers.
func newState(cfg *config.Config, n *numbers) (*state, error) {
	if err := Check(cfg); err != nil {
		return nil, err
	}
	routes, err := route.Compile(cfg)
	if err != nil {
		return nil, err
	}
	s := &state{
		cfg: cfg, routes: routes, kernel: routes.Kernel(),
		ids: make(map[string]uint16), names: make(map[uint16]string), byAddr: make(map[netip.AddrPort]int), quics: quicVIPs(cfg),
	}
	for i, v := range cfg.VIPs {
		s.watched = append(s.watched, cfg.ReplacedAt(&v))
		if v.Protocol != config.QUIC {
			s.byAddr[v.Address] = i
		}
	}
	var all []config.Surrogate
	for _, p := range cfg.Pools {
		all = append(all, p.Surrogates...)
	}
	pools, err := n.numberPools(cfg.Pools)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	surrogates, fresh, err := n.numberSurrogates(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	s.fresh = fresh
	for i := range cfg.Pools {
		p := &poolState{cfg: &cfg.Pools[i], fields: fields.Of(&cfg.Pools[i]), id: pools[i]}
		p.ids, surrogates = surrogates[:len(p.cfg.Surrogates)], surrogates[len(p.cfg.Surrogates):]
		for j, sg := range p.cfg.Surrogates {
			s.ids[sg.Name], s.names[p.ids[j]] = p.ids[j], sg.Name
		}
		s.pools = append(s.pools, p)
	}
	return s, nil
}

// handedOff are the VIPs whose sessions the kernel splices.
func (s *state) handedOff() []netip.AddrPort {
	var out []netip.AddrPort
	for i := range s.cfg.VIPs {
		if v := &s.cfg.VIPs[i]; handsOff(v) {
			out = append(out, v.Address)
		}
	}
	return out
}

// holds reports whether clients of a VIP are limited to one request at a time.
func (s *state) holds(vip netip.AddrPort) bool {
	i, ok := s.byAddr[vip]
	return ok && s.cfg.VIPs[i].Pipelining == config.PipeliningHold
}

// encrypted reports whether sessions of a VIP are routed by their hello.
func (s *state) encrypted(vip netip.AddrPort) bool {
	i, ok := s.byAddr[vip]
	return ok && s.cfg.VIPs[i].Protocol.Encrypted()
}

// helloWait is how long clients of a VIP may be silent in the middle of their hello.
func (s *state) helloWait(vip netip.AddrPort) time.Duration {
	i, ok := s.byAddr[vip]
	if ok && slices.ContainsFunc(s.cfg.VIPs[i].Routes, func(r config.Route) bool {
		return slices.ContainsFunc(s.pools, func(p *poolState) bool { return p.cfg.Name == r.Pool && p.cfg.Keeps() })
	}) {
		return keptHelloWait
	}
	return helloWait
}

// logs reports whether what a VIP's clients ask for goes into an access log.
func (s *state) logs(vip int) bool { return len(s.cfg.Access) > 0 && !s.cfg.VIPs[vip].Unlogged }

// choose rebuilds every pool's choices from the surrogates' health. shared makes those of pools with a policy of a file.
func (s *state) choose(health func(name string) health.State, shared func(*poolState) *choose.Shared) {
	for _, p := range s.pools {
		if p.cfg.Shared != nil {
			c := &choices{shared: shared(p)}
			c.tables, c.excluded = c.shared.Tables(), c.shared.Excluded()
			p.choices.Store(c)
			continue
		}
		c := &choices{candidates: choose.Candidates(p.cfg, func(name string) (up, draining bool) {
			h := health(name)
			return h.Up, h.Draining
		})}
		c.table = choose.Table(p.cfg.Policy, c.candidates)
		if p.cfg.Policy == config.Nearest {
			c.zones = choose.Nearest(p.cfg.Nearest, c.candidates)
		}
		p.choices.Store(c)
	}
}

// usable finds a surrogate of the pool by name. False: unknown or not available.
func (p *poolState) usable(name string) (int, bool) {
	c := p.choices.Load()
	for i := range p.cfg.Surrogates {
		if p.cfg.Surrogates[i].Name != name {
			continue
		}
		if c.shared != nil {
			return i, c.excluded[i] == ""
		}
		return i, c.candidates[i].Excluded() == ""
	}
	return 0, false
}

// asked is what a choice depends on.
type asked struct {
	client netip.Addr
	hash   uint64       // for policy hash
	query  policy.Query // for a policy of a file
}

func (p *poolState) asks(req *head.Request, client netip.Addr) asked {
	a := asked{client: client}
	if p.cfg.Shared != nil {
		a.query = choose.Question(p.cfg.Shared, req, client)
	} else {
		a.hash = choose.Hash(req.Path, req.Query, p.cfg.HashQuery)
	}
	return a
}

func (p *poolState) asksHello(h *hello.Hello, client netip.Addr) asked {
	a := asked{client: client, hash: hello.Hash(client, h.ServerName)}
	if p.cfg.Shared != nil {
		a.query = choose.QuestionOfHello(p.cfg.Shared, h, client)
	}
	return a
}

// pick chooses a surrogate for a request or a hello that user space decides. False: none is available. Policies of a file are not for pick.
func (p *poolState) pick(a *asked, exclude []string, sessions func(id uint16) uint64) (int, bool) {
	c := p.choices.Load()
	table := c.table
	if len(exclude) > 0 {
		left := append([]choose.Candidate(nil), c.candidates...)
		for i := range left {
			for _, name := range exclude {
				if left[i].Name == name {
					left[i].Up = false
				}
			}
		}
		choose.Rank(left)
		c = &choices{candidates: left, table: choose.Table(p.cfg.Policy, left)}
		if p.cfg.Policy == config.Nearest {
			c.zones = choose.Nearest(p.cfg.Nearest, left)
		}
		table = c.table
	}
	var (
		at uint16
		ok bool
	)
	switch p.cfg.Policy {
	case config.Hash:
		at, ok = choose.Slot(table, a.hash)
	case config.LeastSessions:
		at, ok = choose.Least(table, p.turn.Add(1)-1, func(i uint16) uint64 { return sessions(p.ids[i]) })
	case config.Nearest:
		if z := choose.ZoneOf(p.cfg.Nearest, a.client); z >= 0 {
			table = c.zones[z].Table
		}
		at, ok = choose.Pick(table, p.turn.Add(1)-1)
	default:
		at, ok = choose.Pick(table, p.turn.Add(1)-1)
	}
	return int(at), ok
}

// poolOf is the name of the pool that a surrogate is in; "" for a surrogate that there is not.
func (s *state) poolOf(surrogate string) string {
	for _, p := range s.cfg.Pools {
		if slices.ContainsFunc(p.Surrogates, func(sg config.Surrogate) bool { return sg.Name == surrogate }) {
			return p.Name
		}
	}
	return ""
}
