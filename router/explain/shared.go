package explain

import (
	"fmt"
	"net/netip"

	"baton/policy"
	"baton/router/choose"
	"baton/router/config"
)

// shared is the snapshot of a pool's policy of a file.
func (q *Question) shared(p *config.Pool, health func(string) Health) *choose.Shared {
	if q.Shared != nil {
		return q.Shared(p)
	}
	return choose.NewShared(p, p.Shared.Policy, nil, func(name string) choose.Seen {
		h := health(name)
		return choose.Seen{Up: h.Up, Draining: h.Draining, Why: h.Why, Sessions: max(h.Sessions, 0)}
	})
}

// why is the reason for which user space chooses a surrogate by a policy for a client, "" if the kernel does.
func why(s *choose.Shared, client netip.Addr) string {
	tables := s.Tables()
	table, why := tables.Of(client)
	switch {
	case len(table) > 0:
		return ""
	case !client.IsValid():
		return "the choice is by the client, and none is given"
	}
	return "the kernel cannot choose by the policy: " + why
}

func (e *Explanation) chooseShared(v *config.VIP, p *config.Pool, s *choose.Shared, q policy.Query, health func(string) Health) {
	e.Pool, e.Policy, e.Key = p.Name, p.Policy, p.Shared.File
	if v.Mode == config.Handoff && !v.Protocol.Encrypted() {
		e.Reuse = p.Reuse
	}
	d := s.Decide(q, 0)
	e.Reasons = d.Because
	states := make([]Health, len(p.Surrogates))
	for i := range p.Surrogates {
		states[i] = health(p.Surrogates[i].Name)
	}
	shares := make([]float64, len(p.Surrogates))
	if d.Spread == policy.ByWeight && len(d.Choices) > 1 {
		sum := 0
		for _, c := range d.Choices {
			sum += s.State.Weight(c.Surrogate.Name)
		}
		for _, c := range d.Choices {
			if i, ok := s.First(&policy.Decision{Choices: []policy.Choice{c}}, nil); ok {
				shares[i] = float64(s.State.Weight(c.Surrogate.Name)) / float64(sum)
			}
		}
	} else if i, ok := s.First(&d, nil); ok {
		shares[i] = 1
	}
	e.outcome(v, p, states, shares, s.Excluded())
	if bypass := config.BypassURL(d.Bypass); bypass != "" && len(e.Chosen) == 0 && !v.Protocol.Encrypted() {
		e.Status, e.Reason, e.Action = 302, fmt.Sprintf("no surrogate of the policy can serve: %s does", bypass), "redirected to "+bypass
	}
}
