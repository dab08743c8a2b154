package purge

import (
	"context"
	"sync/atomic"
	"time"

	"baton/api"
	"baton/daemon"
	kernel "baton/datapath/purge"
	"baton/purge/config"
)

// counters belong to a policy name and survive reloads.
type counters struct {
	marked, found, ended, spared, heard, gone, dropped, failed atomic.Uint64
}

// rule says how to handle the marks of a policy.
type rule struct {
	*counters
	dry     bool
	inForce bool
}

// setPolicies activates a configuration's policies.
func (p *Purge) setPolicies(cfg *config.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []kernel.Policy
	names := make(map[uint32]string) // also of the previous policies: their marks may still be unread
	for id, name := range p.names {
		if id > p.lastID-p.lastCount {
			names[id] = name
		}
	}
	for i := range cfg.Policies {
		c := &cfg.Policies[i]
		id := p.lastID + uint32(i) + 1
		names[id] = c.Name
		k := kernel.Policy{
			ID: id, Addresses: c.Addresses, Exempt: c.Exempt, MaxRetries: c.MaxRetries, Wait: c.Wait, Floor: c.Floor, Ceiling: c.Ceiling,
		}
		for _, r := range c.Ports {
			k.Ports = append(k.Ports, kernel.Ports{First: r.First, Last: r.Last})
		}
		all = append(all, k)
	}
	if err := p.dp.SetPolicies(all); err != nil {
		return err
	}
	rules := make(map[string]rule)
	for name, old := range p.rules {
		rules[name] = rule{counters: old.counters}
	}
	for _, c := range cfg.Policies {
		r := rule{rules[c.Name].counters, c.DryRun, true}
		if r.counters == nil {
			r.counters = &counters{}
		}
		rules[c.Name] = r
	}
	p.lastCount = uint32(len(all))
	p.lastID += p.lastCount
	p.names, p.rules, p.cfg, p.loaded = names, rules, cfg, time.Now()
	return nil
}

// inForce returns the active rules by policy name. The map is read-only.
func (p *Purge) inForce() map[string]rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules
}

// Reload rereads the configuration and activates its policies. An error changes nothing.
func (p *Purge) Reload() (api.ReloadResult, error) {
	result, err := p.reload()
	if err != nil {
		p.reloadsFailed.Add(1)
		p.log.Error("reload: the old configuration stays in force", "err", err)
		return result, api.Refused(err)
	}
	p.reloads.Add(1)
	p.log.Info("reloaded", "config", result.Config)
	return result, nil
}

func (p *Purge) reload() (api.ReloadResult, error) {
	next, err := p.o.Load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	if err := daemon.RestartError(next.File, config.Changed(p.current(), next)...); err != nil {
		return api.ReloadResult{}, err
	}
	if err := p.setPolicies(next); err != nil {
		return api.ReloadResult{}, err
	}
	p.arm()
	return api.ReloadResult{Config: next.File}, nil
}

// report logs once a second how many connections were ended, and how many could not be.
func (p *Purge) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	ended, failed := make(map[string]uint64), make(map[string]uint64)
	for {
		for name, r := range p.inForce() {
			if n := r.ended.Load(); n > ended[name] {
				p.log.Info("dormant connections ended", "policy", name, "connections", n-ended[name])
				ended[name] = n
			}
			if n := r.failed.Load(); n > failed[name] {
				if err := p.failure.Load(); err != nil {
					p.log.Error("the kernel refuses to end connections", "policy", name, "connections", n-failed[name], "err", *err)
				}
				failed[name] = n
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
