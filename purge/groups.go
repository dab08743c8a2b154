package purge

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// lookForGroups is how often to look for new or recreated control groups: systemd creates one when it starts a service.
const lookForGroups = time.Second

// follow attaches to control groups created later, until the context is done.
func (p *Purge) follow(ctx context.Context) {
	tick := time.NewTicker(lookForGroups)
	defer tick.Stop()
	logged := ""
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
		if text != logged && text != "" {
			p.log.Error("a control group is not watched", "err", err)
		}
		logged = text
	}
}

// attach attaches to all existing control groups. fresh: at least one is new. A missing group is not an error. One caller at
// a time.
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
			p.log.Warn("control group does not exist; waiting for it", "cgroup", group)
		}
	}
	for _, group := range before {
		if !slices.Contains(missing, group) {
			p.log.Info("control group exists now", "cgroup", group)
		}
	}
	return fresh, err
}
