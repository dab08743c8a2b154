package purge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"baton/api"
	"baton/datapath"
	"baton/purge/config"
)

// counters are of a policy by its name, whatever reloads change of it.
type counters struct {
	marked, found, ended, spared, heard, gone, dropped, failed atomic.Uint64
}

// setPolicies puts a configuration's policies in force.
func (p *Purge) setPolicies(cfg *config.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []datapath.PurgePolicy
	names := make(map[uint32]string) // and of the policies before: there may be marks of them that nobody has read
	for id, name := range p.names {
		if id > p.lastID-p.lastCount {
			names[id] = name
		}
	}
	for i := range cfg.Policies {
		c := &cfg.Policies[i]
		id := p.lastID + uint32(i) + 1
		names[id] = c.Name
		k := datapath.PurgePolicy{
			ID: id, Addresses: c.Addresses, Exempt: c.Exempt, MaxRetries: c.MaxRetries, Wait: c.Wait, Floor: c.Floor, Ceiling: c.Ceiling,
		}
		for _, r := range c.Ports {
			k.Ports = append(k.Ports, datapath.PurgePorts{First: r.First, Last: r.Last})
		}
		all = append(all, k)
	}
	if err := p.dp.SetPolicies(all); err != nil {
		return err
	}
	for _, c := range cfg.Policies {
		if p.counters[c.Name] == nil {
			p.counters[c.Name] = &counters{}
		}
	}
	p.lastCount = uint32(len(all))
	p.lastID += p.lastCount
	p.names, p.cfg, p.loaded = names, cfg, time.Now()
	return nil
}

// of is a mark's counters, and whether its policy only counts.
func (p *Purge) of(w *waiting) (c *counters, dry bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.cfg.Policies, func(c config.Policy) bool { return c.Name == w.policy })
	return p.counters[w.policy], i >= 0 && p.cfg.Policies[i].DryRun
}

func (p *Purge) inForce(w *waiting) bool {
	return slices.ContainsFunc(p.current().Policies, func(c config.Policy) bool { return c.Name == w.policy })
}

// Reload reads the configuration again and puts its policies in force. An error changes nothing.
func (p *Purge) Reload() (api.ReloadResult, error) {
	result, err := p.reload()
	if err != nil {
		p.reloadsFailed.Add(1)
		p.log.Error("reload", "err", err)
		return result, fmt.Errorf("%w: %w", api.ErrConflict, err)
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
	if changed := config.Changed(p.current(), next); len(changed) > 0 {
		return api.ReloadResult{}, fmt.Errorf("%s: %s can change at a restart alone", next.File, strings.Join(changed, ", "))
	}
	if err := p.setPolicies(next); err != nil {
		return api.ReloadResult{}, err
	}
	return api.ReloadResult{Config: next.File}, p.dp.Arm()
}

// report tells about once a second what was ended.
func (p *Purge) report(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	told := make(map[string]uint64)
	for {
		p.mu.Lock()
		for _, name := range slices.Sorted(maps.Keys(p.counters)) {
			if n := p.counters[name].ended.Load(); n > told[name] {
				p.log.Info("dormant connections ended", "policy", name, "connections", n-told[name])
				told[name] = n
			}
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
