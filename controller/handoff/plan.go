package handoff

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"baton/controller/sessions"
	"baton/controller/switches"
	"baton/openflow"
	"baton/packet"
	"baton/splice"
)

// cookie returns that of a handoff's entries.
func cookie(id uint32) uint64 { return switches.Cookie(switches.ModuleHandoff, id) }

// Hop is a switch on a path: packets come in at In and leave at Out.
type Hop struct {
	Switch  uint64
	In, Out openflow.PortNo
}

// Pair is a client's session and the leg that it is joined to, with their numbers from when the request was complete on both.
type Pair struct {
	Client, Leg splice.Leg
	// Router is where the request router is attached.
	Router sessions.Point
}

// Mod is a flow mod of a plan.
type Mod struct {
	Label  string // "flow mod 2"
	Switch uint64
	*openflow.FlowMod
}

// Plan is the flow mods of a handoff.
type Plan struct {
	Access, Core uint64
	Mods         []Mod
	ToClient     []openflow.Action // what the core does with the surrogate's packets
}

// ErrNoCore: no switch on the path translates sequence numbers.
var ErrNoCore = errors.New("no switch between client and surrogate has the actions that join sessions")

// Fit returns nil if the sessions can be joined: options that one end may send and the other has not agreed to are not removed.
func (p Pair) Fit() error {
	if p.Client.Timestamps != p.Leg.Timestamps {
		return errors.New("timestamps are used on one of the sessions alone")
	}
	if p.Client.SACK != p.Leg.SACK {
		return errors.New("SACK is used on one of the sessions alone")
	}
	return splice.Fit(p.Client, p.Leg)
}

// Timeouts of the entries, in seconds.
const (
	blockSeconds = 10 // what the router's sockets still say after their reset
	endSeconds   = 15 // after a client's FIN or RST, without packets of the surrogate
)

// Timeouts of a plan's entries, in seconds.
type Timeouts struct {
	Idle   uint16 // without packets
	Answer uint16 // of the copies of the surrogate's first packets
}

// Plan computes the flow mods for a path from the client to the surrogate. core says which switches have the actions; the one that is nearest to
// the surrogate translates.
//
// Switches between the access switch and the core send the session's packets by their destination, as they do all others. With pin, or if the
// core is not the surrogate's switch, they have entries for it.
func (p Pair) Plan(id uint32, path []Hop, core func(uint64) bool, limits Timeouts, pin bool) (*Plan, error) {
	at := len(path) - 1
	for at >= 0 && !core(path[at].Switch) {
		at--
	}
	if at < 0 {
		return nil, ErrNoCore
	}
	b := builder{Pair: p, s: splice.New(p.Client, p.Leg), id: id, limits: limits, path: path, core: at, pin: pin || at < len(path)-1}
	plan := &Plan{Access: path[0].Switch, Core: path[at].Switch}
	switch {
	case at == 0: // one switch is both
		plan.Mods = b.single()
	default:
		plan.Mods = b.double()
	}
	plan.ToClient = plan.Mods[1].Instructions[0].(openflow.InstructionApplyActions).Actions // flow mod 2
	if at < len(path)-1 {
		plan.Mods = append(plan.Mods, b.beyond()...)
	}
	plan.Mods = append(plan.Mods,
		Mod{"flow mod 6", p.Router.Switch, b.block(p.Router, b.back(b.s.ToServer.Match))},
		Mod{"flow mod 7", p.Router.Switch, b.block(p.Router, b.s.ToServer.Rewrite)})
	return plan, nil
}

// builder has what a plan is made of.
type builder struct {
	Pair
	s      splice.Splice
	id     uint32
	limits Timeouts
	path   []Hop
	core   int // index in path
	pin    bool
}

// direct is the direction as it is between the access switch and the core.
func (b *builder) direct() splice.Tuple { return splice.Tuple{Src: b.Client.Peer, Dst: b.Leg.Peer} }

func (*builder) back(t splice.Tuple) splice.Tuple { return splice.Tuple{Src: t.Dst, Dst: t.Src} }

// mark is the source MAC of the session's packets between the access switch and the core: locally administered, and no host's.
func mark(id uint32) packet.MAC {
	m := packet.MAC{0x02, 0xb7}
	binary.BigEndian.PutUint32(m[2:], id)
	return m
}

func (b *builder) add(match openflow.Match, actions ...openflow.Action) *openflow.FlowMod {
	m := entry(switches.PriorityHanded, b.id, match, actions...)
	m.Idle = b.limits.Idle
	return m
}

func entry(priority uint16, id uint32, match openflow.Match, actions ...openflow.Action) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Priority, m.Cookie, m.Match = priority, cookie(id), match
	if len(actions) > 0 {
		m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: actions}}
	}
	return m
}

func (b *builder) block(at sessions.Point, t splice.Tuple) *openflow.FlowMod {
	m := entry(switches.PriorityHanded, b.id, matches(openflow.Match{}.Port(at.Port), t))
	m.Idle = blockSeconds
	return m
}

// firstBlock is flow mod 1. It ends by itself if the controller does not come back to it.
func firstBlock(id uint32, at sessions.Point, t splice.Tuple) *openflow.FlowMod {
	m := entry(switches.PriorityHanded, id, matches(openflow.Match{}.Port(at.Port), t))
	m.Hard = blockSeconds
	return m
}

// single is the entries where the access switch is the core forwarder, too.
func (b *builder) single() []Mod {
	hop := b.path[0]
	there := b.add(matches(openflow.Match{}.Port(hop.In), b.s.ToServer.Match), append(whole(&b.s.ToServer), outputFrom(hop.In, hop.Out))...)
	here := append(whole(&b.s.ToClient), outputFrom(hop.Out, hop.In))
	answer := b.add(matches(openflow.Match{}.Port(hop.Out), b.s.ToClient.Match), here...)
	return []Mod{
		b.answer(hop.Switch, answer),
		{"flow mods 2 and 3", hop.Switch, told(answer)},
		{"flow mods 4 and 5", hop.Switch, told(there)},
		b.end(hop.Switch, there, packet.FIN),
		b.end(hop.Switch, there, packet.RST),
	}
}

// double is the entries of an access switch and a core forwarder.
func (b *builder) double() []Mod {
	access, core := b.path[0], b.path[b.core]
	m := mark(b.id)
	direct := b.direct()
	two := b.add(matches(openflow.Match{}.Port(core.Out), b.s.ToClient.Match), append(b.toClient(), output(core.In))...)
	three := append(rewrite(b.back(direct), b.s.ToClient.Rewrite, &b.s.ToClient.SrcMAC, nil), output(access.In))
	five := append(rewrite(b.s.ToServer.Match, direct, &m, &b.s.ToServer.DstMAC), output(access.Out))
	client := b.add(matches(openflow.Match{}.Port(access.In), b.s.ToServer.Match), five...)
	mods := []Mod{
		b.answer(core.Switch, two),
		{"flow mod 2", core.Switch, told(two)},
		{"flow mod 4", core.Switch, told(b.add(b.marked(direct), append(b.toSurrogate(), output(core.Out))...))},
		{"flow mod 3", access.Switch, b.add(b.marked(b.back(direct)), three...)},
		{"flow mod 5", access.Switch, client},
		b.end(access.Switch, client, packet.FIN),
		b.end(access.Switch, client, packet.RST),
	}
	if !b.pin {
		return mods
	}
	for _, hop := range b.path[1:b.core] {
		mods = append(mods,
			Mod{"path to the core", hop.Switch, b.add(b.marked(direct), output(hop.Out))},
			Mod{"path to the client", hop.Switch, b.add(b.marked(b.back(direct)), output(hop.In))})
	}
	return mods
}

// beyond is the entries of the switches between the core and the surrogate, where the session looks like the router's.
func (b *builder) beyond() (mods []Mod) {
	for _, hop := range b.path[b.core+1:] {
		mods = append(mods,
			Mod{"path to the surrogate", hop.Switch, b.add(matches(openflow.Match{}.Port(hop.In), b.s.ToServer.Rewrite), output(hop.Out))},
			Mod{"path to the core", hop.Switch, b.add(matches(openflow.Match{}.Port(hop.Out), b.s.ToClient.Match), output(hop.In))})
	}
	return mods
}

// marked matches a direction between the access switch and the core, by whatever path.
func (b *builder) marked(t splice.Tuple) openflow.Match {
	return matches(openflow.Match{}.MAC(openflow.FieldEthSrc, mark(b.id)), t)
}

// answer is flow mod 2 with a copy for the controller, for the surrogate's first packets.
func (b *builder) answer(at uint64, two *openflow.FlowMod) Mod {
	a := copied(two, switches.PriorityAnswer)
	a.Idle, a.Hard = 0, b.limits.Answer
	return Mod{"flow mod 2, with a copy of the first answer", at, a}
}

// end is flow mod 5 with a copy for the controller, for the client's FIN or RST. The surrogate gets it, too: only it can tell whether a RST is its client's.
func (*builder) end(at uint64, five *openflow.FlowMod, flag packet.Flags) Mod {
	e := copied(five, switches.PriorityEnd)
	e.Flags = 0
	e.Match = slices.Clone(five.Match).UintMasked(openflow.FieldTCPFlags, uint64(flag), uint64(flag))
	return Mod{fmt.Sprintf("flow mod 5, with a copy of the client's %v", flag), at, e}
}

// copied is an entry above another one that sends packets to the controller, too, as they came.
func copied(of *openflow.FlowMod, priority uint16) *openflow.FlowMod {
	m := *of
	m.Priority = priority
	actions := of.Instructions[0].(openflow.InstructionApplyActions).Actions
	m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: append([]openflow.Action{output(openflow.PortController)}, actions...)}}
	return &m
}

// ending is flow mod 2 as it is when the client has closed the session: its end is that of the session.
func (p *Plan) ending(idle uint16) *openflow.FlowMod {
	m := *p.Mods[1].FlowMod
	m.Idle = min(idle, endSeconds)
	return &m
}

// told makes the switch report the end of an entry.
func told(m *openflow.FlowMod) *openflow.FlowMod {
	m.Flags = openflow.FlowSendFlowRem
	return m
}

// toSurrogate is flow mod 4 but for the output: what the client says becomes what the router would have said to the surrogate.
func (b *builder) toSurrogate() []openflow.Action {
	d := &b.s.ToServer
	return append(rewrite(b.direct(), d.Rewrite, &d.SrcMAC, nil), translate(d)...)
}

// toClient is flow mod 2 but for the output: what the surrogate says becomes what the router would have said, but for its address.
func (b *builder) toClient() []openflow.Action {
	d := &b.s.ToClient
	var src *packet.MAC
	if b.core > 0 {
		m := mark(b.id)
		src = &m
	}
	return append(rewrite(d.Match, b.back(b.direct()), src, &d.DstMAC), translate(d)...)
}

// whole is a direction where one switch translates it.
func whole(d *splice.Direction) []openflow.Action {
	return append(rewrite(d.Match, d.Rewrite, &d.SrcMAC, &d.DstMAC), translate(d)...)
}

// rewrite replaces what differs of two tuples, and MACs.
func rewrite(from, to splice.Tuple, src, dst *packet.MAC) (list []openflow.Action) {
	set := func(m openflow.Match) { list = append(list, openflow.ActionSetField{Field: m}) }
	address := func(f4, f6 openflow.Field, a netip.Addr) {
		if a.Is4() {
			set(openflow.Match{}.Addr(f4, a))
		} else {
			set(openflow.Match{}.Addr(f6, a))
		}
	}
	if from.Src.Addr() != to.Src.Addr() {
		address(openflow.FieldIPv4Src, openflow.FieldIPv6Src, to.Src.Addr())
	}
	if from.Dst.Addr() != to.Dst.Addr() {
		address(openflow.FieldIPv4Dst, openflow.FieldIPv6Dst, to.Dst.Addr())
	}
	if from.Src.Port() != to.Src.Port() {
		set(openflow.Match{}.Uint(openflow.FieldTCPSrc, uint64(to.Src.Port())))
	}
	if from.Dst.Port() != to.Dst.Port() {
		set(openflow.Match{}.Uint(openflow.FieldTCPDst, uint64(to.Dst.Port())))
	}
	if src != nil {
		set(openflow.Match{}.MAC(openflow.FieldEthSrc, *src))
	}
	if dst != nil {
		set(openflow.Match{}.MAC(openflow.FieldEthDst, *dst))
	}
	return list
}

// translate is equations 1 to 4 in a direction, where both requests are in the numbers already, and the same for timestamps and windows.
func translate(d *splice.Direction) []openflow.Action {
	list := []openflow.Action{openflow.ActionIncSeq{By: d.DeltaSeq}, openflow.ActionIncAck{By: d.DeltaAck}}
	if d.SACK == splice.Keep {
		list = append(list, openflow.ActionIncSACK{By: d.DeltaAck})
	}
	if d.Timestamps == splice.Keep {
		list = append(list, openflow.ActionIncTSval{By: d.DeltaTSval}, openflow.ActionIncTSecr{By: d.DeltaTSecr})
	}
	if d.Window.Sender != d.Window.Receiver {
		list = append(list, openflow.ActionRescaleWindow{Sender: d.Window.Sender, Advertised: d.Window.Receiver})
	}
	return list
}

// matches adds the packets of a direction to a match. Fields of the frame come first.
func matches(m openflow.Match, t splice.Tuple) openflow.Match {
	m = family(m, t.Src.Addr()).Uint(openflow.FieldIPProto, uint64(packet.ProtocolTCP))
	m = to(from(m, t.Src.Addr()), t.Dst.Addr())
	return m.Uint(openflow.FieldTCPSrc, uint64(t.Src.Port())).Uint(openflow.FieldTCPDst, uint64(t.Dst.Port()))
}

func family(m openflow.Match, a netip.Addr) openflow.Match {
	if a.Is4() {
		return m.Uint(openflow.FieldEthType, uint64(packet.EtherTypeIPv4))
	}
	return m.Uint(openflow.FieldEthType, uint64(packet.EtherTypeIPv6))
}

func from(m openflow.Match, a netip.Addr) openflow.Match {
	if a.Is4() {
		return m.Addr(openflow.FieldIPv4Src, a)
	}
	return m.Addr(openflow.FieldIPv6Src, a)
}

func to(m openflow.Match, a netip.Addr) openflow.Match {
	if a.Is4() {
		return m.Addr(openflow.FieldIPv4Dst, a)
	}
	return m.Addr(openflow.FieldIPv6Dst, a)
}

func output(port openflow.PortNo) openflow.Action {
	return openflow.ActionOutput{Port: port, MaxLen: openflow.MaxLenNoBuffer}
}

// outputFrom is output where both ends may be behind one port.
func outputFrom(in, out openflow.PortNo) openflow.Action {
	if in == out {
		return output(openflow.PortInPort)
	}
	return output(out)
}

// remove deletes the entries of a handoff.
func remove(id uint32) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowDelete)
	m.Table, m.Cookie, m.CookieMask = openflow.TableAll, cookie(id), ^uint64(0)
	return m
}

// strictly deletes one entry.
func strictly(e *openflow.FlowMod) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowDeleteStrict)
	m.Priority, m.Match = e.Priority, e.Match
	return m
}

// bySwitch groups mods.
func bySwitch(mods []Mod) map[uint64][]openflow.Message {
	all := map[uint64][]openflow.Message{}
	for _, m := range mods {
		all[m.Switch] = append(all[m.Switch], m.FlowMod)
	}
	return all
}

func (m Mod) String() string { return fmt.Sprintf("%s at %016x", m.Label, m.Switch) }

func tupleOf(w sessions.Way) splice.Tuple { return splice.Tuple{Src: w.From, Dst: w.To} }
