package tables

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"

	"baton/balance/config"
	"baton/balance/links"
	"baton/openflow"
	"baton/packet"
)

// Tables are flow entries and groups, as the messages that add them. They are immutable.
type Tables struct {
	Groups  []*openflow.GroupMod // by number
	Entries []*openflow.FlowMod  // the later table first, then by priority, highest first, then by match
}

// The flow tables.
const (
	First openflow.TableID = iota // by ingress port
	Rules                         // selects the links for a packet of the host
	Back                          // packets to a link's address
	Ends                          // packets of the controller's flows leave; the first and last ones are reported
)

// Priorities. Those of rules count down from firstRule.
const (
	matchAll     = 0
	internalElse = 1
	known        = 100 // by address
	special      = 200
	neighbours   = 300

	firstRule = 30000
	resolvers = 40000
	flows     = 50000
	gateways  = 60000
)

// family holds the differences between the IP versions.
type family struct {
	v6              bool
	etherType       packet.EtherType
	source, dest    openflow.Field
	icmp            packet.Protocol
	icmpType        openflow.Field
	echo, echoReply uint8
	internal        netip.Addr
	headers         int // of IP and TCP, in bytes
}

func (s State) families() []family {
	var list []family
	for _, v6 := range []bool{false, true} {
		if f := s.familyOf(v6); f.internal.IsValid() {
			list = append(list, f)
		}
	}
	return list
}

func (s State) familyOf(v6 bool) family {
	if v6 {
		return family{true, packet.EtherTypeIPv6, openflow.FieldIPv6Src, openflow.FieldIPv6Dst, packet.ProtocolICMPv6, openflow.FieldICMPv6Type,
			128, 129, s.Internal.IPv6, packet.IPv6Size + packet.TCPSize}
	}
	return family{false, packet.EtherTypeIPv4, openflow.FieldIPv4Src, openflow.FieldIPv4Dst, packet.ProtocolICMP, openflow.FieldICMPv4Type,
		8, 0, s.Internal.IPv4, packet.IPv4Size + packet.TCPSize}
}

// Family returns the link's state for an IP version.
func (l Link) Family(v6 bool) links.Family {
	if v6 {
		return l.V6
	}
	return l.V4
}

// Address returns the host's address for an IP version; not valid if it has none.
func (i Internal) Address(v6 bool) netip.Addr {
	if v6 {
		return i.IPv6
	}
	return i.IPv4
}

func (f family) gateway(g Gateway) netip.Addr {
	if f.v6 {
		return g.IPv6
	}
	return g.IPv4
}

// PortOf returns the number of a link's port.
func PortOf(place int) openflow.PortNo { return openflow.PortNo(FirstLink + place) }

// Make returns the tables of a state. Equal states have equal tables.
func Make(s State) Tables {
	m := maker{state: s, groups: map[openflow.GroupID]*openflow.GroupMod{}}
	m.first()
	families := s.families()
	if len(families) > 0 {
		m.in()
	}
	for _, f := range families {
		m.gateways(f)
		m.rules(f)
		m.back(f)
	}
	m.ends(families)
	return m.tables()
}

// maker collects the tables for a state.
type maker struct {
	state        State
	entries      []*openflow.FlowMod
	groups       map[openflow.GroupID]*openflow.GroupMod
	byController bool // some flows get their link from the controller
	stateless    bool // some flows get it from the switch, which keeps no bindings
}

func (m *maker) add(t openflow.TableID, priority uint16, c Cookie, match openflow.Match, do ...openflow.Instruction) {
	e := openflow.NewFlowMod(openflow.FlowAdd)
	e.Table, e.Priority, e.Cookie, e.Match, e.Instructions = t, priority, uint64(c), canonical(match), do
	m.entries = append(m.entries, e)
}

func apply(list ...openflow.Action) openflow.Instruction {
	return openflow.InstructionApplyActions{Actions: list}
}

func toController(bytes uint16) openflow.Instruction {
	return apply(openflow.ActionOutput{Port: openflow.PortController, MaxLen: bytes})
}

func from(port openflow.PortNo) openflow.Match { return openflow.Match{}.Port(port) }

// with clips a match, so that several callers can append to it.
func with(m openflow.Match) openflow.Match { return slices.Clip(m) }

func ofType(m openflow.Match, t packet.EtherType) openflow.Match {
	return with(m).Uint(openflow.FieldEthType, uint64(t))
}

func ofProtocol(m openflow.Match, p packet.Protocol) openflow.Match {
	return with(m).Uint(openflow.FieldIPProto, uint64(p))
}

// ofNeighbours matches IPv6 neighbour discovery messages of a type.
func ofNeighbours(m openflow.Match, kind uint64) openflow.Match {
	return ofProtocol(ofType(m, packet.EtherTypeIPv6), packet.ProtocolICMPv6).Uint(openflow.FieldICMPv6Type, kind)
}

// IPv6 neighbour solicitation and advertisement (RFC 4861, 4.3 and 4.4).
const (
	solicitation  = 135
	advertisement = 136
)

// first makes the first table.
func (m *maker) first() {
	s, fixed := m.state, NewCookie(Fixed, 0)
	internal := func() openflow.Match { return from(InsidePort) }
	if s.Internal.IPv4.IsValid() {
		m.add(First, neighbours, fixed, ofType(internal(), etherTypeARP), toController(openflow.MaxLenNoBuffer))
	}
	if s.Internal.IPv6.IsValid() {
		m.add(First, neighbours, fixed, ofNeighbours(internal(), solicitation), toController(openflow.MaxLenNoBuffer))
	}
	for class := range s.Internal.Gateways {
		var do []openflow.Instruction
		if class > 0 {
			do = append(do, openflow.InstructionWriteMetadata{Metadata: uint64(class), Mask: ^uint64(0)})
		}
		m.add(First, known, fixed, internal().MAC(openflow.FieldEthDst, packet.MAC(GatewayMAC(class))),
			append(do, openflow.InstructionGotoTable{Table: Rules})...)
	}
	m.add(First, internalElse, fixed, internal())
	for place, l := range s.Links {
		for _, f := range s.families() {
			if a := l.Family(f.v6).Address; a.IsValid() {
				m.add(First, known, fixed, ofType(from(PortOf(place)), f.etherType).Addr(f.dest, a), openflow.InstructionGotoTable{Table: Back})
				if f.v6 && s.Datapath != config.Baton { // the host's stack gets them, and nobody on the internal side asked
					m.add(First, special, fixed, ofNeighbours(from(PortOf(place)), solicitation))
					m.add(First, special, fixed, ofNeighbours(from(PortOf(place)), advertisement))
				}
			}
		}
	}
	if s.Datapath == config.Baton {
		m.add(First, matchAll, fixed, nil, apply(openflow.ActionOutput{Port: openflow.PortNormal}))
		return
	}
	m.add(First, matchAll, fixed, nil)
}

// gateways sends pings to the gateways to the controller, and drops other packets to them.
func (m *maker) gateways(f family) {
	fixed := NewCookie(Fixed, 0)
	for _, g := range m.state.Internal.Gateways {
		if a := f.gateway(g); a.IsValid() {
			ping := ofProtocol(ofType(nil, f.etherType), f.icmp).Uint(f.icmpType, uint64(f.echo)).Addr(f.dest, a)
			m.add(Rules, gateways+1, fixed, ping, toController(openflow.MaxLenNoBuffer))
			m.add(Rules, gateways, fixed, ofType(nil, f.etherType).Addr(f.dest, a))
		}
	}
}

// back makes the table for packets to links' addresses.
func (m *maker) back(f family) {
	fixed := NewCookie(Fixed, 0)
	if m.state.Datapath == config.Baton {
		m.add(Back, matchAll, fixed, ofType(nil, f.etherType), apply(openflow.ActionUnbind{Group: GroupIn},
			openflow.ActionOutput{Port: openflow.PortNormal}))
		return
	}
	if !m.stateless {
		return
	}
	// A select group keeps no bindings: every packet may be for the internal address, and the host's stack decides.
	m.add(Back, matchAll, fixed, ofType(nil, f.etherType), apply(setAddr(f.dest, f.internal), openflow.ActionGroup{Group: GroupIn}))
}

// The TCP flags that end a flow, as a match field has them.
const (
	flagFIN, flagSYN, flagRST, flagACK = 0x001, 0x002, 0x004, 0x010
)

// headerBytes is how much of such a packet the controller gets: Ethernet, IPv6 and TCP with options.
const headerBytes = 14 + 40 + 60

// ends makes the last table for the controller's flows: it reports a FIN or RST, and the SYN of a connection that reuses the ports. The
// packet then follows the written actions of its flow's entry. Switches without TCP flags, an extension of OpenFlow 1.3, refuse these
// entries: there flows end by the idle timeout.
func (m *maker) ends(families []family) {
	if !m.byController {
		return
	}
	cookie := NewCookie(EndOf, 0)
	for _, f := range families {
		tcp := func(m openflow.Match) openflow.Match { return ofProtocol(ofType(m, f.etherType), packet.ProtocolTCP) }
		for _, flag := range []uint64{flagFIN, flagRST} {
			m.add(Ends, known, cookie, tcp(nil).UintMasked(openflow.FieldTCPFlags, flag, flag), toController(headerBytes))
		}
		m.add(Ends, known, cookie, tcp(from(InsidePort)).UintMasked(openflow.FieldTCPFlags, flagSYN, flagSYN|flagACK|flagRST|flagFIN),
			toController(headerBytes))
	}
	m.add(Ends, matchAll, NewCookie(Fixed, 0), nil)
}

func setAddr(f openflow.Field, a netip.Addr) openflow.Action {
	return openflow.ActionSetField{Field: openflow.Match{}.Addr(f, a)}
}

func setMAC(f openflow.Field, a links.MAC) openflow.Action {
	return openflow.ActionSetField{Field: openflow.Match{}.MAC(f, packet.MAC(a))}
}

// tables sorts the result. A rule whose networks or services overlap yields the same entry several times; one of them stays.
func (m *maker) tables() Tables {
	var t Tables
	for _, g := range m.groups {
		t.Groups = append(t.Groups, g)
	}
	slices.SortFunc(t.Groups, func(a, b *openflow.GroupMod) int { return cmp.Compare(a.Group, b.Group) })
	slices.SortStableFunc(m.entries, order)
	t.Entries = slices.CompactFunc(m.entries, func(a, b *openflow.FlowMod) bool { return order(a, b) == 0 })
	return t
}

// order sorts entries for addition: targets of a jump before the jump, and higher priorities first.
func order(a, b *openflow.FlowMod) int {
	return cmp.Or(cmp.Compare(b.Table, a.Table), cmp.Compare(b.Priority, a.Priority), bytes.Compare(a.Match, b.Match))
}
