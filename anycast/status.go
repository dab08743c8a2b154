package anycast

import (
	"context"
	"fmt"
	"time"

	"baton/anycast/assign"
	"baton/anycast/level"
	"baton/anycast/metrics"
	"baton/api"
	"baton/daemon"
)

// backend is what the control socket serves.
func (a *Anycast) backend() api.Backend {
	return api.Backend{
		Part: api.AnycastBackend{
			Status:   func(context.Context) (api.AnycastStatus, error) { return a.Status() },
			Instruct: a.Instruct,
		},
		Reload:   func(context.Context) (api.ReloadResult, error) { return a.Reload() },
		Counters: daemon.Counters(a.Status, metrics.Series),
	}
}

// Status returns the state of the process.
func (a *Anycast) Status() (api.AnycastStatus, error) {
	cfg := a.current()
	s := api.AnycastStatus{Process: daemon.Process("anycast", a.o.Version, a.started)}
	s.Name, s.Config, s.Loaded = cfg.Name, cfg.File, time.Unix(0, a.loaded.Load())
	s.Reloads, s.ReloadsFailed = a.reloads.Load(), a.refused.Load()
	if a.site != nil {
		s.Site = a.site.status(time.Now())
	}
	if a.planning != nil {
		s.Planner = a.planning.status(time.Now())
	}
	return s, nil
}

// status is the state of the site.
func (s *site) status(now time.Time) *api.AnycastSite {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, d := &s.cfg.Control, &s.decision
	health := s.checker.Health()
	load, samples := s.checker.Load(now)
	out := &api.AnycastSite{
		Level: c.Ladder[d.Level].Name, Since: s.since, Reason: d.Reason, Held: d.Held, Changes: s.changes, Penalty: d.Penalty,
		Budget: c.Flaps.Suppress * c.Flaps.Share, Fault: s.fault, Health: health.Health.String(), Cause: health.Cause, Load: known(load),
		Instruction: s.instruction,
		Prefixes:    []string{}, Checks: []api.AnycastCheck{}, Loads: []api.AnycastLoad{}, Peers: []api.AnycastPeer{},
	}
	if d.Held != "" {
		out.Want, out.HeldUntil = c.Ladder[min(d.Want, c.Withdrawn())].Name, s.began.Add(d.Until)
	}
	for _, p := range s.cfg.Prefixes {
		out.Prefixes = append(out.Prefixes, p.String())
	}
	for i := range c.Ladder {
		out.Levels = append(out.Levels, reportLevel(&c.Ladder[i]))
	}
	for _, k := range health.Checks {
		out.Checks = append(out.Checks, api.AnycastCheck{Name: k.Name, Health: k.Health.String(), Last: k.Last, At: k.At})
	}
	for _, m := range samples {
		out.Loads = append(out.Loads, api.AnycastLoad{Name: m.Name, Share: known(m.Share), At: m.At, Error: m.Error})
	}
	if s.cfg.Planner != "" && !s.proposal.at.IsZero() {
		proposed := c.Ladder[min(s.proposal.level, c.Drain())].Name
		out.Proposal = &api.AnycastProposal{Planner: s.cfg.Planner, Level: proposed, At: s.proposal.at, Fresh: s.fresh(now)}
	}
	for _, p := range s.sessions() {
		out.Peers = append(out.Peers, api.AnycastPeer{
			Name: p.Peer.Name, Address: p.Peer.Address.String(), AS: p.Peer.AS, State: p.State, Since: p.Since, Ups: p.Ups, Last: p.Last,
		})
	}
	out.Others = []api.AnycastNeighbor{}
	for _, o := range s.others.all() {
		out.Others = append(out.Others, o.neighbor(s.others.alive(&o, now)))
	}
	return out
}

// known is a load, or nil.
func known(load float64) *float64 {
	if load < 0 {
		return nil
	}
	return &load
}

func reportLevel(l *level.Level) api.AnycastLevel {
	a := &l.Announcement
	out := api.AnycastLevel{
		Name: l.Name, Withdrawn: a.Withdrawn, MED: a.MED, Prepend: a.Prepend, LocalPreference: a.LocalPreference, Enter: l.Enter, Leave: l.Leave,
	}
	for _, c := range a.Communities {
		out.Communities = append(out.Communities, fmt.Sprintf("%d:%d", c>>16, c&0xffff))
	}
	return out
}

func (o *other) neighbor(alive bool) api.AnycastNeighbor {
	n := api.AnycastNeighbor{Name: o.name, Alive: alive, At: o.at, Error: o.err}
	if !o.at.IsZero() {
		n.Level, n.Health, n.Load = o.report.Name, o.report.Health, known(o.report.Load)
	}
	return n
}

// status is the state of the planner.
func (p *planning) status(now time.Time) *api.AnycastPlanner {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &api.AnycastPlanner{Moved: p.changed, Because: p.why, Forwarders: []string{}}
	views := p.views(now)
	for i := range p.sites {
		s := &p.sites[i]
		n := s.neighbor(views[i].Fresh && views[i].Up)
		if proposal := p.levels.Proposal(s.name); p.steering == nil && proposal < len(s.report.Levels) {
			n.Proposal = s.report.Levels[proposal]
		}
		out.Sites = append(out.Sites, n)
	}
	if p.steering == nil {
		return out
	}
	out.Forwarders = p.steering.Forwarders()
	out.Overload, out.Exact = p.plan.Value.Overload, p.plan.Exact
	for i := range p.states {
		out.Map = append(out.Map, api.AnycastIngress{
			Name: p.cfg.Map.Ingresses[i].Name, Site: p.known(p.states[i].Site), Target: p.known(p.plan.Target[i]), Demand: p.plan.Demand[i],
		})
	}
	for k, step := range p.plan.Next {
		for _, m := range step {
			out.Next = append(out.Next, api.AnycastMove{
				Step: k + 1, Ingress: p.cfg.Map.Ingresses[m.Ingress].Name, From: p.known(m.From), To: p.known(m.To),
			})
		}
	}
	return out
}

// known is the name of a site of the map, or "".
func (p *planning) known(site int) string {
	if site == assign.Nowhere {
		return ""
	}
	return p.cfg.Sites[site].Name
}
