package router

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"baton/api"
	kernel "baton/datapath/router"
	"baton/policy"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/route"
)

// shared is what the router has of policies of files.
type shared struct {
	log   *policy.Log // decisions that user space made
	often *rate.Limiter

	mu sync.Mutex
	// later are policies whose own files (coverage zones, places) have changed since the router's configuration was read.
	later    map[*config.Shared]*policy.Policy
	troubles map[string]string // by file of a policy: why its own files are not in force
}

const (
	decisionsKept = 512
	// decisionsLogged are the decisions of a second that get into the log.
	decisionsLogged = 100
	// countEvery is how old the numbers of sessions may be that capacities are compared with.
	countEvery = 200 * time.Millisecond
	// lookAtFiles is how often policies' own files are looked at.
	lookAtFiles = 2 * time.Second
)

func newShared() shared {
	return shared{log: policy.NewLog(decisionsKept), often: rate.NewLimiter(decisionsLogged, decisionsLogged), later: make(map[*config.Shared]*policy.Policy), troubles: make(map[string]string)}
}

// policyOf is the policy in force of a pool.
func (r *Router) policyOf(s *config.Shared) *policy.Policy {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	if p := r.shared.later[s]; p != nil {
		return p
	}
	return s.Policy
}

// choose rebuilds a state's choices.
func (r *Router) choose(s *state) {
	count := r.counted(s)
	s.choose(r.health.State, func(p *poolState) *choose.Shared {
		return choose.NewShared(p.cfg, r.policyOf(p.cfg.Shared), r.stateBefore(p.cfg), func(name string) choose.Seen {
			h := r.health.State(name)
			return choose.Seen{Up: h.Up, Draining: h.Draining, Why: h.LastError, Sessions: count[counter{p.cfg.Shared.File, config.PolicyName(name)}]}
		})
	})
}

// stateBefore is the last snapshot of a pool's policy, or nil.
func (r *Router) stateBefore(p *config.Pool) *policy.State {
	s := r.current()
	if s == nil {
		return nil
	}
	for _, old := range s.pools {
		if c := old.choices.Load(); old.cfg.Name == p.Name && c != nil && c.shared != nil {
			return c.shared.State
		}
	}
	return nil
}

// counter is a surrogate of a policy, which several pools may have.
type counter struct{ file, surrogate string }

// counted are the live sessions of surrogates of policies. Those of TCP are a pool's, those of QUIC an address's.
func (r *Router) counted(s *state) map[counter]int {
	type quicCounter struct {
		file    string
		address netip.AddrPort
	}
	out, quics := make(map[counter]int), make(map[quicCounter]bool)
	for _, p := range s.pools {
		if p.cfg.Shared == nil {
			continue
		}
		for i := range p.cfg.Surrogates {
			sg := &p.cfg.Surrogates[i]
			at := counter{p.cfg.Shared.File, config.PolicyName(sg.Name)}
			out[at] += int(r.sessions(p.ids[i]))
			if q := (quicCounter{p.cfg.Shared.File, sg.Address}); !quics[q] {
				quics[q] = true
				out[at] += r.quicSessions(sg.Address)
			}
		}
	}
	return out
}

// follow keeps the snapshots of policies at what is: live sessions, and the policies' own files.
func (h *shared) follow(ctx context.Context, r *Router) error {
	count, look := time.NewTicker(countEvery), time.NewTicker(lookAtFiles)
	defer count.Stop()
	defer look.Stop()
	var before map[counter]int
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if h.read(r) {
				r.notify()
			}
		case <-count.C:
			s := r.current()
			if !slices.ContainsFunc(s.pools, func(p *poolState) bool { return p.cfg.Shared != nil && counts(r.policyOf(p.cfg.Shared).Config()) }) {
				continue
			}
			if now := r.counted(s); !maps.Equal(now, before) {
				before = now
				r.notify()
			}
		}
	}
}

// counts reports whether numbers of sessions have a say in a policy.
func counts(c *policy.Config) bool {
	if c.Rules.Spread == policy.ByLoad {
		return true
	}
	return slices.ContainsFunc(c.Services, func(s policy.Service) bool { return s.Rules.Spread == policy.ByLoad }) ||
		slices.ContainsFunc(c.Sites, func(s policy.Site) bool {
			return s.Capacity > 0 || slices.ContainsFunc(s.Surrogates, func(u policy.Surrogate) bool { return u.Capacity > 0 })
		})
}

// read reads policies' own files that have changed, and reports whether there are some. A broken file leaves its earlier content in force.
func (h *shared) read(r *Router) bool {
	later, troubles, changed := make(map[*config.Shared]*policy.Policy), make(map[string]string), false
	loaded := make(map[*policy.Policy]*policy.Policy)
	for _, p := range r.current().pools {
		if p.cfg.Shared == nil {
			continue
		}
		now := r.policyOf(p.cfg.Shared)
		next, done := loaded[now]
		if !done {
			if next = h.again(now, p.cfg.Shared.File, troubles); next != now {
				changed = true
			}
			loaded[now] = next
		}
		later[p.cfg.Shared] = next
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for file, text := range troubles {
		if h.troubles[file] != text {
			r.log.Warn("a policy's own file cannot be read", "policy", file, "err", text)
		}
	}
	h.later, h.troubles = later, troubles
	return changed
}

// again reads a policy's own files if they have changed.
func (h *shared) again(now *policy.Policy, file string, troubles map[string]string) *policy.Policy {
	if !now.Changed() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if text := h.troubles[file]; text != "" {
			troubles[file] = text
		}
		return now
	}
	next, err := policy.Load(*now.Config(), now)
	if err != nil {
		troubles[file] = err.Error()
	}
	if next == nil {
		return now
	}
	return next
}

// warnings are the policies' own files that cannot be read, a line each.
func (h *shared) warnings() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, file := range slices.Sorted(maps.Keys(h.troubles)) {
		out = append(out, "policy "+file+": "+h.troubles[file])
	}
	return out
}

// The ways in which clients are redirected, for the log of decisions.
const (
	byHandoff  = "handoff"
	byRedirect = "redirect"
)

// pick chooses a surrogate of a pool. False: none is available; bypass is where to send the client then, or "".
func (r *Router) pick(p *poolState, a *asked, exclude []string, method string, sessions func(id uint16) uint64) (at int, bypass string, ok bool) {
	c := p.choices.Load()
	if c.shared == nil {
		at, ok = p.pick(a, exclude, sessions)
		return at, "", ok
	}
	d := c.shared.Decide(a.query, len(exclude))
	if len(exclude) == 0 {
		r.metrics.PolicyDecided(p.cfg.Name, &d)
		if r.shared.often.Allow() {
			r.shared.log.Add(d.Record(time.Now(), method, &a.query))
		}
	}
	at, ok = c.shared.First(&d, exclude)
	return at, config.BypassURL(d.Bypass), ok
}

// Decisions are the last ones that user space made by policies of files, the newest first.
func (r *Router) decisions(context.Context) ([]api.RoutingDecision, error) {
	last := r.shared.log.Last(0)
	slices.Reverse(last)
	return last, nil
}

// shared is the snapshot in force of a pool's policy of a file.
func (s *state) shared(of *config.Pool) *choose.Shared {
	for _, p := range s.pools {
		if p.cfg == of {
			return p.choices.Load().shared
		}
	}
	return nil
}

// public is where a redirected client finds a surrogate.
func (p *poolState) public(at int) string {
	sg := &p.cfg.Surrogates[at]
	if sg.Public != "" || p.cfg.Shared == nil {
		return sg.Public
	}
	if u, _ := p.choices.Load().shared.State.Policy().Surrogate(config.PolicyName(sg.Name)); u != nil && u.Host != "" {
		return "http://" + u.Host
	}
	return ""
}

// sharedTables fills in what the kernel can choose by policies of files, as far as there are tables left.
func (s *state) sharedTables(t *kernel.Tables, local func(surrogate string) bool) {
	tables, zones := 0, len(t.Zones)
	for i, p := range s.pools {
		if p.cfg.Policy == config.Nearest && s.routes.Unchosen(i, p.cfg, func(string) bool { return false }) == "" {
			tables += route.ZoneTables(p.cfg)
		}
	}
	for i, p := range s.pools {
		c := p.choices.Load()
		if c.shared == nil || s.routes.Unchosen(i, p.cfg, local) != "" {
			continue
		}
		k := t.Pools[p.id]
		if len(c.tables.Turns) > 0 {
			k.Policy, k.Table = kernel.RoundRobin, p.numbersOf(c.tables.Turns)
		}
		if need := min(len(c.tables.Zones), len(p.ids)+1); need > 0 && tables+need <= kernel.MaxZoneTables && zones+len(c.tables.Zones) <= kernel.MaxZones {
			tables, zones = tables+need, zones+len(c.tables.Zones)
			k.Policy = kernel.Nearest
			for _, z := range c.tables.Zones {
				t.Zones = append(t.Zones, kernel.Zone{Pool: p.id, Prefix: z.Prefix, Table: p.numbersOf(z.Table)})
			}
		}
		t.Pools[p.id] = k
	}
}

// noSurrogate answers a client that no surrogate can serve, or hands it to the proxy, which redirects it.
func (u *upcalls) noSurrogate(p *pending, bypass string) {
	if bypass != "" {
		u.local(p, nil, "bypass")
		return
	}
	u.local(p, &fallback.Verdict{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}, "no surrogate")
}
