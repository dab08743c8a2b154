package route

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"baton/nameserver/config"
	"baton/policy"
)

// Run checks the surrogates until the context ends.
func (t *Table) Run(ctx context.Context) {
	for ctx.Err() == nil {
		t.checkUntilRestart(ctx)
	}
}

func (t *Table) checkUntilRestart(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var checks sync.WaitGroup
	defer checks.Wait()
	defer cancel()
	t.mu.Lock()
	cfg := t.cfg
	t.mu.Unlock()
	if cfg.Health != nil && cfg.Policy != nil {
		for _, site := range cfg.Policy.Sites {
			for _, u := range site.Surrogates {
				for _, a := range u.Addresses {
					checks.Go(func() { cfg.Health.Watch(ctx, netip.AddrPortFrom(a, 0), func(err error) { t.report(u.Name, a, err) }) })
				}
			}
		}
	}
	tick := time.NewTicker(filesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.restart:
			return
		case <-tick.C:
			t.files()
		}
	}
}

// filesEvery is how often the policy's files are looked at: coverage zones and the database are made by other programs.
const filesEvery = 5 * time.Second

// files reads the policy's files again if they have changed.
func (t *Table) files() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.policy == nil || !t.policy.Changed() {
		return
	}
	p, err := policy.Load(*t.policy.Config(), t.policy)
	if err != nil {
		t.log.Error("a file of the policy keeps its old content", "err", err)
	}
	if p == nil {
		return
	}
	t.policy = p
	t.update()
	t.log.Info("the policy's files were read again")
}

// report takes the outcome of a check.
func (t *Table) report(name string, a netip.Addr, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.health[a]
	t.health[a] = &health{err}
	if was == nil && err == nil || was != nil && (was.failure == nil) == (err == nil) {
		return
	}
	if err != nil {
		t.log.Warn("a surrogate is down", "surrogate", name, "address", a, "err", err)
	} else {
		t.log.Info("a surrogate is up", "surrogate", name, "address", a)
	}
	if t.policy != nil {
		t.update()
	}
}

// Reload takes another configuration, and returns a line for each change. What is known of the surrogates' health, and operators' changes, stay.
func (t *Table) Reload(cfg *config.Config) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.cfg
	if err := t.use(cfg); err != nil {
		return nil, err
	}
	var changed []string
	if !reflect.DeepEqual(old.Services, cfg.Services) {
		changed = append(changed, fmt.Sprintf("services have changed: %d (%d before)", len(cfg.Services), len(old.Services)))
	}
	if !reflect.DeepEqual(old.Policy, cfg.Policy) {
		changed = append(changed, "the policy has changed")
	}
	if !reflect.DeepEqual(old.Health, cfg.Health) {
		changed = append(changed, "health has changed")
	}
	if cfg.Health == nil {
		clear(t.health)
	}
	if len(changed) > 0 {
		select {
		case t.restart <- struct{}{}:
		default:
		}
	}
	return changed, nil
}
