package controller

import (
	"net/netip"
	"time"

	"baton/balance/tables"
	"baton/openflow"
	"baton/packet"
)

// machine handles packets and flow entries that the switch reports. Callers pass the time.
type machine struct {
	state      tables.State
	limit      int // most flows
	flows      map[tables.Flow]*flow
	roundRobin map[tables.Set]roundRobin
	recent     map[server]visit
	given      []uint64 // flows, by the place of their link
}

// flow is a flow with its link.
type flow struct {
	place     int
	phase     phase
	fins      uint8         // bits of the sides that have sent a FIN
	installed time.Duration // when its entries were installed
}

// phase is the state of a flow.
type phase uint8

const (
	begun  phase = iota // no reply seen yet
	going               // replies were seen
	closed              // a RST, or a FIN from both sides
)

// The sides of a connection, as bits.
const (
	host   = 1
	remote = 2
)

// server is the destination of flows with affinity.
type server struct {
	set     tables.Set
	address netip.Addr
}

// visit is the last new flow to a server.
type visit struct {
	place int
	at    time.Duration
}

// Idle timeouts of a flow's entries, in seconds: RFC 5382 (TCP, and its handshake), RFC 4787 (UDP), RFC 5508 (ICMP).
const (
	idleTCP       = 2*3600 + 4*60
	idleHandshake = 240
	idleClosed    = 10
	idleUDP       = 300
	idleICMP      = 60
)

func newMachine(limit int) *machine {
	return &machine{limit: limit, flows: map[tables.Flow]*flow{}, roundRobin: map[tables.Set]roundRobin{}, recent: map[server]visit{}}
}

// Verdict is the result for a packet-in.
type Verdict string

// The verdicts.
const (
	Answered   Verdict = "answered"   // as a gateway
	Given      Verdict = "given"      // a new flow, which got a link
	Again      Verdict = "again"      // a flow that already has a link
	Ended      Verdict = "ended"      // the end of a connection was recorded
	Ignored    Verdict = "ignored"    // not for the controller
	DropLink   Verdict = "drop_link"  // no link is usable
	DropFlow   Verdict = "drop_flow"  // of an unknown flow, and not its first packet
	DropFull   Verdict = "drop_full"  // the limit of flows is reached
	DropRule   Verdict = "drop_rule"  // its rule is gone
	DropOther  Verdict = "drop_other" // not from the internal address
	DropShort  Verdict = "drop_short" // malformed
	DropQueue  Verdict = "drop_queue" // the queue is full
	DropSwitch Verdict = "drop_busy"  // the switch reads too slowly
)

// result of a step, with the messages to send in this order.
type result struct {
	verdict Verdict
	send    []openflow.Message
	flow    tables.Flow // of Given and Again
}

// packetIn handles a packet-in.
func (m *machine) packetIn(now time.Duration, p *openflow.PacketIn) result {
	port, _ := p.Match.Get(openflow.FieldInPort)
	c := tables.Cookie(p.Cookie)
	if c.Ours() && c.Kind() == tables.EndOf {
		return m.end(now, openflow.PortNo(port.Uint()), p.Data)
	}
	if port.Uint() != tables.InsidePort || !c.Ours() {
		return result{verdict: Ignored}
	}
	if c.Kind() == tables.Fixed {
		reply := answer(m.state.Internal, p.Data)
		if reply == nil {
			return result{verdict: Ignored}
		}
		return result{verdict: Answered, send: []openflow.Message{packetOut(openflow.PortController, reply, openflow.ActionOutput{Port: tables.InsidePort})}}
	}
	return m.choose(now, c, p.Data)
}

// choose is the paper's algorithm 1, extended beyond TCP: the first packet of a flow selects the link, and installs entries for the rest of
// the flow and its replies.
func (m *machine) choose(now time.Duration, c tables.Cookie, data []byte) result {
	f, flags, err := readFlow(data)
	if err != nil {
		return result{verdict: DropShort}
	}
	if f.Internal.Addr() != m.state.Internal.Address(f.V6()) {
		return result{verdict: DropOther}
	}
	first := f.Protocol != packet.ProtocolTCP || flags&(packet.SYN|packet.ACK|packet.RST|packet.FIN) == packet.SYN
	if known := m.flows[f]; known != nil && (known.phase != closed || !first) {
		changed := known.note(host, flags)
		return m.out(now, Again, f, known, changed, data)
	}
	if !first {
		return result{verdict: DropFlow}
	}
	set, rule, ok := m.state.RuleFor(c)
	if !ok {
		return result{verdict: DropRule}
	}
	options := m.state.Options(set, f.V6())
	if len(options) == 0 {
		return result{verdict: DropLink}
	}
	if len(m.flows) >= m.limit {
		return result{verdict: DropFull}
	}
	chosen := &flow{place: m.link(now, server{set, f.Remote.Addr()}, rule.Affinity, options)}
	m.flows[f] = chosen
	m.given[chosen.place]++
	return m.out(now, Given, f, chosen, true, data)
}

// link selects the link of a new flow.
func (m *machine) link(now time.Duration, to server, affinity time.Duration, options []tables.Option) int {
	if affinity > 0 {
		if v, ok := m.recent[to]; ok && now-v.at <= affinity && usable(options, v.place) {
			m.recent[to] = visit{v.place, now}
			return v.place
		}
	}
	if m.roundRobin[to.set] == nil {
		m.roundRobin[to.set] = roundRobin{}
	}
	place := m.roundRobin[to.set].next(options)
	if affinity > 0 {
		m.remember(now, to, place, affinity)
	}
	return place
}

// remember records the link of a server's flows. At the limit, expired servers are dropped first.
func (m *machine) remember(now time.Duration, to server, place int, affinity time.Duration) {
	if len(m.recent) >= m.limit {
		for s, v := range m.recent {
			if now-v.at > affinity {
				delete(m.recent, s)
			}
		}
		if len(m.recent) >= m.limit {
			clear(m.recent)
		}
	}
	m.recent[to] = visit{place, now}
}

func usable(options []tables.Option, place int) bool {
	for _, o := range options {
		if o.Place == place {
			return true
		}
	}
	return false
}

// settling is how long packets may still arrive that a switch looked up before it had a flow's entries: Open vSwitch updates its cache some
// time after a flow mod.
const settling = time.Second

// out sends a flow to its link, starting with this packet. The packet itself bypasses the tables: otherwise the first packet of a
// connection would be reported as one after an end. The entries of a known flow are sent again if they have changed or may have expired.
func (m *machine) out(now time.Duration, v Verdict, f tables.Flow, to *flow, changed bool, data []byte) result {
	var send []openflow.Message
	if changed || now-to.installed > settling {
		out, back := m.entries(f, to)
		send, to.installed = []openflow.Message{back, out}, now
	}
	return result{v, append(send, packetOut(tables.InsidePort, data, openflow.ActionGroup{Group: tables.LinkGroup(to.place, f.V6())})), f}
}

// entries returns a flow's current entries.
func (m *machine) entries(f tables.Flow, to *flow) (out, back *openflow.FlowMod) {
	long, short := uint16(idleTCP), uint16(idleTCP)
	switch {
	case f.Protocol == packet.ProtocolICMP || f.Protocol == packet.ProtocolICMPv6:
		long, short = idleICMP, idleICMP
	case f.Protocol != packet.ProtocolTCP:
		long, short = idleUDP, idleUDP
	case to.phase == begun:
		short = idleHandshake
	case to.phase == closed:
		long, short = idleClosed, idleClosed
	}
	out, _ = m.state.FlowEntries(f, to.place, long)
	_, back = m.state.FlowEntries(f, to.place, short)
	return out, back
}

func packetOut(from openflow.PortNo, data []byte, do openflow.Action) *openflow.PacketOut {
	return &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: from, Actions: []openflow.Action{do}, Data: data}
}

// end handles a copy of a packet that begins or ends a connection; the packet itself has left.
func (m *machine) end(now time.Duration, port openflow.PortNo, data []byte) result {
	f, flags, err := readFlow(data)
	if err != nil {
		return result{verdict: DropShort}
	}
	side := uint8(host)
	if port != tables.InsidePort {
		side = remote
		f.Internal, f.Remote = netip.AddrPortFrom(m.state.Internal.Address(f.V6()), f.Remote.Port()), f.Internal
	}
	known := m.flows[f]
	if known == nil || side == remote && port != tables.PortOf(known.place) {
		return result{verdict: Ignored}
	}
	if !known.note(side, flags) {
		return result{verdict: Ignored}
	}
	out, back := m.entries(f, known)
	known.installed = now
	return result{verdict: Ended, send: []openflow.Message{back, out}}
}

// note updates a connection's phase by a packet's flags, and reports whether its entries change.
func (f *flow) note(side uint8, flags packet.Flags) bool {
	was := f.phase
	switch {
	case flags.Has(packet.RST):
		f.phase = closed
	case flags.Has(packet.FIN):
		f.fins |= side
		if f.fins == host|remote {
			f.phase = closed
		}
	case flags.Has(packet.SYN) && side == host && was == closed: // the ports are reused
		f.phase, f.fins = begun, 0
	}
	return f.phase != was
}

// removed handles the idle timeout of a flow's entry for replies. If the first packet got a reply, the flow continues with a longer
// timeout.
func (m *machine) removed(r *openflow.FlowRemoved) []openflow.Message {
	if r.Reason == openflow.RemovedDelete {
		return nil // by ourselves
	}
	f, place, ok := m.state.ReadFlow(&openflow.FlowMod{Table: r.Table, Cookie: r.Cookie, Match: r.Match})
	if !ok || m.flows[f] == nil || m.flows[f].place != place {
		return nil
	}
	known := m.flows[f]
	if r.Reason == openflow.RemovedIdleTimeout && f.Protocol == packet.ProtocolTCP && known.phase == begun && r.Packets > 0 {
		known.phase = going
		_, back := m.entries(f, known)
		return []openflow.Message{back}
	}
	out, _ := m.entries(f, known)
	out.Command, out.Instructions = openflow.FlowDeleteStrict, nil
	delete(m.flows, f)
	return []openflow.Message{out}
}

// set changes the state. The messages remove flows that cannot continue: their link is not usable any more, or it or the host has another
// address.
func (m *machine) set(s tables.State) []openflow.Message {
	old := m.state
	m.state = s
	m.given = append(m.given, make([]uint64, max(len(s.Links)-len(m.given), 0))...)
	gone := map[[2]int]bool{} // place and IP version
	var send []openflow.Message
	for place, l := range old.Links {
		for version, v6 := range []bool{false, true} {
			was := l.Family(v6)
			if !l.Usable || !was.Complete() {
				continue
			}
			stays := place < len(s.Links) && s.Links[place].Usable && s.Links[place].Family(v6).Complete() &&
				s.Links[place].Family(v6).Address == was.Address && old.Internal.Address(v6) == s.Internal.Address(v6)
			if !stays {
				gone[[2]int{place, version}] = true
				send = append(send, tables.FlowsOf(place, v6))
			}
		}
	}
	for f, known := range m.flows {
		version := 0
		if f.V6() {
			version = 1
		}
		if gone[[2]int{known.place, version}] {
			delete(m.flows, f)
		}
	}
	for to, v := range m.recent {
		if v.place >= len(s.Links) {
			delete(m.recent, to)
		}
	}
	return send
}

// adopt replaces all flows by those of a switch. It returns the messages that remove stale ones.
func (m *machine) adopt(entries []*openflow.FlowMod) []openflow.Message {
	kept, stale := m.state.Adopt(entries)
	was := m.flows
	m.flows = make(map[tables.Flow]*flow, len(kept))
	for f, place := range kept {
		if known := was[f]; known != nil && known.place == place {
			m.flows[f] = known
			continue
		}
		m.flows[f] = &flow{place: place}
	}
	var send []openflow.Message
	for _, e := range stale {
		send = append(send, e)
	}
	return send
}
