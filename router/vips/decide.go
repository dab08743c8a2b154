package vips

import (
	"net/http"
	"net/netip"

	"baton/packet/hello"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/passthrough"
	"baton/router/policies"
	"baton/router/proxyheader"
)

// decideRequest chooses the surrogate for a request that a socket has read.
func (s *Servers) decideRequest(vip netip.AddrPort, req *http.Request, client netip.AddrPort, exclude []string) fallback.Decision {
	now := s.o.Snapshot()
	i, ok := now.VIPs[vip]
	if !ok {
		return fallback.Decision{Status: http.StatusNotFound, Reason: "this address is no longer served"}
	}
	h := fallback.HeadOf(req)
	match, ok := now.Routes.Match(i, &h)
	if !ok {
		return fallback.Decision{Status: http.StatusNotFound, Reason: "no route matches the request"}
	}
	p := now.Pools[match.Pool]
	if p.Config.Keeps() { // its surrogates would take the router's address for the client's
		return fallback.Decision{
			Status: http.StatusServiceUnavailable, Reason: "the session cannot be spliced, and its surrogates serve no other",
		}
	}
	at, ok := p.FindUsable(s.o.TakeChosen(client, vip))
	if !ok {
		q, method := p.QuestionOf(&h, client.Addr()), policies.ByHandoff
		if now.Config.VIPs[i].Mode == config.Redirect {
			method = policies.ByRedirect
		}
		c, ok := s.o.Pick(p, &q, exclude, method)
		if !ok && c.Bypass != "" {
			return fallback.Decision{Bypass: c.Bypass}
		}
		if !ok {
			return fallback.Decision{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}
		}
		at = c.At
	}
	sg := p.Config.Surrogates[at]
	return fallback.Decision{
		Surrogate: sg.Name, Address: sg.Address, Public: p.Public(at), Own: p.Config.Reuse != config.ReuseAlways,
		Header: proxyheader.Of(p.Config), Fields: p.Fields, Rewrite: match.Rewrite,
	}
}

// decideHello chooses the surrogates for hellos that a VIP's socket has read.
func (s *Servers) decideHello(vip netip.AddrPort) func(*hello.Hello, netip.AddrPort, []string) passthrough.Decision {
	return func(h *hello.Hello, client netip.AddrPort, exclude []string) passthrough.Decision {
		now := s.o.Snapshot()
		i, ok := now.VIPs[vip]
		if !ok {
			return passthrough.Decision{Alert: hello.InternalError, Reason: "no_vip"}
		}
		match, ok := now.Routes.MatchHello(i, h)
		switch {
		case !ok && h.ServerName == "":
			return passthrough.Decision{Alert: hello.MissingExtension, Reason: "no_name"}
		case !ok:
			return passthrough.Decision{Alert: hello.UnrecognizedName, Reason: "no_route"}
		}
		p := now.Pools[match.Pool]
		if p.Config.Keeps() { // its surrogates would take the router's address for the client's
			return passthrough.Decision{Alert: hello.InternalError, Reason: "not_spliced"}
		}
		at, ok := p.FindUsable(s.o.TakeChosen(client, vip))
		if !ok {
			q := p.QuestionOfHello(h, client.Addr())
			c, ok := s.o.Pick(p, &q, exclude, policies.ByHandoff)
			if !ok {
				return passthrough.Decision{Alert: hello.InternalError, Reason: "no_surrogate"}
			}
			at = c.At
		}
		sg := p.Config.Surrogates[at]
		return passthrough.Decision{Surrogate: sg.Name, Address: sg.Address, Header: proxyheader.Of(p.Config)}
	}
}
