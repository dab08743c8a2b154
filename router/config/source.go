package config

import (
	"fmt"

	"baton/document"
)

// Source is where a surrogate sees packets come from.
type Source string

// The sources.
const (
	SourceRouter Source = "router" // an address and port of the router, so that answers return there
	SourceKeep   Source = "keep"   // the client's own: the surrogate's route to it must lead through the router
)

// Keeps reports whether sessions of TCP keep their clients' addresses. With ClientAddress surrogates are told them instead, and
// Source is that of QUIC.
func (p *Pool) Keeps() bool { return p.Source == SourceKeep && p.ClientAddress == "" && !p.QUICOnly }

// checkKept refuses what a pool that keeps its clients' addresses cannot have: legs for anybody, and sessions that are proxied.
func (d *decoder) checkKept(cfg *Config) {
	kept := make(map[string]*Pool)
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if p.Keeps() {
			kept[p.Name] = p
			d.checkKeptLegs(document.Join("pools", p.Name), p)
		}
	}
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		for j, r := range v.Routes {
			if p := kept[r.Pool]; p != nil && v.Protocol != QUIC {
				d.checkKeptRoute(fmt.Sprintf("vips[%d].routes[%d].pool", i, j), v, p)
			}
		}
	}
}

// checkKeptLegs makes the pool's legs what they can be alone: opened on demand, from the client's address, for one client.
func (d *decoder) checkKeptLegs(path string, p *Pool) {
	legs := document.Join(path, "legs")
	for _, of := range []struct {
		at     string
		wrong  bool
		remedy string
	}{
		{document.Join(path, "reuse"), p.Reuse != ReuseNever, "never, or no reuse"},
		{document.Join(legs, "mode"), p.Legs.Mode != LegsOnDemand, "on-demand, or no mode"},
		{document.Join(legs, "min"), p.Legs.Min > 0, "no min"},
		{document.Join(legs, "sources"), true, "no sources"},
	} {
		if d.Given(of.at) && of.wrong {
			d.WrongAt(d.Place(of.at), of.at, "is for legs that start from the router, and with source: keep each starts from its client's address", of.remedy)
		}
	}
	p.Reuse, p.Legs.Mode, p.Legs.Min = ReuseNever, LegsOnDemand, 0
}

// checkKeptRoute refuses a route by which sessions would be proxied: the proxy's connections start from the router.
func (d *decoder) checkKeptRoute(at string, v *VIP, p *Pool) {
	if v.Mode != Handoff {
		d.WrongAt(d.Place(at), at, fmt.Sprintf("%q has source: keep, and connections of mode %s start elsewhere", document.Clip(p.Name), v.Mode), "mode: handoff, or a pool with source: router")
		return
	}
	for k := range p.Surrogates {
		if why := Unspliced(v, &p.Surrogates[k]); why != "" {
			d.WrongAt(d.Place(at), at, fmt.Sprintf("%q has source: keep, and sessions with %s cannot be spliced: %s", document.Clip(p.Name), p.Surrogates[k].Address, why),
				"a pool with source: router")
			return
		}
	}
}
