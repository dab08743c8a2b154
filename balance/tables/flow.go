package tables

import (
	"net/netip"

	"baton/openflow"
	"baton/packet"
)

// Flow is a flow of the host that the controller has chosen a link for. Protocols other than TCP and UDP have ports 0; of ICMP it is the
// echoes to a host.
type Flow struct {
	Protocol       packet.Protocol
	Inside, Remote netip.AddrPort
}

// V6 says whether it is IPv6.
func (f Flow) V6() bool { return f.Remote.Addr().Is6() }

// FlowEntries returns the entries that take a flow out by a link and its answers back in. They end when no packet has used them for idle
// seconds; of the second's end the controller is told.
func (s State) FlowEntries(f Flow, place int, idle uint16) (out, back *openflow.FlowMod) {
	ip := s.familyOf(f.V6())
	begin := func(m openflow.Match, src, dst netip.AddrPort, icmp uint8) openflow.Match {
		m = ofProtocol(ofType(m, ip.etherType), f.Protocol).Addr(ip.source, src.Addr()).Addr(ip.dest, dst.Addr())
		if source, dest, ok := ports(f.Protocol); ok {
			m = m.Uint(source, uint64(src.Port())).Uint(dest, uint64(dst.Port()))
		}
		if f.Protocol == ip.icmp {
			m = m.Uint(ip.icmpType, uint64(icmp))
		}
		return m
	}
	entry := func(t openflow.TableID, m openflow.Match, do ...openflow.Action) *openflow.FlowMod {
		e := openflow.NewFlowMod(openflow.FlowAdd)
		e.Table, e.Priority, e.Cookie, e.Match, e.Idle = t, flows, uint64(flowCookie(place, ip.v6)), canonical(m), idle
		e.Instructions = []openflow.Instruction{apply(do...)}
		if f.Protocol == packet.ProtocolTCP {
			e.Instructions = append(e.Instructions, openflow.InstructionGotoTable{Table: Ends})
		}
		return e
	}
	link := netip.AddrPortFrom(s.Links[place].family(ip.v6).Address, f.Inside.Port())
	out = entry(Rules, begin(nil, f.Inside, f.Remote, ip.echo), openflow.ActionGroup{Group: LinkGroup(place, ip.v6)})
	back = entry(Back, begin(from(PortOf(place)), f.Remote, link, ip.echoReply), setAddr(ip.dest, f.Inside.Addr()),
		openflow.ActionGroup{Group: GroupIn})
	back.Flags = openflow.FlowSendFlowRem
	return out, back
}

// ReadFlow returns the flow whose answers an entry takes back in, its link, and the link's address that they are sent to.
func ReadFlow(e *openflow.FlowMod) (f Flow, place int, at netip.Addr, ok bool) {
	kind, _ := e.Match.Get(openflow.FieldEthType)
	v6 := kind.Uint() == uint64(packet.EtherTypeIPv6)
	ip := State{}.familyOf(v6)
	source, hasSource := e.Match.Get(ip.source)
	dest, hasDest := e.Match.Get(ip.dest)
	protocol, hasProtocol := e.Match.Get(openflow.FieldIPProto)
	inside := setBy(e.Instructions, ip.dest)
	c := Cookie(e.Cookie)
	if e.Table != Back || !c.Ours() || c.Kind() != FlowOf || !hasSource || !hasDest || !hasProtocol || !inside.IsValid() {
		return Flow{}, 0, netip.Addr{}, false
	}
	f = Flow{Protocol: packet.Protocol(protocol.Uint())}
	var client, server openflow.TLV
	if source, dest, ok := ports(f.Protocol); ok {
		server, _ = e.Match.Get(source)
		client, _ = e.Match.Get(dest)
	}
	f.Inside = netip.AddrPortFrom(inside, uint16(client.Uint()))
	f.Remote = netip.AddrPortFrom(source.Addr(), uint16(server.Uint()))
	return f, (c.Number() - int(firstLinks)) / 2, dest.Addr(), true
}

// setBy returns the address that instructions write to a field.
func setBy(list []openflow.Instruction, f openflow.Field) netip.Addr {
	for _, i := range list {
		if i, ok := i.(openflow.InstructionApplyActions); ok {
			for _, a := range i.Actions {
				if set, ok := a.(openflow.ActionSetField); ok {
					if t, found := set.Field.Get(f); found {
						return t.Addr()
					}
				}
			}
		}
	}
	return netip.Addr{}
}
