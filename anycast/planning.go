package anycast

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"baton/anycast/assign"
	"baton/anycast/config"
	"baton/anycast/exchange"
	"baton/anycast/planner"
	"baton/anycast/steer"
)

// planning runs the planner. It keeps no state that the sites and forwarders do not have: when it ends they keep theirs, and another planner
// continues from there.
type planning struct {
	log      *slog.Logger
	identity *exchange.Identity
	began    time.Time // on the monotonic clock

	mu       sync.Mutex
	cfg      *config.Planner
	sites    []served // in the order of the configuration
	levels   *planner.Levels
	mapper   *planner.Mapper
	steering *steer.Steering // nil: there is no map
	plan     planner.Plan
	states   []steer.State
	changed  time.Time
	why      string
	steered  net.Listener
}

// served is the state of a site.
type served struct {
	other
	client *exchange.Client // nil: the site always counts as up
}

func newPlanning(cfg *config.Config, identity *exchange.Identity, log *slog.Logger) (*planning, error) {
	p := &planning{log: log, identity: identity, began: time.Now(), why: "it has just begun"}
	p.configure(cfg.Planner)
	if p.cfg.Map == nil {
		return p, nil
	}
	l, err := net.Listen("tcp", p.cfg.Map.Listen)
	if err != nil {
		return nil, fmt.Errorf("%s: planner.map.listen: %w", cfg.File, err)
	}
	if p.cfg.Map.TLS {
		l = identity.Listener(l)
	}
	p.steered = l
	p.steering = steer.New(p.cfg.Map, p.cfg.Sites, log)
	return p, nil
}

// configure starts with the sites of a configuration. p.mu is held, or no other goroutine has p.
func (p *planning) configure(cfg *config.Planner) {
	p.cfg = cfg
	p.levels = planner.NewLevels(cfg.Settle)
	p.mapper = planner.NewMapper(cfg.Settle, cfg.Step, cfg.Move)
	for _, s := range p.sites {
		if s.client != nil {
			s.client.Close()
		}
	}
	p.sites = nil
	for _, s := range cfg.Sites {
		k := served{other: other{name: s.Name}}
		if s.URL != nil {
			k.client = exchange.NewClient(p.identity, s.Name, s.URL)
		}
		p.sites = append(p.sites, k)
	}
}

// run polls the sites and acts until ctx is done.
func (p *planning) run(ctx context.Context) error {
	var steering sync.WaitGroup
	defer steering.Wait()
	if p.steering != nil {
		steering.Go(func() {
			if err := p.steering.Serve(ctx, p.steered); err != nil {
				p.log.Error("forwarders cannot connect any more", "err", err)
			}
		})
	}
	for {
		p.mu.Lock()
		every := p.cfg.Interval
		p.mu.Unlock()
		timer := time.NewTimer(every)
		p.look(ctx)
		if ctx.Err() == nil {
			p.decide(ctx, time.Now())
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// look polls all sites in parallel and sends each one its proposal.
func (p *planning) look(ctx context.Context) {
	p.mu.Lock()
	sites, every, proposals := slices.Clone(p.sites), p.cfg.Interval, make([]int, len(p.sites))
	for i := range sites {
		proposals[i] = p.levels.Proposal(sites[i].name)
	}
	maps := p.cfg.Map != nil
	p.mu.Unlock()
	var polls sync.WaitGroup
	for i := range sites {
		if sites[i].client == nil {
			continue
		}
		polls.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, every)
			defer cancel()
			s := &sites[i]
			var report exchange.Report
			var err error
			if maps || s.at.IsZero() { // a proposal before the first report would overwrite an earlier planner's
				report, err = s.client.Report(bounded)
			} else {
				report, err = s.client.Propose(bounded, exchange.Proposal{Level: proposals[i]})
			}
			p.record(s.name, report, err, time.Now())
		})
	}
	polls.Wait()
}

func (p *planning) record(site string, report exchange.Report, err error, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.sites, func(s served) bool { return s.name == site })
	if i < 0 { // removed by a reload
		return
	}
	s := &p.sites[i]
	if err == nil {
		if s.err != "" || s.at.IsZero() {
			p.log.Info("site reports", "site", site, "level", report.Name, "health", report.Health)
		}
		s.report, s.at, s.err = report, at, ""
		return
	}
	if s.err == "" {
		p.log.Warn("site does not report", "site", site, "err", err)
	}
	s.err = err.Error()
}

// views returns the planner's view of the sites. p.mu is held.
func (p *planning) views(now time.Time) []planner.View {
	out := make([]planner.View, len(p.sites))
	for i := range p.sites {
		s := &p.sites[i]
		v := planner.View{Name: s.name, Capacity: p.cfg.Sites[i].Capacity, Load: -1, Fresh: true, Up: true}
		if s.client != nil {
			r := &s.report
			v.Fresh = !s.at.IsZero() && now.Sub(s.at) < p.cfg.Stale
			v.Up = r.Serves() && (r.Announces || p.cfg.Map != nil)
			v.Load, v.Level, v.Steps, v.Instructed = r.Load, r.Level, r.Steps, r.Instruction != ""
		}
		out[i] = v
	}
	return out
}

// decide makes new proposals, or remaps.
func (p *planning) decide(ctx context.Context, now time.Time) {
	if p.steering != nil {
		p.remap(ctx, now)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	views := p.views(now)
	changed := p.levels.Step(now.Sub(p.began), views)
	p.why = p.levels.Why()
	if changed {
		p.changed = now
		args := []any{"because", p.why}
		for i := range views {
			args = append(args, views[i].Name, p.levels.Proposal(views[i].Name))
		}
		p.log.Info("proposals", args...) // sent to each site with the next poll
	}
}

// remap reads the forwarders' state and makes the step that is due.
func (p *planning) remap(ctx context.Context, now time.Time) {
	states := p.steering.Look(ctx)
	p.mu.Lock()
	ingresses := p.ingresses(states)
	plan := p.mapper.Step(now.Sub(p.began), p.views(now), ingresses)
	p.plan, p.states, p.why = plan, states, plan.Why
	p.mu.Unlock()
	if len(plan.Moves) == 0 {
		return
	}
	for _, m := range plan.Moves {
		p.log.Info("move", "ingress", ingresses[m.Ingress].Name, "from", p.siteName(m.From), "to", p.siteName(m.To),
			"demand", int(plan.Demand[m.Ingress]), "because", plan.Why)
	}
	err := p.steering.Apply(ctx, plan.Moves)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = now
	if err != nil {
		p.why = err.Error()
		p.log.Error("the move failed", "err", err) // the next look reads what is in force
		return
	}
	for _, m := range plan.Moves {
		p.states[m.Ingress].Site = m.To
	}
}

// ingresses returns the configured ingresses in the forwarders' state. p.mu is held.
func (p *planning) ingresses(states []steer.State) []planner.Ingress {
	out := make([]planner.Ingress, len(states))
	for i := range states {
		in := &p.cfg.Map.Ingresses[i]
		out[i] = planner.Ingress{Name: in.Name, Live: in.Live, Site: states[i].Site, Known: states[i].Known, Bytes: states[i].Bytes}
		for _, s := range p.cfg.Sites {
			out[i].Cost = append(out[i].Cost, in.Cost[s.Name])
		}
	}
	return out
}

func (p *planning) siteName(i int) string {
	if i == assign.Nowhere {
		return "none"
	}
	return p.cfg.Sites[i].Name // of a map, whose sites change at a restart only
}

// client returns the client of a site, nil if the site is unknown or has no report.
func (p *planning) client(site string) *exchange.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.sites {
		if p.sites[i].name == site {
			return p.sites[i].client
		}
	}
	return nil
}

func (p *planning) siteNames() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, len(p.sites))
	for i := range p.sites {
		names[i] = p.sites[i].name
	}
	return names
}

// reload activates another configuration. A map, with its sites, changes only at a restart.
func (p *planning) reload(cfg *config.Planner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.configure(cfg)
}
