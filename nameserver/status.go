package nameserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"baton/api"
	"baton/daemon"
	"baton/nameserver/answer"
	"baton/nameserver/metrics"
)

func (n *Nameserver) backend() api.Backend {
	return api.Backend{
		Part: api.NameserverBackend{
			Status: func(context.Context) (api.NameserverStatus, error) { return n.Status() },
			Query: func(_ context.Context, q api.NameserverQuestion) (api.NameserverExplanation, error) {
				return n.Query(q)
			},
			Decisions: func(context.Context) ([]api.RoutingDecision, error) { return n.routes.Decisions(), nil },
			Change: func(_ context.Context, c api.NameserverChange) (api.NameserverSurrogate, error) {
				return n.routes.Change(c)
			},
		},
		Reload:   func(context.Context) (api.ReloadResult, error) { return n.Reload() },
		Counters: daemon.Counters(n.Status, metrics.Series),
	}
}

// Status is what the name server serves and has done.
func (n *Nameserver) Status() (api.NameserverStatus, error) {
	c, k := n.server.Counts(), n.sockets.Counts()
	s := api.NameserverStatus{
		Process: daemon.Process("nameserver", n.o.Version, n.started), Listen: n.sockets.Addresses(), Services: n.routes.Status(), Surrogates: n.routes.Surrogates(),
		Sites: n.routes.Sites(), Controller: n.follower.Status(),
		Queries: c.Queries, Answers: c.Answers, Refused: c.Refused, Ignored: c.Ignored + k.TooLong, Truncated: c.Truncated, Omitted: c.Omitted,
		Slipped: c.Slipped, Unsent: k.Unsent, Subnets: c.Subnets, Cookies: c.Cookies, DNSSEC: c.DNSSEC, Transfers: c.Transfers,
		ConnectionsRefused: k.Refused,
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Name, s.Config, s.Loaded = n.cfg.Name, n.cfg.File, n.loaded
	s.Reloads, s.ReloadsFailed = n.reloads.Load(), n.reloadsFailed.Load()
	s.Connections = api.Usage{Used: k.Connections, Limit: n.cfg.TCP.Connections}
	now := time.Now()
	for _, z := range n.zones {
		one := api.NameserverZone{
			Name: z.cfg.Name, File: z.cfg.File, Serial: z.zone.Data.Serial(), Records: z.zone.Data.Records, Routed: len(z.cfg.Routed),
			Loaded: z.at,
		}
		if signer := z.zone.Signer; signer != nil {
			one.Signed = signer.Signed(now)
			for _, k := range signer.States(now) {
				key := api.NameserverKey{Tag: k.Tag, Algorithm: k.Algorithm, Role: k.Role, Now: k.Now, Signs: k.Signs, Next: k.Next}
				if !k.At.IsZero() {
					key.At = &k.At
				}
				one.Keys = append(one.Keys, key)
			}
		}
		if z.failure != nil {
			one.Error = z.failure.Error()
		}
		s.Zones = append(s.Zones, one)
	}
	slices.SortFunc(s.Zones, func(a, b api.NameserverZone) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

// Query answers a question as a resolver's, and says why.
func (n *Nameserver) Query(q api.NameserverQuestion) (api.NameserverExplanation, error) {
	return Explain(n.server, q)
}

// Explain has a server answer a question, and says why it answers so.
func Explain(s *answer.Server, q api.NameserverQuestion) (api.NameserverExplanation, error) {
	if q.Type == "" {
		q.Type = "A"
	}
	kind, ok := dns.StringToType[strings.ToUpper(q.Type)]
	if _, valid := dns.IsDomainName(q.Name); !valid || !ok || q.Name == "" {
		return api.NameserverExplanation{}, fmt.Errorf("%w: %q is not a name, or %q is not a type", api.ErrInvalid, q.Name, q.Type)
	}
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(q.Name), kind)
	m.SetEdns0(4096, q.DNSSEC)
	if q.Client.IsValid() {
		a := q.Client.Masked()
		subnet := &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(a.Bits()), Address: a.Addr().AsSlice()}
		if a.Addr().Is6() {
			subnet.Family = 2
		}
		m.IsEdns0().Option = append(m.IsEdns0().Option, subnet)
	}
	x, reply, err := s.Explain(m, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		return api.NameserverExplanation{}, err
	}
	out := api.NameserverExplanation{Code: dns.RcodeToString[reply.Rcode], Authority: reply.Authoritative, Because: x}
	for section, to := range map[*[]string][]dns.RR{&out.Answer: reply.Answer, &out.Nameserver: reply.Ns, &out.Additional: reply.Extra} {
		*section = []string{}
		for _, rr := range to {
			if rr.Header().Rrtype != dns.TypeOPT {
				*section = append(*section, rr.String())
			}
		}
	}
	if o := reply.IsEdns0(); o != nil {
		for _, option := range o.Option {
			if subnet, ok := option.(*dns.EDNS0_SUBNET); ok {
				scope := int(subnet.SourceScope)
				out.Scope = &scope
			}
		}
	}
	return out, nil
}
