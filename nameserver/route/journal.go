package route

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"baton/api"
	"baton/document"
	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/follow"
	"baton/nameserver/zone"
	"baton/policy"
)

// The journal has the last decisions with their reasons. To give reasons costs more than to decide: of each second only the first ones are kept.
const (
	journalLength = 512
	journalRate   = 20
)

type journal struct {
	second, in atomic.Int64
	mu         sync.Mutex
	last       []api.RoutingDecision // a ring
	next       int
}

// due reports whether a decision is to be kept.
func (j *journal) due() bool {
	now := time.Now().Unix()
	if j.second.Load() != now {
		j.second.Store(now)
		j.in.Store(0)
	}
	return j.in.Load() < journalRate && j.in.Add(1) <= journalRate
}

func (j *journal) add(d api.RoutingDecision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.last) < journalLength {
		j.last = append(j.last, d)
		return
	}
	j.last[j.next] = d
	j.next = (j.next + 1) % journalLength
}

// Decisions are the last ones, the newest first.
func (t *Table) Decisions() []api.RoutingDecision {
	t.journal.mu.Lock()
	defer t.journal.mu.Unlock()
	all := slices.Concat(t.journal.last[t.journal.next:], t.journal.last[:t.journal.next])
	slices.Reverse(all)
	return all
}

// decision explains a choice.
func (r *route) decision(now *snapshot, q policy.Query, a answer.Asked) api.RoutingDecision {
	d := now.state.Explain(&q)
	out := api.RoutingDecision{Time: time.Now(), Method: "dns", Client: a.Client, Name: trimDot(zone.Key(a.Name).String()), Because: d.Because}
	if a.Subnet {
		out.Because = append([]string{fmt.Sprintf("client subnet %v, by way of %v", q.Client, a.Resolver)}, out.Because...)
	} else {
		out.Because = append([]string{fmt.Sprintf("no client subnet: by the resolver %v", a.Resolver)}, out.Because...)
	}
	if len(d.Choices) == 0 {
		out.Because = append(out.Because, "fallback: "+fallbackText(r.service.Fallback))
		return out
	}
	out.Site, out.Surrogate = d.Site.Name, d.Choices[0].Surrogate.Name
	return out
}

func fallbackText(f config.Fallback) string {
	switch {
	case f.All:
		return "all surrogates"
	case len(f.Addresses) > 0:
		return "the addresses of the configuration"
	}
	return "SERVFAIL"
}

// Explain says in steps how a client's surrogates are chosen.
func (r *route) Explain(a answer.Asked) []string {
	now := r.t.now.Load()
	d := r.decision(now, r.query(a), a)
	return append(d.Because, fmt.Sprintf("service %s: at most %d in an answer, for %v", r.service.Name, r.service.Answers, r.service.TTL))
}

// Status is what is known of the services.
func (t *Table) Status() []api.NameserverService {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []api.NameserverService{}
	for _, s := range t.cfg.Services {
		c := t.count(s.Name)
		out = append(out, api.NameserverService{Name: s.Name, Decisions: c.decisions.Load(), Fallbacks: c.fallbacks.Load()})
	}
	return out
}

// Surrogates are what is known of the surrogates.
func (t *Table) Surrogates() []api.NameserverSurrogate {
	t.mu.Lock()
	defer t.mu.Unlock()
	out, view := []api.NameserverSurrogate{}, t.view()
	if t.policy == nil {
		return out
	}
	for _, site := range t.policy.Config().Sites {
		for _, u := range site.Surrogates {
			out = append(out, t.surrogate(&u, &site, &view))
		}
	}
	return out
}

// Sites are those of the policy, with their sessions.
func (t *Table) Sites() (out []api.NameserverSite) {
	if now := t.now.Load(); now != nil && now.state != nil {
		for _, s := range now.state.Sites() {
			out = append(out, api.NameserverSite(s))
		}
	}
	return out
}

func (t *Table) surrogate(u *policy.Surrogate, site *policy.Site, view *follow.View) api.NameserverSurrogate {
	o, _, source := t.observe(u, view)
	s := api.NameserverSurrogate{
		Name: u.Name, Site: site.Name, Addresses: u.Addresses, Up: !o.Down, Error: o.Error, State: api.InService, Weight: o.WeightOf(u),
		Sessions: o.Sessions, Source: string(source), Chosen: t.count("/" + u.Name).chosen.Load(),
	}
	if o.InMaintenance(u) || site.Maintenance {
		s.State = api.Maintenance
	}
	return s
}

// Change changes a surrogate until the next start.
func (t *Table) Change(c api.NameserverChange) (api.NameserverSurrogate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.policy == nil {
		return api.NameserverSurrogate{}, fmt.Errorf("%w: no name is routed here", api.ErrInvalid)
	}
	u, site := t.policy.Surrogate(c.Surrogate)
	if u == nil {
		return api.NameserverSurrogate{}, fmt.Errorf("surrogate %q: %w (%s)", c.Surrogate, api.ErrNotFound, document.Meant(c.Surrogate, t.policy.Surrogates()))
	}
	if c.Weight != nil && *c.Weight < 0 {
		return api.NameserverSurrogate{}, fmt.Errorf("%w: weight %d is below 0", api.ErrInvalid, *c.Weight)
	}
	if c.State != nil && *c.State != api.InService && *c.State != api.Maintenance {
		return api.NameserverSurrogate{}, fmt.Errorf("%w: state %q is neither in-service nor maintenance", api.ErrInvalid, *c.State)
	}
	was := t.changes[u.Name]
	if c.Weight != nil {
		was.weight = c.Weight
	}
	if c.State != nil {
		maintenance := *c.State == api.Maintenance
		was.maintenance = &maintenance
	}
	t.changes[u.Name] = was
	t.update()
	view := t.view()
	return t.surrogate(u, site, &view), nil
}
