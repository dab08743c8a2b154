package purge

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// lookForGroups is how often it is looked whether control groups were made, or made anew: systemd does that when a service is started.
const lookForGroups = time.Second

// follow attaches to control groups that were made since, until the context is done.
func (p *Purge) follow(ctx context.Context) {
	tick := time.NewTicker(lookForGroups)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		fresh, err := p.attach()
		if fresh {
			p.arm()
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != told && text != "" {
			p.log.Error("a control group is not watched", "err", err)
		}
		told = text
	}
}

// attach attaches to all control groups that there are. fresh: to one at least that it was not attached to. The error is of others than those
// that there are not. One caller at a time.
func (p *Purge) attach() (fresh bool, err error) {
	var missing []string
	for _, group := range p.o.Config.Cgroups {
		attached, failed := p.dp.AttachCgroup(group)
		fresh = fresh || attached
		if failed == nil {
			continue
		}
		missing = append(missing, group)
		if !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	p.mu.Lock()
	before := p.missing
	p.missing = missing
	p.mu.Unlock()
	for _, group := range missing {
		if !slices.Contains(before, group) {
			p.log.Warn("there is no such control group now", "cgroup", group)
		}
	}
	for _, group := range before {
		if !slices.Contains(missing, group) {
			p.log.Info("the control group is there", "cgroup", group)
		}
	}
	return fresh, err
}
