package model

import (
	"cmp"
	"slices"

	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// Switch is what a packet comes to.
type Switch struct {
	Pipeline *pipeline.Pipeline
	Ports    []Port
	// Choose selects one of the buckets of a select group; nil takes the first. The list has those that live.
	Choose func(g *pipeline.Group, live []int) int
	// InvalidTTL asks for packets whose TTL runs out.
	InvalidTTL bool
	// DropFragments has IP fragments dropped as they come.
	DropFragments bool
	// NormalStack has the port NORMAL leave packets to the host's stack.
	NormalStack bool
	// Bindings is the memory of flows; nil: each one is new.
	Bindings *Bindings
	// Find looks a packet up in a table, where there are too many flow entries to compare each; nil compares each.
	Find func(t openflow.TableID, packet *match.Key) *pipeline.Entry
	// EveryBucket has select groups give a copy to each bucket that lives, and so has it bind for a new flow, which is not remembered.
	EveryBucket bool
	// Report is called with each step, nil if nobody wants to know.
	Report func(Step)
}

// Port is a port as packets meet it.
type Port struct {
	No      openflow.PortNo
	Config  openflow.PortConfig
	There   bool // its interface is
	Live    bool
	NoFlood bool
}

// Result is what became of a packet, in the order in which it was done.
type Result struct {
	Sent   []Sent
	Upcall []Upcall
	Met    []uint64 // the IDs of flow entries
	Stack  []byte   // what the host's stack has, nil: nothing
}

// Sent is a frame that left by a port.
type Sent struct {
	Port  openflow.PortNo
	Frame []byte
}

// Upcall is a frame for the controllers.
type Upcall struct {
	Reason           openflow.PacketInReason
	Table            openflow.TableID
	Cookie           uint64
	Metadata, Tunnel uint64
	InPort           openflow.PortNo
	MaxLen           uint16
	Frame            []byte
}

// noCookie is that of a packet that came from a controller [7.4.1].
const noCookie = ^uint64(0)

// state is a packet on its way.
type state struct {
	frame    []byte
	in       openflow.PortNo
	metadata uint64
	tunnel   uint64
	set      []openflow.Action // the action set
	cookie   uint64
	table    openflow.TableID
	miss     bool // the actions at hand are those that a table-miss entry applies
	depth    int  // of copies
}

func (p *state) clone() *state {
	c := *p
	c.frame, c.set, c.miss = slices.Clone(p.frame), slices.Clone(p.set), false
	c.depth++
	return &c
}

// run is one packet that came and the ones that were made of it.
type run struct {
	*Switch
	Result
}

// Receive says what becomes of a frame that comes in by a port.
func (s *Switch) Receive(in openflow.PortNo, frame []byte) Result {
	r := &run{Switch: s}
	port := s.port(in)
	if port == nil || !port.There || port.Config&(openflow.PortConfigPortDown|openflow.PortConfigNoRecv) != 0 {
		return r.Result
	}
	if s.DropFragments && look(frame).fragment {
		return r.Result
	}
	r.tables(&state{frame: slices.Clone(frame), in: in})
	return r.Result
}

// PacketOut says what becomes of a controller's frame.
func (s *Switch) PacketOut(in openflow.PortNo, frame []byte, actions []openflow.Action) Result {
	r := &run{Switch: s}
	r.list(&state{frame: slices.Clone(frame), in: in, cookie: noCookie}, actions)
	return r.Result
}

func (s *Switch) port(no openflow.PortNo) *Port {
	for i := range s.Ports {
		if s.Ports[i].No == no {
			return &s.Ports[i]
		}
	}
	return nil
}

// tables takes the packet through the tables from the first [5.1].
func (r *run) tables(p *state) {
	for table, more := openflow.TableID(0), true; more; {
		e := r.lookup(p, table)
		r.report(p, Step{Kind: StepTable, Table: table, Entry: e})
		if e == nil {
			return
		}
		r.Met = append(r.Met, e.ID)
		p.cookie, p.table, more = e.Cookie, table, false
		for _, i := range e.Instructions {
			if i, ok := i.(openflow.InstructionApplyActions); ok {
				p.miss = e.TableMiss()
				if !r.list(p, i.Actions) {
					return
				}
				p.miss = false
			}
		}
		for _, i := range e.Instructions {
			if _, ok := i.(openflow.InstructionClearActions); ok {
				p.set = nil
			}
		}
		for _, i := range e.Instructions {
			switch i := i.(type) {
			case openflow.InstructionWriteActions:
				for _, a := range i.Actions {
					p.write(a)
				}
			case openflow.InstructionWriteMetadata:
				p.metadata = p.metadata&^i.Mask | i.Metadata&i.Mask
			case openflow.InstructionGotoTable:
				table, more = i.Table, true
			}
		}
	}
	if len(p.set) > 0 {
		r.report(p, Step{Kind: StepSet})
	}
	r.list(p, inOrder(p.set))
}

// lookup finds the entry of the highest priority that the packet matches.
func (r *run) lookup(p *state, table openflow.TableID) *pipeline.Entry {
	if r.Find != nil {
		return r.Find(table, p.key())
	}
	var best *pipeline.Entry
	for e := range r.Pipeline.Entries() {
		if e.Table == table && (best == nil || e.Priority > best.Priority) && p.matches(e.Fields) {
			best = e
		}
	}
	return best
}

// list carries out actions as they stand, and reports whether the packet is still there.
func (r *run) list(p *state, list []openflow.Action) bool {
	for _, a := range list {
		r.report(p, Step{Kind: StepAction, Action: a})
		switch a := a.(type) {
		case openflow.ActionOutput:
			r.output(p, a)
		case openflow.ActionGroup:
			r.group(p, r.Pipeline.Group(a.Group))
		case openflow.ActionBind:
			r.bind(p, a)
			return false
		case openflow.ActionUnbind:
			if r.unbind(p, a) {
				return false
			}
		case openflow.ActionDecNWTTL, openflow.ActionDecMPLSTTL:
			if !r.decrement(p, a) {
				r.report(p, Step{Kind: StepEnded, Action: a})
				return false
			}
		default:
			if !p.change(a) {
				r.report(p, Step{Kind: StepEnded, Action: a})
				return false
			}
		}
	}
	return true
}

// decrement counts a TTL down. A packet whose TTL runs out ends.
func (r *run) decrement(p *state, a openflow.Action) bool {
	_, label := a.(openflow.ActionDecMPLSTTL)
	ttl, ok := p.ttl(label)
	if ok && ttl <= 1 && r.InvalidTTL {
		r.upcall(p, openflow.ReasonInvalidTTL, 0xffff)
	}
	if !ok || ttl <= 1 {
		return false
	}
	if label {
		return p.labelTTL(func(uint8) uint8 { return ttl - 1 })
	}
	v := look(p.frame)
	return p.networkTTL(v.l3, v.ipv4, v.ipv6, ttl-1)
}

// write puts an action into the set, in the place of another of its kind [5.10].
func (p *state) write(a openflow.Action) {
	p.set = slices.DeleteFunc(slices.Clone(p.set), func(old openflow.Action) bool { return rank(old) == rank(a) })
	p.set = append(p.set, a)
}

// inOrder is an action set in the order of its execution. A group takes the place of an output.
func inOrder(set []openflow.Action) []openflow.Action {
	kept := (&state{})
	for _, a := range set {
		kept.write(a)
	}
	list := kept.set
	if slices.ContainsFunc(list, func(a openflow.Action) bool { return rank(a) == rankGroup }) {
		list = slices.DeleteFunc(list, func(a openflow.Action) bool { return rank(a) == rankOutput })
	}
	slices.SortStableFunc(list, func(a, b openflow.Action) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

const (
	rankField   = 100 // and the field's number
	rankHandoff = 200 // and which
	rankGroup   = 300
	rankOutput  = 301
)

// rank is when an action of a set is carried out [5.10]. Two of the same rank are of the same kind. Where the specification leaves the
// order open, tags come before labels before service tags, and fields in the order of their numbers.
func rank(a openflow.Action) int {
	switch a := a.(type) {
	case openflow.ActionCopyTTLIn:
		return 1
	case openflow.ActionPopVLAN:
		return 2
	case openflow.ActionPopMPLS:
		return 3
	case openflow.ActionPopPBB:
		return 4
	case openflow.ActionPushMPLS:
		return 5
	case openflow.ActionPushPBB:
		return 6
	case openflow.ActionPushVLAN:
		return 7
	case openflow.ActionCopyTTLOut:
		return 8
	case openflow.ActionDecMPLSTTL:
		return 9
	case openflow.ActionDecNWTTL:
		return 10
	case openflow.ActionSetMPLSTTL:
		return 11
	case openflow.ActionSetNWTTL:
		return 12
	case openflow.ActionSetField:
		for t := range a.Field.All() {
			return rankField + int(t.Field.Number())
		}
	case openflow.ActionIncSeq:
		return rankHandoff
	case openflow.ActionIncAck:
		return rankHandoff + 1
	case openflow.ActionIncSACK:
		return rankHandoff + 2
	case openflow.ActionIncTSval:
		return rankHandoff + 3
	case openflow.ActionIncTSecr:
		return rankHandoff + 4
	case openflow.ActionRescaleWindow:
		return rankHandoff + 5
	case openflow.ActionClampMSS:
		return rankHandoff + 6
	case openflow.ActionStripOption:
		return rankHandoff + 7
	case openflow.ActionSetQueue:
		return rankGroup - 1
	case openflow.ActionGroup:
		return rankGroup
	}
	return rankOutput
}
