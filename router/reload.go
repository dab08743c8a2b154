package router

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/api"
	"baton/document"
	"baton/router/config"
	"baton/router/discover"
	"baton/router/explain"
)

// Reload rereads the configuration and applies it if it is valid. Sessions continue. The error wraps api.ErrConflict when the old
// configuration stays in force.
func (r *Router) Reload() (api.ReloadResult, error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	result, err := r.reload()
	if err != nil {
		r.reloadsFailed.Add(1)
		r.log.Error("reload: the old configuration stays in force", "err", err)
		return result, api.Refused(err)
	}
	r.reloads.Add(1)
	r.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
	return result, nil
}

func (r *Router) reload() (api.ReloadResult, error) {
	old := r.current()
	cfg, err := r.o.Load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	if fixed := fixedAtStart(old.cfg, cfg); fixed != "" {
		return api.ReloadResult{}, cfg.Places.Wrong(fixed, "takes effect at a restart only", "systemctl restart baton-router")
	}
	changes, dropped := old.changes.Under(cfg)
	next, left := r.merged(cfg, changes)
	if err := Check(next); err != nil {
		return api.ReloadResult{}, err
	}
	for _, p := range cfg.Pools {
		if 2*p.Legs.Max > r.queued {
			return api.ReloadResult{}, cfg.Places.Wrong(document.Join("pools", p.Name)+".legs.max", fmt.Sprintf("more than %d takes effect at a restart only", r.queued/2), "systemctl restart baton-router")
		}
	}
	mtu, err := checkHost(cfg)
	if err != nil {
		return api.ReloadResult{}, err
	}
	if err := needsPorts(next, r.noPorts); err != nil {
		return api.ReloadResult{}, fmt.Errorf("%w; then systemctl restart baton-router", err)
	}
	if err := r.access.Update(next); err != nil {
		return api.ReloadResult{}, err
	}
	if err := r.replace(next, changes, mtu); err != nil {
		return api.ReloadResult{}, errors.Join(err, r.access.Update(old.cfg))
	}
	r.loaded.Store(time.Now().UnixNano())
	result := api.ReloadResult{Config: cfg.File, Changed: differences(old.cfg, next)}
	for _, name := range dropped {
		result.Changed = append(result.Changed, "the file says otherwise of surrogate "+name+" now: its changes by API are dropped")
	}
	r.reloaded(cfg, left, len(dropped) > 0)
	return result, nil
}

// replace puts a configuration with its changes in force: all of it, or the old one stays. r.reloading is held.
func (r *Router) replace(next *config.Config, changes discover.Changes, mtu int) error {
	old := r.current()
	n, err := old.numbers(r.dp)
	if err != nil {
		return err
	}
	s, err := newState(next, n)
	if err != nil {
		return err
	}
	s.changes = changes
	before := r.mtu
	if err := r.enforce(s, mtu); err != nil {
		return errors.Join(err, r.enforce(old, before))
	}
	for name := range old.ids {
		if _, kept := s.ids[name]; !kept {
			r.metrics.Forget(name)
		}
	}
	return nil
}

// enforce applies a state.
func (r *Router) enforce(s *state, mtu int) error {
	if err := s.keepNumbers(r.dp); err != nil {
		return err
	}
	if err := r.spliced.learn(s); err != nil {
		return err
	}
	if err := r.health.Update(targets(s.cfg)); err != nil {
		return err
	}
	if err := r.drainAll(s); err != nil {
		return err
	}
	if err := r.legs.Update(r.surrogates(s)); err != nil {
		return err
	}
	r.applyHealth(s)
	r.state.Store(s)
	r.mtu = mtu
	r.lookAgain()
	return r.open(s)
}

// fixedAtStart names a setting that a running router cannot change.
func fixedAtStart(old, next *config.Config) string {
	switch {
	case old.Listen.Control != next.Listen.Control:
		return "control"
	case old.Listen.Metrics != next.Listen.Metrics:
		return "metrics"
	case old.Listen.State != next.Listen.State:
		return "state"
	case old.Listen.Saved != next.Listen.Saved:
		return "saved"
	case old.Limits != next.Limits:
		return "limits"
	}
	return ""
}

// differences lists what a reload has changed.
func differences(old, next *config.Config) []string {
	var out []string
	describe := func(what string, before, after map[string]string) {
		for name := range maps.Keys(after) {
			if _, had := before[name]; !had {
				out = append(out, what+" "+name+" is new")
			} else if before[name] != after[name] {
				out = append(out, what+" "+name+" has changed")
			}
		}
		for name := range maps.Keys(before) {
			if _, has := after[name]; !has {
				out = append(out, what+" "+name+" has gone")
			}
		}
	}
	vips := func(c *config.Config) map[string]string {
		m := make(map[string]string)
		for _, v := range c.VIPs {
			shown := sha256.New()
			for _, k := range v.TLS {
				for _, der := range k.Pair.Certificate {
					shown.Write(der)
				}
			}
			v.Line, v.TLS = 0, nil
			name := v.Address.String()
			if v.Protocol == config.QUIC {
				name += " of QUIC"
			}
			m[name] = fmt.Sprint(v, shown.Sum(nil))
		}
		return m
	}
	pools := func(c *config.Config) (pools, surrogates map[string]string) {
		pools, surrogates = make(map[string]string), make(map[string]string)
		for _, p := range c.Pools {
			for _, sg := range p.Surrogates {
				sg.Line = 0
				surrogates[sg.Name] = fmt.Sprint(sg, p.Name)
			}
			more := ""
			if p.ServerID != nil {
				more = fmt.Sprint(*p.ServerID)
			}
			more += p.Shared.String()
			if p.Health != nil {
				more += fmt.Sprint(*p.Health)
			}
			p.Line, p.Surrogates, p.Health, p.ServerID, p.Shared = 0, nil, nil, nil, nil
			pools[p.Name] = fmt.Sprint(p) + more
		}
		return pools, surrogates
	}
	describe("VIP", vips(old), vips(next))
	p1, s1 := pools(old)
	p2, s2 := pools(next)
	describe("pool", p1, p2)
	describe("surrogate", s1, s2)
	if !slices.EqualFunc(old.Access, next.Access, config.AccessLog.Same) {
		out = append(out, "log.access has changed")
	}
	return out
}

// Explained converts an explanation for the control socket.
func Explained(e *explain.Explanation) api.RouterExplanation {
	a := api.RouterExplanation{
		Mode: string(e.Mode), Pool: e.Pool, Policy: string(e.Policy), Status: e.Status, Alert: e.Alert, Where: e.Decides,
		Steps: strings.Split(strings.TrimRight(e.String(), "\n"), "\n"),
	}
	a.VIP, _ = netip.ParseAddrPort(e.VIP)
	if e.Route != nil {
		a.Line = e.Route.Line
	}
	if len(e.Chosen) == 1 {
		a.Surrogate = e.Chosen[0]
	}
	for _, c := range e.Candidates {
		a.Candidates = append(a.Candidates, api.RouterCandidate{Surrogate: c.Name, Usable: c.Excluded == "", Reason: c.Excluded})
		if c.Name == a.Surrogate {
			a.Address, _ = netip.ParseAddrPort(c.Address)
		}
	}
	return a
}
