package forwarder

import (
	"net/netip"

	"baton/openflow"
	"baton/packet"
)

// The entries' priorities.
const (
	lowest  = iota
	passing // whatever comes
	Session // single sessions
)

// Entry is a flow mod that adds an entry with an action list.
func Entry(priority uint16, match openflow.Match, do ...openflow.Action) openflow.Message {
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Priority, m.Match = priority, match
	if len(do) > 0 {
		m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: do}}
	}
	return m
}

// Plain passes on by the port alone.
func (t *Topology) Plain() []openflow.Message {
	var all []openflow.Message
	for _, w := range t.Ways() {
		all = append(all,
			Entry(passing, openflow.Match{}.Port(w.InPort), openflow.ActionOutput{Port: w.OutPort}),
			Entry(passing, openflow.Match{}.Port(w.OutPort), openflow.ActionOutput{Port: w.InPort}))
	}
	return all
}

// nobody is an entry that no frame matches. Open vSwitch 3.5 does not complete the checksums of frames where all entries match a port alone.
func nobody() openflow.Message {
	return Entry(Session, openflow.Match{}.MAC(openflow.FieldEthDst, packet.MAC{2, 0, 0, 0xff, 0xff, 0xff}))
}

// Routes pass on by address, with new link addresses and a lower TTL, as a router does.
func (t *Topology) Routes() []openflow.Message {
	route := func(prefix string, port openflow.PortNo, from, to packet.MAC) openflow.Message {
		return Entry(passing, openflow.Match{}.Uint(openflow.FieldEthType, uint64(packet.EtherTypeIPv4)).
			Prefix(openflow.FieldIPv4Dst, netip.MustParsePrefix(prefix)),
			openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthSrc, from)},
			openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthDst, to)},
			openflow.ActionDecNWTTL{}, openflow.ActionOutput{Port: port})
	}
	var all []openflow.Message
	for _, w := range t.Ways() {
		in, out := packet.MAC(w.In.MAC), packet.MAC(w.Out.MAC)
		all = append(all, route(w.Source+"/32", w.InPort, in, packet.MAC(w.Near.MAC)),
			route(w.Target+"/32", w.OutPort, out, packet.MAC(w.Far.MAC)), route(w.Sink+"/32", w.OutPort, out, sinkMAC))
	}
	return all
}

// udp is the match of a flow of UDP.
func udp(from, to netip.Addr, source, target uint16) openflow.Match {
	return openflow.Match{}.Uint(openflow.FieldEthType, uint64(packet.EtherTypeIPv4)).Uint(openflow.FieldIPProto, udpProtocol).
		Addr(openflow.FieldIPv4Src, from).Addr(openflow.FieldIPv4Dst, to).
		Uint(openflow.FieldUDPSrc, uint64(source)).Uint(openflow.FieldUDPDst, uint64(target))
}

// sessions are entries for n flows of UDP between other hosts, by both addresses and ports.
func sessions(n int) []openflow.Message {
	all := make([]openflow.Message, n)
	to := netip.MustParseAddr("10.9.0.1")
	for i := range all {
		from := netip.AddrFrom4([4]byte{10, 8, byte(i >> 8), byte(i)})
		all[i] = Entry(Session, udp(from, to, uint16(1024+i>>16), 53), openflow.ActionOutput{Port: 1})
	}
	return all
}

// crowd are n entries that no packet here matches, and that every packet must be looked up behind: flows between other hosts, in
// equal parts with eight lengths of their prefixes.
func crowd(n int) []openflow.Message {
	all := make([]openflow.Message, n)
	for i := range all {
		number, shorter := i/8, i%8
		to := netip.AddrFrom4([4]byte{172, byte(16 + number>>15), byte(number >> 7), byte(number << 1)})
		match := openflow.Match{}.Uint(openflow.FieldEthType, uint64(packet.EtherTypeIPv4)).
			Uint(openflow.FieldIPProto, udpProtocol).
			Prefix(openflow.FieldIPv4Dst, netip.PrefixFrom(to, 32-shorter)).
			Uint(openflow.FieldUDPSrc, uint64(1024+number)).Uint(openflow.FieldUDPDst, 53)
		all[i] = Entry(Session, match, openflow.ActionOutput{Port: 1})
	}
	return all
}
