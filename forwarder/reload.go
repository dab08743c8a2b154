package forwarder

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"baton/api"
	"baton/daemon"
	"baton/forwarder/config"
)

// Reload reads the configuration again and applies changes of controllers and listeners. Flow entries and unchanged channels are kept. The
// error wraps api.ErrConflict if the old configuration stays in force: all other keys take effect at a restart, which keeps the flow entries,
// too.
func (f *Forwarder) Reload() (api.ReloadResult, error) {
	f.reloading.Lock()
	defer f.reloading.Unlock()
	result, err := f.reload()
	if err != nil {
		f.reloadsFailed.Add(1)
		f.log.Error("reload: the old configuration stays in force", "err", err)
		return result, api.Refused(err)
	}
	f.reloads.Add(1)
	f.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
	return result, nil
}

// reload is Reload without logging. The caller holds reloading.
func (f *Forwarder) reload() (api.ReloadResult, error) {
	if f.load == nil {
		return api.ReloadResult{}, errors.New("it has no configuration file of its own")
	}
	next, err := f.load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	for _, w := range next.Warnings {
		f.log.Warn(w)
	}
	if next.Datapaths != nil {
		err := daemon.RestartError(next.File, "datapaths")
		return api.ReloadResult{}, fmt.Errorf("%w, instead of a single forwarder", err)
	}
	if err := daemon.RestartError(next.File, fixed(f.cfg, next)...); err != nil {
		return api.ReloadResult{}, err
	}
	changed, err := f.adopt(next)
	if err != nil {
		return api.ReloadResult{}, err
	}
	return api.ReloadResult{Config: next.File, Changed: changed}, nil
}

// adopt puts the controllers and listeners of a configuration in force, which has no other changes. The caller holds reloading.
func (f *Forwarder) adopt(next *config.Config) (changed []string, err error) {
	if err := f.controllers.Update(next); err != nil {
		return nil, fmt.Errorf("%s: %w", next.File, err)
	}
	changed = []string{}
	if !reflect.DeepEqual(f.inForce.Controllers, next.Controllers) {
		changed = append(changed, "controllers have changed")
	}
	if !reflect.DeepEqual(f.inForce.Listen, next.Listen) {
		changed = append(changed, "listen has changed")
	}
	f.inForce = next
	return changed, nil
}

// fixed returns the changed keys that need a restart.
func fixed(old, next *config.Config) (keys []string) {
	for _, k := range []struct {
		key string
		of  func(*config.Config) any
	}{
		{"name", func(c *config.Config) any { return c.Name }},
		{"datapath_id", func(c *config.Config) any { return c.DatapathID }},
		{"ports", func(c *config.Config) any { return c.Ports }},
		{"local", func(c *config.Config) any { return c.Local }},
		{"tls", func(c *config.Config) any { return c.TLS }},
		{"fail_mode", func(c *config.Config) any { return c.FailMode }},
		{"normal", func(c *config.Config) any { return c.NormalStack }},
		{"retry", func(c *config.Config) any { return c.Retry }},
		{"limits", func(c *config.Config) any { return c.Limits }},
		{"metrics", func(c *config.Config) any { return c.Metrics }},
		{"control", func(c *config.Config) any { return c.Control }},
		{"state", func(c *config.Config) any { return c.State }},
	} {
		if !reflect.DeepEqual(k.of(old), k.of(next)) {
			keys = append(keys, k.key)
		}
	}
	return keys
}
