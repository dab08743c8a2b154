package handoff

import (
	"net/netip"
	"slices"

	"baton/controller/sessions"
	"baton/controller/switches"
	"baton/openflow"
	"baton/packet"
)

// Service is an address that request routers serve.
type Service struct {
	Address netip.AddrPort
	// Routers are the addresses from which its request routers open their legs. None: the service's.
	Routers []netip.Addr
}

func (s Service) routers() []netip.Addr {
	if len(s.Routers) == 0 {
		return []netip.Addr{s.Address.Addr()}
	}
	return s.Routers
}

// Surrogate is a server that sessions are handed to.
type Surrogate struct {
	Name    string
	Address netip.AddrPort
	Host    string // for the Host field of requests; "": unchanged
}

// Addresses are what is served, and by whom. It is not changed once it is in use.
type Addresses struct {
	Services   []Service
	Surrogates []Surrogate
}

// index finds what a session is for.
type index struct {
	Addresses
	services   map[netip.AddrPort]bool
	routers    map[netip.Addr]bool
	surrogates map[netip.AddrPort]*Surrogate
	names      map[string]*Surrogate
}

func newIndex(a Addresses) *index {
	x := &index{a, map[netip.AddrPort]bool{}, map[netip.Addr]bool{}, map[netip.AddrPort]*Surrogate{}, map[string]*Surrogate{}}
	for _, s := range a.Services {
		x.services[s.Address] = true
		for _, r := range s.routers() {
			x.routers[r] = true
		}
	}
	for i := range a.Surrogates {
		s := &a.Surrogates[i]
		x.surrogates[s.Address], x.names[s.Name] = s, s
	}
	return x
}

func (x *index) kind(from, to netip.AddrPort) sessions.Kind {
	switch {
	case x.services[to]:
		return sessions.Client
	case x.routers[from.Addr()] && x.surrogates[to] != nil:
		return sessions.Leg
	}
	return sessions.Unknown
}

// Watched are the entries, the same for every switch, that send the sessions of services and the legs of request routers to the controller.
//
// SYNs to a service come to it even where a handed-over session has the same addresses: the client uses its port again. So do RSTs of
// surrogates, which tell that a handoff has failed or ended. Both need a match on TCP flags (the ONF's extension 109), which Open vSwitch and
// Baton's forwarders have.
func (a Addresses) Watched() []*openflow.FlowMod {
	var all []*openflow.FlowMod
	watch := func(priority uint16, m openflow.Match) {
		e := entry(priority, 0, m, output(openflow.PortController))
		if !slices.ContainsFunc(all, func(o *openflow.FlowMod) bool { return slices.Equal(o.Match, e.Match) && o.Priority == priority }) {
			all = append(all, e)
		}
	}
	for _, s := range a.Services {
		at := s.Address
		tcp := family(nil, at.Addr()).Uint(openflow.FieldIPProto, uint64(packet.ProtocolTCP))
		in := to(slices.Clone(tcp), at.Addr()).Uint(openflow.FieldTCPDst, uint64(at.Port()))
		watch(switches.PriorityWatched, in)
		watch(switches.PriorityWatched, from(slices.Clone(tcp), at.Addr()).Uint(openflow.FieldTCPSrc, uint64(at.Port())))
		watch(switches.PrioritySigns, slices.Clone(in).UintMasked(openflow.FieldTCPFlags, uint64(packet.SYN), uint64(packet.SYN|packet.ACK)))
		for _, g := range a.Surrogates {
			for _, r := range s.routers() {
				if r.Is4() != g.Address.Addr().Is4() {
					continue
				}
				tcp := family(nil, r).Uint(openflow.FieldIPProto, uint64(packet.ProtocolTCP))
				watch(switches.PriorityWatched, to(from(slices.Clone(tcp), r), g.Address.Addr()).Uint(openflow.FieldTCPDst, uint64(g.Address.Port())))
				answers := to(from(slices.Clone(tcp), g.Address.Addr()), r).Uint(openflow.FieldTCPSrc, uint64(g.Address.Port()))
				watch(switches.PriorityWatched, answers)
				watch(switches.PrioritySigns, slices.Clone(answers).UintMasked(openflow.FieldTCPFlags, uint64(packet.RST), uint64(packet.RST)))
			}
		}
	}
	return all
}
