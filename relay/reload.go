package relay

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"baton/api"
	"baton/daemon"
	"baton/relay/config"
	"baton/relay/worker"
)

// Reload reads the configuration again and applies it if it is valid. Flows are kept. The error wraps api.ErrConflict if the old
// configuration stays in force.
func (r *Relay) Reload() (api.ReloadResult, error) {
	result, err := r.reload()
	if err == nil {
		r.reloads.Add(1)
		r.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
		return result, nil
	}
	r.refused.Add(1)
	if errors.Is(err, api.ErrConflict) {
		r.log.Error("reload: the old configuration stays in force", "err", err)
	} else {
		r.log.Error("reload: parts of the new configuration could not be applied", "err", err)
	}
	return result, err
}

func (r *Relay) reload() (api.ReloadResult, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	defer lockOpening(r.log)()
	old := r.current()
	next, err := r.readAgain(old)
	if err != nil {
		return api.ReloadResult{}, api.Refused(err)
	}
	if r.kernel != nil {
		if err := r.kernel.turbo.configure(next); err != nil { // before the workers open trunks
			return api.ReloadResult{}, api.Refused(err)
		}
	}
	if err := each(r.workers, func(w *worker.Worker) error { return w.Configure(next) }); err != nil {
		return api.ReloadResult{}, err
	}
	r.cfg.Store(next)
	r.loaded.Store(time.Now().UnixNano())
	r.choosing.configure(next)
	err = r.open.change(r.workers, next)
	if r.kernel != nil {
		err = errors.Join(err, r.kernel.configure(next))
	}
	r.checkFeatures(next)
	return api.ReloadResult{Config: next.File, Changed: differences(old, next)}, err
}

// readAgain returns a configuration that can replace the old one.
func (r *Relay) readAgain(old *config.Config) (*config.Config, error) {
	if r.stopping {
		return nil, errors.New("the relay is stopping")
	}
	next, err := r.o.Load()
	if err != nil {
		return nil, err
	}
	if err := daemon.RestartError(next.File, config.Changed(old, next)...); err != nil {
		return nil, err
	}
	if why := needs(next); r.kernel == nil && why != "" {
		return nil, fmt.Errorf("%s: %s: %w", next.File, why, r.kernelErr)
	}
	if steers(next) && !steers(r.o.Config) {
		return nil, fmt.Errorf("%w, as there was neither at the start",
			daemon.RestartError(next.File, "intercept", "return_interfaces"))
	}
	if err := r.open.vacant(next); err != nil {
		return nil, err
	}
	if err := r.identities.Load(next); err != nil {
		return nil, fmt.Errorf("%s: %w", next.File, err)
	}
	return next, nil
}

// apply applies the initial configuration.
func (r *Relay) apply(cfg *config.Config) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	defer lockOpening(r.log)()
	if err := r.open.vacant(cfg); err != nil {
		return err
	}
	if err := r.open.change(r.workers, cfg); err != nil || r.kernel == nil {
		return err
	}
	return r.kernel.configure(cfg)
}

// differences lists what a reload changed, one line each.
func differences(old, next *config.Config) []string {
	out := []string{}
	describe := func(what string, before, after map[string]any) {
		for name := range after {
			if have, had := before[name]; !had {
				out = append(out, what+" "+name+" is new")
			} else if !reflect.DeepEqual(have, after[name]) {
				out = append(out, what+" "+name+" has changed")
			}
		}
		for name := range before {
			if _, has := after[name]; !has {
				out = append(out, what+" "+name+" has gone")
			}
		}
	}
	describe("entry", entriesOf(old), entriesOf(next))
	describe("peer", peersOf(old), peersOf(next))
	slices.Sort(out)
	for _, part := range []struct {
		name          string
		before, after any
	}{
		{"allow", old.Allow, next.Allow}, {"choose", old.Choose, next.Choose}, {"cloud", old.Cloud, next.Cloud},
		{"return_interfaces", old.Return, next.Return}, {"timeouts", old.Timeouts, next.Timeouts}, {"trunks", old.Trunks, next.Trunks},
	} {
		if !reflect.DeepEqual(part.before, part.after) {
			out = append(out, part.name+": changed")
		}
	}
	return out
}

func entriesOf(c *config.Config) map[string]any {
	all := make(map[string]any, len(c.Entries))
	for _, e := range c.Entries {
		e.Line = 0
		all[e.Name] = e
	}
	return all
}

func peersOf(c *config.Config) map[string]any {
	all := make(map[string]any, len(c.Peers))
	for _, p := range c.Peers {
		p.Line = 0
		all[p.Name] = p
	}
	return all
}
