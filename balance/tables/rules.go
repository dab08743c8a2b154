package tables

import (
	"math"
	"net/netip"
	"slices"

	"baton/balance/config"
	"baton/openflow"
	"baton/packet"
)

// in makes the group that takes packets to the host.
func (m *maker) in() {
	m.groups[GroupIn] = indirect(GroupIn, []openflow.Action{
		setMAC(openflow.FieldEthSrc, GatewayMAC(0)), setMAC(openflow.FieldEthDst, m.state.Internal.MAC), openflow.ActionOutput{Port: InsidePort},
	})
}

func indirect(id openflow.GroupID, do []openflow.Action) *openflow.GroupMod {
	return &openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeIndirect, Group: id, Buckets: []openflow.Bucket{
		{WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny, Actions: do}}}
}

// out returns the actions that send a packet out over a link.
func (m *maker) out(place int, f family) []openflow.Action {
	l, internal := m.state.Links[place], m.state.Internal
	ip := l.Family(f.v6)
	do := []openflow.Action{
		setMAC(openflow.FieldEthSrc, l.MAC), setMAC(openflow.FieldEthDst, ip.GatewayMAC), setAddr(f.source, ip.Address),
	}
	if m.state.Datapath == config.Baton && l.MTU > f.headers && l.MTU < internal.MTU {
		do = append(do, openflow.ActionClampMSS{MSS: uint16(l.MTU - f.headers)})
	}
	return append(do, openflow.ActionOutput{Port: PortOf(place)})
}

// rules makes the table of rules for an IP version.
func (m *maker) rules(f family) {
	s := m.state
	if len(s.Rules) == 0 {
		return
	}
	last := s.Rules[len(s.Rules)-1]
	for _, r := range s.resolvers(f) {
		do := m.use(f, r.set, last)
		cookie := NewCookie(ResolverOf, int(r.set.Links))
		for _, p := range []packet.Protocol{packet.ProtocolTCP, protocolUDP} {
			for _, port := range []uint16{dns, dnsOverTLS} {
				at := service{Protocol: uint8(p), First: port, Last: port}
				for _, match := range at.matches(ofType(nil, f.etherType)) {
					m.add(Rules, resolvers, cookie, match.Addr(f.dest, r.address), do...)
				}
			}
		}
	}
	for place, r := range s.Rules {
		to := slices.DeleteFunc(slices.Clone(r.To), func(p netip.Prefix) bool { return p.Addr().Is6() != f.v6 })
		if len(r.To) > 0 && len(to) == 0 {
			continue
		}
		do := m.use(f, s.Set(r), r)
		for _, match := range r.matches(f, to) {
			m.add(Rules, uint16(firstRule-place), NewCookie(RuleOf, place), match, do...)
		}
	}
}

// The ports of name servers: DNS, and DNS over TLS or QUIC (RFC 7858, 9250).
const (
	dns        = 53
	dnsOverTLS = 853
)

// resolver is a name server with the links that it belongs to.
type resolver struct {
	address netip.Addr
	set     Set
}

// resolvers returns the links' resolvers by address. One that every usable link has may be reached over any link, like everything else.
func (s State) resolvers(f family) []resolver {
	var list []resolver
	all := uint16(0)
	for place, l := range s.Links {
		if l.Usable {
			all |= 1 << place
		}
		for _, a := range l.Resolvers {
			a = a.Unmap().WithZone("")
			if a.Is6() != f.v6 || a.IsLinkLocalUnicast() || a.IsLoopback() {
				continue
			}
			at := slices.IndexFunc(list, func(r resolver) bool { return r.address == a })
			if at < 0 {
				at, list = len(list), append(list, resolver{address: a})
			}
			list[at].set.Links |= 1 << place
		}
	}
	list = slices.DeleteFunc(list, func(r resolver) bool { return r.set.Links&all == all })
	slices.SortFunc(list, func(a, b resolver) int { return a.address.Compare(b.address) })
	return list
}

// use returns the instructions for packets of a rule, and makes the groups that they need. There are none if no link of the set is usable.
func (m *maker) use(f family, set Set, r Rule) []openflow.Instruction {
	options := m.state.Options(set, f.v6)
	if len(options) == 0 {
		return nil
	}
	if r.Method == config.Controller {
		m.byController = true
		for _, o := range options {
			id := LinkGroup(o.Place, f.v6)
			m.groups[id] = indirect(id, m.out(o.Place, f))
		}
		return []openflow.Instruction{toController(openflow.MaxLenNoBuffer)}
	}
	m.stateless = true
	id := set.Group(f.v6)
	m.groups[id] = m.choice(id, f, options)
	if m.state.Datapath != config.Baton {
		return []openflow.Instruction{apply(openflow.ActionGroup{Group: id})}
	}
	return []openflow.Instruction{apply(openflow.ActionBind{Method: bindMethods[r.Method], Group: id, Affinity: uint32(math.Ceil(r.Affinity.Seconds()))})}
}

var bindMethods = map[config.Method]openflow.BindMethod{
	config.RoundRobin: openflow.BindRoundRobin, config.Least: openflow.BindLeast, config.Fastest: openflow.BindFastest, config.Hash: openflow.BindHash,
	config.Even: openflow.BindEven,
}

// choice makes the select group of some links. Open vSwitch has no standby: there standby links appear when the state changes.
func (m *maker) choice(id openflow.GroupID, f family, options []Option) *openflow.GroupMod {
	g := &openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeSelect, Group: id}
	for _, o := range options {
		if o.Weight > 0 || m.state.Datapath == config.Baton {
			g.Buckets = append(g.Buckets, openflow.Bucket{Weight: o.Weight, WatchPort: PortOf(o.Place), WatchGroup: openflow.GroupAny,
				Actions: m.out(o.Place, f)})
		}
	}
	return g
}

// matches returns the matches of a rule, for these networks.
func (r Rule) matches(f family, to []netip.Prefix) []openflow.Match {
	begin := ofType(nil, f.etherType)
	if r.Class > 0 {
		begin = with(begin).Uint(openflow.FieldMetadata, uint64(r.Class))
	}
	list := []openflow.Match{begin}
	if len(r.Services) > 0 {
		list = nil
		for _, s := range r.Services {
			list = append(list, service(s).matches(begin)...)
		}
	}
	if len(to) == 0 {
		return list
	}
	var all []openflow.Match
	for _, p := range to {
		for _, match := range list {
			if p.Bits() > 0 {
				match = with(match).Prefix(f.dest, p)
			}
			all = append(all, match)
		}
	}
	return all
}
