// Package steer programs OpenFlow 1.3 forwarders to send the packets of an ingress port to the site chosen for it. The forwarders keep the
// map: the rules have no timeouts, and the next controller reads it from them.
package steer

import (
	"net/netip"

	"baton/anycast/assign"
	"baton/anycast/config"
	"baton/openflow"
	"baton/packet"
)

// cookie marks Baton's rules: "BATONANY".
const cookie = 0x4241544f4e414e59

// place finds ingresses in the configuration.
type place struct {
	m     *config.Map
	sites []config.Served
}

// exit returns the port that leads from an ingress's forwarder to a site.
func (p *place) exit(ingress, site int) (config.Exit, bool) {
	for _, e := range p.sites[site].Ports {
		if e.Forwarder == p.m.Ingresses[ingress].Forwarder {
			return e, true
		}
	}
	return config.Exit{}, false
}

// match returns the match of an ingress's rule for a service address.
func (p *place) match(ingress int, service netip.Prefix) openflow.Match {
	m := openflow.Match{}.Port(openflow.PortNo(p.m.Ingresses[ingress].Port))
	if service.Addr().Is4() {
		return m.Uint(openflow.FieldEthType, 0x0800).Prefix(openflow.FieldIPv4Dst, service)
	}
	return m.Uint(openflow.FieldEthType, 0x86dd).Prefix(openflow.FieldIPv6Dst, service)
}

// rules returns all rules that send an ingress to a site.
func (p *place) rules(command openflow.FlowModCommand, ingress, site int) []openflow.Message {
	e, ok := p.exit(ingress, site)
	if !ok { // excluded by the configuration check
		return nil
	}
	var actions []openflow.Action
	if e.MAC != ([6]byte{}) {
		actions = append(actions, openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthDst, packet.MAC(e.MAC))})
	}
	actions = append(actions, openflow.ActionOutput{Port: openflow.PortNo(e.Port)})
	var out []openflow.Message
	for _, service := range p.m.Addresses {
		f := openflow.NewFlowMod(command)
		f.Cookie, f.Table, f.Priority = cookie, openflow.TableID(p.m.Table), p.m.Priority
		f.Match = p.match(ingress, service)
		f.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: actions}}
		out = append(out, f)
	}
	return out
}

// query requests Baton's rules.
func (p *place) query() openflow.FlowStatsRequest {
	q := openflow.NewFlowQuery()
	q.Table, q.Cookie, q.CookieMask = openflow.TableID(p.m.Table), cookie, ^uint64(0)
	return openflow.FlowStatsRequest{FlowQuery: q}
}

// found is the state of an ingress in a forwarder.
type found struct {
	site  int // assign.Nowhere when its rules are missing, or contradict each other
	bytes uint64
	rules int
}

// read converts a forwarder's rules into the state of its ingresses, and returns deletions of stale rules.
func (p *place) read(forwarder uint64, stats []openflow.FlowStats) (map[int]found, []openflow.Message) {
	all := make(map[int]found)
	for i := range p.m.Ingresses {
		if p.m.Ingresses[i].Forwarder == forwarder {
			all[i] = found{site: assign.Nowhere}
		}
	}
	var stray []openflow.Message
	for i := range stats {
		s := &stats[i]
		if s.Cookie != cookie { // some switches ignore the cookie of the query
			continue
		}
		ingress, wanted := p.find(forwarder, s)
		if !wanted {
			f := openflow.NewFlowMod(openflow.FlowDeleteStrict)
			f.Cookie, f.CookieMask, f.Table, f.Priority, f.Match = cookie, ^uint64(0), s.Table, s.Priority, s.Match
			stray = append(stray, f)
			continue
		}
		g := all[ingress]
		site := p.leads(ingress, s)
		if g.rules > 0 && site != g.site {
			site = assign.Nowhere
		}
		all[ingress] = found{site, g.bytes + s.Octets, g.rules + 1}
	}
	for i, g := range all {
		if g.rules != len(p.m.Addresses) {
			g.site = assign.Nowhere // an incomplete change
			all[i] = g
		}
	}
	return all, stray
}

// find returns the ingress of a rule.
func (p *place) find(forwarder uint64, s *openflow.FlowStats) (int, bool) {
	if s.Priority != p.m.Priority || s.Table != openflow.TableID(p.m.Table) {
		return 0, false
	}
	for i := range p.m.Ingresses {
		if p.m.Ingresses[i].Forwarder != forwarder {
			continue
		}
		for _, service := range p.m.Addresses {
			if same(p.match(i, service), s.Match) {
				return i, true
			}
		}
	}
	return 0, false
}

// same compares matches field by field: a switch may list its fields in another order.
func same(a, b openflow.Match) bool {
	if len(a) != len(b) {
		return false
	}
	for t, err := range a.All() {
		if err != nil {
			return false
		}
		o, ok := b.Get(t.Field)
		if !ok || t.Masked != o.Masked || string(t.Value) != string(o.Value) || string(t.Mask) != string(o.Mask) {
			return false
		}
	}
	return true
}

// leads returns the site that a rule leads to.
func (p *place) leads(ingress int, s *openflow.FlowStats) int {
	for _, instruction := range s.Instructions {
		apply, ok := instruction.(openflow.InstructionApplyActions)
		if !ok {
			continue
		}
		for _, a := range apply.Actions {
			out, ok := a.(openflow.ActionOutput)
			if !ok {
				continue
			}
			for site := range p.sites {
				if e, reaches := p.exit(ingress, site); reaches && e.Port == uint32(out.Port) {
					return site
				}
			}
		}
	}
	return assign.Nowhere
}
