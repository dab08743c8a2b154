package router

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/api"
	"baton/daemon"
	kernel "baton/datapath/router"
	"baton/document"
	"baton/router/config"
	"baton/router/discover"
	"baton/router/legs"
	"baton/router/state"
)

// Reload rereads the configuration and applies it if it is valid. Sessions continue. The error wraps api.ErrConflict when the old
// configuration stays in force.
func (r *Router) Reload() (api.ReloadResult, error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	result, err := r.reload()
	if err != nil {
		r.reloadsFailed.Add(1)
		r.log.Error("reload: the old configuration stays in force", "err", err)
		return result, api.Refused(err)
	}
	r.reloads.Add(1)
	r.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
	return result, nil
}

func (r *Router) reload() (api.ReloadResult, error) {
	if r.spawn == nil {
		return api.ReloadResult{}, errors.New("the router has not started yet: reload it once it has")
	}
	old := r.current()
	cfg, err := r.o.Load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	if fixed := fixedAtStart(old.Config, cfg); fixed != "" {
		return api.ReloadResult{}, cfg.Places.Wrong(fixed, daemon.AfterRestart, "systemctl restart baton-router")
	}
	changes, dropped := old.Changes.Under(cfg)
	next, left := r.sources.MergeLocked(cfg, changes)
	if err := Check(next); err != nil {
		return api.ReloadResult{}, err
	}
	for _, p := range cfg.Pools {
		if 2*p.Legs.Max > r.queued {
			return api.ReloadResult{}, cfg.Places.Wrong(document.Join("pools", p.Name)+".legs.max", fmt.Sprintf("more than %d %s", r.queued/2, daemon.AfterRestart), "systemctl restart baton-router")
		}
	}
	mtu, err := checkHost(cfg)
	if err != nil {
		return api.ReloadResult{}, err
	}
	if err := needsPorts(next, r.noPorts); err != nil {
		return api.ReloadResult{}, fmt.Errorf("%w; then systemctl restart baton-router", err)
	}
	if err := r.access.Update(next); err != nil {
		return api.ReloadResult{}, err
	}
	if err := r.replaceLocked(next, changes, mtu); err != nil {
		return api.ReloadResult{}, errors.Join(err, r.access.Update(old.Config))
	}
	r.loaded.Store(time.Now().UnixNano())
	result := api.ReloadResult{Config: cfg.File, Changed: config.Differences(old.Config, next)}
	for _, name := range dropped {
		result.Changed = append(result.Changed, "the file says otherwise of surrogate "+name+" now: its changes by API are dropped")
	}
	r.sources.ReloadedLocked(cfg, left, len(dropped) > 0)
	return result, nil
}

// replaceLocked puts a configuration with its changes in force: all of it, or the old one stays.
func (r *Router) replaceLocked(next *config.Config, changes discover.Changes, mtu int) error {
	old := r.current().Compiled
	n, err := numbersInForce(r.kernel, old)
	if err != nil {
		return err
	}
	c, err := state.Compile(next, n, changes)
	if err != nil {
		return err
	}
	before := r.mtu
	err = forgetSurrogates(r.kernel, c.Fresh) // before any leg is opened under them
	if err == nil {
		err = r.enforceLocked(c, mtu)
	}
	if err != nil {
		return errors.Join(err, r.enforceLocked(old, before))
	}
	r.warnLeftOut(c, func() []string { return old.Kernel.Warnings(old.Config) })
	for name := range old.IDs {
		if _, kept := c.IDs[name]; !kept {
			r.metrics.Forget(name)
		}
	}
	return nil
}

// enforceLocked applies a configuration.
func (r *Router) enforceLocked(c *state.Compiled, mtu int) error {
	if err := storeNumbers(r.kernel, c); err != nil {
		return err
	}
	if err := r.records.LearnNames(c); err != nil {
		return err
	}
	if err := r.health.Update(targets(c.Config)); err != nil {
		return err
	}
	if err := drain(r.health, c); err != nil {
		return err
	}
	if err := r.legs.Update(splicedSurrogates(c), mtu); err != nil {
		return err
	}
	s := r.refreshLocked(c)
	r.mtu = mtu
	r.certs.LookAgain()
	return r.open(s)
}

// open writes a snapshot to the kernel, tables last: from then on they apply to clients.
func (r *Router) open(s *state.Snapshot) error {
	if err := attach(r.kernel, s.Config); err != nil {
		return err
	}
	if err := r.kernel.Refuse(s.HandedOff()); err != nil { // else their listeners proxy first clients, for as long as these stay
		return err
	}
	if err := r.servers.Update(s.Compiled); err != nil {
		return err
	}
	if err := r.quic.Update(s.Compiled); err != nil {
		return err
	}
	settings := r.clock.config(kernel.Config{Tap: r.tap.Ifindex, MTU: r.mtu})
	if err := r.kernel.Put(settings, tablesOf(s, r.mtu, r.legs)); err != nil {
		return err
	}
	return r.records.Start(r.start)
}

// tablesOf are the kernel's tables for a snapshot. mtu is the smallest of the clients' interfaces.
func tablesOf(s *state.Snapshot, mtu int, l *legs.Manager) kernel.Tables {
	return s.Tables(mtu, l.Facts, func(surrogate string) bool { return l.Local(s.IDs[surrogate]) })
}

// splicedSurrogates lists those that sessions of some VIP may be spliced to.
func splicedSurrogates(c *state.Compiled) []legs.Surrogate {
	var out []legs.Surrogate
	for _, p := range c.Numbered {
		for i := range p.Config.Surrogates {
			if sg := &p.Config.Surrogates[i]; c.Splices(p.Config.Name, sg) {
				out = append(out, legs.Surrogate{ID: p.IDs[i], Name: sg.Name, Address: sg.Address, Legs: p.Config.Legs, Reuse: p.Config.Reuse})
			}
		}
	}
	return out
}

// fixedAtStart names a setting that a running router cannot change.
func fixedAtStart(old, next *config.Config) string {
	switch {
	case old.Listen.Control != next.Listen.Control:
		return "control"
	case old.Listen.Metrics != next.Listen.Metrics:
		return "metrics"
	case old.Listen.State != next.Listen.State:
		return "state"
	case old.Listen.Saved != next.Listen.Saved:
		return "saved"
	case old.Limits != next.Limits:
		return "limits"
	}
	return ""
}
