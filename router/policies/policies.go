// Package policies follows the policies of files that pools have: live sessions and the policies' own files change what they
// choose. It keeps a log of the decisions that user space made by them.
package policies

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"baton/api"
	"baton/policy"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/health"
	"baton/router/state"
)

// The ways in which clients get to their surrogate, for the log of decisions.
const (
	ByHandoff  = "handoff"
	ByRedirect = "redirect"
)

// Options of Policies.
type Options struct {
	Log *slog.Logger
	// Snapshot is the one in force; nil before the first.
	Snapshot func() *state.Snapshot
	Health   func(surrogate string) health.State
	// Sessions counts a surrogate's live sessions of TCP, by its number; QUICSessions those of QUIC, by its address.
	Sessions     func(id uint16) uint64
	QUICSessions func(surrogate netip.AddrPort) int
	// Changed is called when policies may choose otherwise.
	Changed func()
	// Decided gets each decision by a policy of a file.
	Decided func(pool string, d *policy.Decision)
}

// Policies are the policies of files. Its methods may be called from any goroutine.
type Policies struct {
	o         Options
	decisions *policy.Log // that user space made
	often     *rate.Limiter

	mu sync.Mutex
	// newer are policies whose own files (coverage zones, places) have changed since the router's configuration was read.
	newer    map[*config.Shared]*policy.Policy
	troubles map[string]string // by file of a policy: why its own files are not in force
}

const (
	decisionsKept = 512
	// decisionsLogged are the decisions of a second that get into the log.
	decisionsLogged = 100
	// countEvery is how old the numbers of sessions may be that capacities are compared with.
	countEvery = 200 * time.Millisecond
	// readEvery is how often policies' own files are inspected.
	readEvery = 2 * time.Second
)

// New makes Policies.
func New(o Options) *Policies {
	return &Policies{
		o: o, decisions: policy.NewLog(decisionsKept), often: rate.NewLimiter(decisionsLogged, decisionsLogged),
		newer: make(map[*config.Shared]*policy.Policy), troubles: make(map[string]string),
	}
}

// inForce is the policy in force of a pool.
func (p *Policies) inForce(of *config.Shared) *policy.Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	if newer := p.newer[of]; newer != nil {
		return newer
	}
	return of.Policy
}

// Snapshot makes a snapshot of a configuration from the known state.
func (p *Policies) Snapshot(c *state.Compiled) *state.Snapshot {
	sessions := p.countSessions(c)
	return c.Snapshot(p.o.Health, func(pool *state.NumberedPool) *choose.Shared {
		var before *policy.State
		if old := p.o.Snapshot().PolicyOf(pool.Config); old != nil {
			before = old.State
		}
		of := pool.Config.Shared
		return choose.NewShared(pool.Config, p.inForce(of), before, func(name string) choose.Seen {
			h := p.o.Health(name)
			return choose.Seen{
				Up: h.Up, Draining: h.Draining, Why: h.LastError, Sessions: sessions[counted{of.File, config.PolicyName(name)}],
			}
		})
	})
}

// Pick chooses a surrogate of a pool, as state.Pool.Pick does, and keeps a decision by a policy of a file.
func (p *Policies) Pick(pool *state.Pool, q *state.Question, exclude []string, method string, sessions func(id uint16) uint64) (state.Choice, bool) {
	c, ok := pool.Pick(q, exclude, sessions)
	if c.Decision != nil && len(exclude) == 0 {
		p.o.Decided(pool.Config.Name, c.Decision)
		if p.often.Allow() {
			p.decisions.Add(c.Decision.Record(time.Now(), method, &q.Query))
		}
	}
	return c, ok
}

// Decisions are the last ones, the newest first.
func (p *Policies) Decisions(context.Context) ([]api.RoutingDecision, error) {
	last := p.decisions.Last(0)
	slices.Reverse(last)
	return last, nil
}

// counted is a surrogate of a policy, which several pools may have.
type counted struct{ file, surrogate string }

// countSessions counts the live sessions of surrogates of policies. Those of TCP are a pool's, those of QUIC an address's.
func (p *Policies) countSessions(c *state.Compiled) map[counted]int {
	type countedQUIC struct {
		file    string
		address netip.AddrPort
	}
	out, quics := make(map[counted]int), make(map[countedQUIC]bool)
	for _, pool := range c.Numbered {
		if pool.Config.Shared == nil {
			continue
		}
		file := pool.Config.Shared.File
		for i := range pool.Config.Surrogates {
			sg := &pool.Config.Surrogates[i]
			at := counted{file, config.PolicyName(sg.Name)}
			out[at] += int(p.o.Sessions(pool.IDs[i]))
			if q := (countedQUIC{file, sg.Address}); !quics[q] {
				quics[q] = true
				out[at] += p.o.QUICSessions(sg.Address)
			}
		}
	}
	return out
}

// Run watches the live sessions, and the policies' own files, until ctx is done.
func (p *Policies) Run(ctx context.Context) {
	count, read := time.NewTicker(countEvery), time.NewTicker(readEvery)
	defer count.Stop()
	defer read.Stop()
	var before map[counted]int
	for {
		select {
		case <-ctx.Done():
			return
		case <-read.C:
			if p.readFiles() {
				p.o.Changed()
			}
		case <-count.C:
			c := p.o.Snapshot().Compiled
			if !slices.ContainsFunc(c.Numbered, func(pool *state.NumberedPool) bool {
				return pool.Config.Shared != nil && counts(p.inForce(pool.Config.Shared).Config())
			}) {
				continue
			}
			if now := p.countSessions(c); !maps.Equal(now, before) {
				before = now
				p.o.Changed()
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

// readFiles reads policies' own files that have changed, and reports whether there are some. A broken file leaves its earlier
// content in force.
func (p *Policies) readFiles() bool {
	newer, troubles, changed := make(map[*config.Shared]*policy.Policy), make(map[string]string), false
	read := make(map[*policy.Policy]*policy.Policy)
	for _, pool := range p.o.Snapshot().Numbered {
		if pool.Config.Shared == nil {
			continue
		}
		now := p.inForce(pool.Config.Shared)
		next, done := read[now]
		if !done {
			next = p.readIfChanged(now, pool.Config.Shared.File, troubles)
			changed = changed || next != now
			read[now] = next
		}
		newer[pool.Config.Shared] = next
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for file, text := range troubles {
		if p.troubles[file] != text {
			p.o.Log.Warn("a policy's own file cannot be read", "policy", file, "err", text)
		}
	}
	p.newer, p.troubles = newer, troubles
	return changed
}

// readIfChanged reads a policy's own files if they have changed.
func (p *Policies) readIfChanged(now *policy.Policy, file string, troubles map[string]string) *policy.Policy {
	if !now.Changed() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if text := p.troubles[file]; text != "" {
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

// Warnings are the policies' own files that cannot be read, a line each.
func (p *Policies) Warnings() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, file := range slices.Sorted(maps.Keys(p.troubles)) {
		out = append(out, "policy "+file+": "+p.troubles[file])
	}
	return out
}
