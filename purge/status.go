package purge

import (
	"fmt"
	"maps"
	"slices"

	"baton/api"
	"baton/daemon"
	"baton/purge/config"
)

// Status returns the current state. The error is from reading the kernel's maps.
func (p *Purge) Status() (api.PurgeStatus, error) {
	verdicts, err := p.dp.Verdicts()
	if err != nil {
		return api.PurgeStatus{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := api.PurgeStatus{
		Process: daemon.Process("purge", p.o.Version, p.started), Features: p.features, Cgroups: p.cfg.Cgroups, CgroupsMissing: p.missing,
		Waiting:  api.Usage{Used: p.queue.len(), Limit: p.cfg.Limits.Marks},
		Verdicts: verdicts, Resets: p.resetsSent.Load(), ResetsFailed: p.resetsFailed.Load(),
	}
	s.Config, s.Loaded = p.cfg.File, p.loaded
	s.Reloads, s.ReloadsFailed = p.reloads.Load(), p.reloadsFailed.Load()
	left := maps.Clone(p.rules)
	for i := range p.cfg.Policies {
		c := &p.cfg.Policies[i]
		s.Policies = append(s.Policies, policyStatus(c, left[c.Name].counters))
		delete(left, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		gone := policyStatus(&config.Policy{Name: name}, left[name].counters)
		gone.InForce = false
		s.Policies = append(s.Policies, gone)
	}
	return s, nil
}

func policyStatus(p *config.Policy, c *counters) api.PurgePolicy {
	s := api.PurgePolicy{
		Name: p.Name, InForce: true, Addresses: p.Addresses, MaxRetries: p.MaxRetries, Wait: p.Wait, Floor: p.Floor, Ceiling: p.Ceiling,
		Exempt: p.Exempt, DryRun: p.DryRun,
		Marked: c.marked.Load(), Found: c.found.Load(), Ended: c.ended.Load(), Spared: c.spared.Load(), Heard: c.heard.Load(),
		Gone: c.gone.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(),
	}
	for _, r := range p.Ports {
		text := fmt.Sprint(r.First)
		if r.Last > r.First {
			text += fmt.Sprintf("-%d", r.Last)
		}
		s.Ports = append(s.Ports, text)
	}
	return s
}
