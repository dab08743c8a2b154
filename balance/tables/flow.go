package tables

import (
	"net/netip"

	"baton/openflow"
	"baton/packet"
)

// Flow is a flow whose link the controller has chosen. Protocols other than TCP and UDP have ports 0; ICMP means the echoes to a host.
type Flow struct {
	Protocol         packet.Protocol
	Internal, Remote netip.AddrPort
}

// V6 reports whether it is IPv6.
func (f Flow) V6() bool { return f.Remote.Addr().Is6() }

// FlowEntries returns the entries that take a flow out over a link and its replies back in. They expire after idle seconds without a
// packet; the controller is notified of the second's end.
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
		if f.Protocol == packet.ProtocolTCP { // written actions run after the last table, without copying the packet
			e.Instructions = []openflow.Instruction{openflow.InstructionWriteActions{Actions: do}, openflow.InstructionGotoTable{Table: Ends}}
		}
		return e
	}
	link := netip.AddrPortFrom(s.Links[place].Family(ip.v6).Address, f.Internal.Port())
	out = entry(Rules, begin(nil, f.Internal, f.Remote, ip.echo), openflow.ActionGroup{Group: LinkGroup(place, ip.v6)})
	back = entry(Back, begin(from(PortOf(place)), f.Remote, link, ip.echoReply), setAddr(ip.dest, f.Internal.Addr()),
		openflow.ActionGroup{Group: GroupIn})
	back.Flags = openflow.FlowSendFlowRem
	return out, back
}

// ReadFlow returns the flow and the link of an entry for replies. It uses only the entry's table, cookie and match, which a switch reports
// for a removed entry.
func (s State) ReadFlow(e *openflow.FlowMod) (f Flow, place int, ok bool) {
	kind, _ := e.Match.Get(openflow.FieldEthType)
	ip := s.familyOf(kind.Uint() == uint64(packet.EtherTypeIPv6))
	remote, hasRemote := e.Match.Get(ip.source)
	protocol, hasProtocol := e.Match.Get(openflow.FieldIPProto)
	c := Cookie(e.Cookie)
	place = (c.Number() - int(firstLinks)) / 2
	if e.Table != Back || !c.Ours() || c.Kind() != FlowOf || place < 0 || place >= len(s.Links) || !hasRemote || !hasProtocol || !ip.internal.IsValid() {
		return Flow{}, 0, false
	}
	f = Flow{Protocol: packet.Protocol(protocol.Uint())}
	var client, server openflow.TLV
	if source, dest, ok := ports(f.Protocol); ok {
		server, _ = e.Match.Get(source)
		client, _ = e.Match.Get(dest)
	}
	f.Internal = netip.AddrPortFrom(ip.internal, uint16(client.Uint()))
	f.Remote = netip.AddrPortFrom(remote.Addr(), uint16(server.Uint()))
	return f, place, true
}

// Adopt sorts a switch's controller entries into flows that can continue, by link, and stale entries: the link is not usable or has another
// address, or so has the host's side.
func (s State) Adopt(entries []*openflow.FlowMod) (kept map[Flow]int, stale []*openflow.FlowMod) {
	kept = map[Flow]int{}
	outgoing := map[place]*openflow.FlowMod{} // entries out, of the flows that are kept
	for _, e := range entries {               // the later table, for replies, comes first
		if e.Table != Back {
			if !sameBut(outgoing[placeOf(e)], e) {
				stale = append(stale, command(e, openflow.FlowDeleteStrict))
			}
			continue
		}
		f, place, ok := s.ReadFlow(e)
		if !ok || !s.Links[place].Usable || !s.Links[place].Family(f.V6()).Complete() {
			stale = append(stale, command(e, openflow.FlowDeleteStrict))
			continue
		}
		out, back := s.FlowEntries(f, place, e.Idle)
		if !sameBut(back, e) {
			stale = append(stale, command(e, openflow.FlowDeleteStrict))
			continue
		}
		kept[f], outgoing[placeOf(out)] = place, out
	}
	return kept, stale
}

// sameBut compares entries without their timeouts and flags.
func sameBut(a, b *openflow.FlowMod) bool {
	if a == nil {
		return false
	}
	x, y := *a, *b
	x.Idle, x.Hard, x.Flags = 0, 0, 0
	y.Idle, y.Hard, y.Flags = 0, 0, 0
	return sameMessage(&x, &y)
}
