package anycast

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"baton/anycast/config"
	"baton/anycast/speaker"
	"baton/api"
	"baton/daemon"
)

// Reload rereads the configuration and activates it if it is valid: unchanged sessions stay up, and so does the level. The error wraps
// api.ErrConflict when the old configuration stays in force.
func (a *Anycast) Reload() (api.ReloadResult, error) {
	result, err := a.reload()
	if err == nil {
		a.reloads.Add(1)
		a.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
		return result, nil
	}
	a.refused.Add(1)
	if errors.Is(err, api.ErrConflict) {
		a.log.Error("reload: the old configuration stays in force", "err", err)
	} else {
		a.log.Error("reload: the new configuration is in force but for this", "err", err)
	}
	return result, err
}

func (a *Anycast) reload() (api.ReloadResult, error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	old := a.current()
	next, err := a.o.Load()
	if err != nil {
		return api.ReloadResult{}, api.Refused(err)
	}
	if err := daemon.RestartError(next.File, fixed(old, next)...); err != nil {
		return api.ReloadResult{}, api.Refused(err)
	}
	if next.TLS != (config.TLS{}) {
		if err := a.identity.Load(next.TLS); err != nil {
			return api.ReloadResult{}, api.Refused(fmt.Errorf("%s: tls: %w", next.File, err))
		}
	}
	a.cfg.Store(next)
	a.loaded.Store(time.Now().UnixNano())
	if a.site != nil {
		err = a.site.reload(next.Site)
	}
	if a.planning != nil && !reflect.DeepEqual(old.Planner, next.Planner) {
		a.planning.reload(next.Planner)
	}
	return api.ReloadResult{Config: next.File, Changed: differences(old, next)}, err
}

// fixed lists the changed keys that need a restart.
func fixed(old, next *config.Config) []string {
	var out []string
	add := func(key string, changed bool) {
		if changed {
			out = append(out, key)
		}
	}
	add("name", old.Name != next.Name)
	add("listen", old.Listen != next.Listen)
	add("site", (old.Site == nil) != (next.Site == nil))
	add("planner", (old.Planner == nil) != (next.Planner == nil))
	add("tls", (old.TLS == config.TLS{}) != (next.TLS == config.TLS{}))
	if old.Site != nil && next.Site != nil {
		out = append(out, speaker.Fixed(&old.Site.BGP, &next.Site.BGP)...)
		add("site.addresses", !reflect.DeepEqual(old.Site.Addresses, next.Site.Addresses))
		add("site.state", old.Site.State != next.Site.State)
	}
	if o, n := old.Planner, next.Planner; o != nil && n != nil && (o.Map != nil || n.Map != nil) {
		add("planner.map", !reflect.DeepEqual(o.Map, n.Map))
		add("planner.sites", !sameSites(o.Sites, n.Sites))
	}
	return out
}

// sameSites reports whether the sites of a map are the same, wherever they are in the file.
func sameSites(a, b []config.Served) bool {
	return slices.EqualFunc(a, b, func(x, y config.Served) bool {
		x.Line, y.Line = 0, 0
		return reflect.DeepEqual(x, y)
	})
}

// reload activates another configuration of the site.
func (s *site) reload(cfg *config.Site) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.cfg
	if !reflect.DeepEqual(old.Control, cfg.Control) {
		s.machine.Configure(cfg.Control)
		s.decision.Level = s.machine.Level()
	}
	s.cfg = cfg
	var err error
	if s.speaker != nil {
		err = s.speaker.Update(cfg.BGP, cfg.Prefixes)
	}
	if !sameLook(old, cfg) {
		// The new checks have no result yet. Until they do, the level stays: see level.Unknown.
		s.checker.Close()
		s.others.close()
		s.look(cfg)
	}
	s.stir()
	return err
}

// sameLook reports whether checks, measurements and polling are unchanged.
func sameLook(a, b *config.Site) bool {
	return reflect.DeepEqual(a.Checks, b.Checks) && reflect.DeepEqual(a.Loads, b.Loads) && reflect.DeepEqual(a.Others, b.Others) &&
		a.Stale == b.Stale && a.Poll == b.Poll
}

// differences lists what a reload has changed, one line each.
func differences(old, next *config.Config) []string {
	out := []string{}
	note := func(what string, before, after any) {
		if !reflect.DeepEqual(before, after) {
			out = append(out, what+" has changed")
		}
	}
	note("tls", old.TLS, next.TLS)
	if o, n := old.Site, next.Site; o != nil && n != nil {
		note("site.prefixes", o.Prefixes, n.Prefixes)
		note("site.bgp", o.BGP, n.BGP)
		note("site.checks", o.Checks, n.Checks)
		note("site.loads", o.Loads, n.Loads)
		note("site.levels", o.Control, n.Control)
		note("site.others", o.Others, n.Others)
		note("site.planner", o.Planner, n.Planner)
		note("times of the site", []time.Duration{o.Stale, o.Poll, o.Drain, o.Stop}, []time.Duration{n.Stale, n.Poll, n.Drain, n.Stop})
	}
	note("planner", old.Planner, next.Planner)
	return out
}
