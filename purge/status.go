package purge

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/purge/config"
)

// Status is the purge at a glance. The error is that of the kernel's maps.
func (p *Purge) Status() (api.PurgeStatus, error) {
	verdicts, err := p.dp.Verdicts()
	if err != nil {
		return api.PurgeStatus{}, err
	}
	var uts unix.Utsname
	_ = unix.Uname(&uts) // cannot fail
	p.mu.Lock()
	defer p.mu.Unlock()
	s := api.PurgeStatus{
		Version: p.o.Version, PID: os.Getpid(), Started: p.started, Config: p.cfg.File, Loaded: p.loaded,
		Kernel: unix.ByteSliceToString(uts.Release[:]), Features: p.features, Cgroups: p.cfg.Cgroups, CgroupsMissing: p.missing,
		Waiting:  api.Usage{Used: p.queue.len(), Limit: p.cfg.Limits.Marks},
		Verdicts: verdicts, Resets: p.resetsSent.Load(), ResetsFailed: p.resetsFailed.Load(),
		Reloads: p.reloads.Load(), ReloadsFailed: p.reloadsFailed.Load(),
	}
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
