package router

import (
	"context"

	kernel "baton/datapath/router"
	"baton/router/certs"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/proxyheader"
	"baton/router/state"
)

// targets are the surrogates to check.
func targets(cfg *config.Config) []health.Target {
	var out []health.Target
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		var names []certs.Ask
		if p.Encrypted {
			names = certs.Names(cfg, p)
		}
		for _, s := range p.Surrogates {
			out = append(out, health.Target{
				Name: s.Name, Address: s.Address, Check: p.Health, Pool: p.Name, Reserve: s.Weight == 0, Names: names,
				Header: proxyheader.Of(p), QUIC: p.QUICOnly,
			})
		}
	}
	return out
}

// drain drains the surrogates that changes by API drain, and no others.
func drain(checks *health.Checker, c *state.Compiled) error {
	for name := range c.IDs {
		change := c.Changes[name]
		drains := change.Drains()
		if drains == checks.State(name).Draining {
			continue
		}
		if err := checks.Drain(name, drains); err != nil {
			return err
		}
	}
	return nil
}

// healthChanged follows a change of a surrogate's health.
func (r *Router) healthChanged(t health.Transition) {
	r.metrics.SurrogateChanged(t)
	s := r.current()
	if s == nil {
		return
	}
	if id, ok := s.IDs[t.Surrogate]; ok && t.From.Up && !t.To.Up {
		if n, err := r.kernel.Abandon(id); err != nil {
			r.log.Error("cannot route requests again that the surrogate has not received", "surrogate", t.Surrogate, "err", err)
		} else if n > 0 {
			r.log.Info("requests that the surrogate has not received are routed again", "surrogate", t.Surrogate, "sessions", n)
		}
	}
	r.notify()
}

// blame tells the health checks of a surrogate that did not answer.
func blame(checks *health.Checker, surrogate string, kind fallback.FailureKind) {
	if fallback.Blames(kind) {
		checks.ReportFailure(surrogate, kind)
	} else if kind != fallback.FailureLocal {
		checks.Suspect(surrogate)
	}
}

// refreshLocked puts a new snapshot of a configuration in force, made from the surrogates' health, and tells the leg pools.
func (r *Router) refreshLocked(c *state.Compiled) *state.Snapshot {
	s := r.policies.Snapshot(c)
	for name, id := range c.IDs {
		r.legs.SetUsable(id, r.health.State(name).Usable())
	}
	r.snapshot.Store(s)
	return s
}

// notify schedules an update of the kernel's tables.
func (r *Router) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// updateTables updates the kernel's tables when something has changed, until ctx is done.
func (r *Router) updateTables(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			r.reloading.Lock()
			s := r.refreshLocked(r.current().Compiled)
			if err := r.kernel.UpdateTables(tablesOf(s, r.mtu, r.legs)); err != nil {
				r.log.Error("cannot update the kernel's tables", "err", err)
			}
			r.reloading.Unlock()
		}
	}
}

// countSessions counts a surrogate's live sessions of TCP; none if the data path cannot be read.
func countSessions(dp *kernel.Router, id uint16) uint64 {
	s, err := dp.Surrogate(id)
	if err != nil {
		return 0
	}
	return uint64(s.Active)
}
