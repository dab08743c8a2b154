package model

import (
	"cmp"
	"slices"

	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// Switch is the switch that packets are run through.
type Switch struct {
	Pipeline *pipeline.Pipeline
	Ports    []Port
	// Choose selects one of the live buckets of a select group; nil selects the first.
	Choose func(g *pipeline.Group, live []int) int
	// DropFragments drops IP fragments on input.
	DropFragments bool
	// NormalStack makes port NORMAL pass packets to the host's stack.
	NormalStack bool
	// Bindings is the binding table; nil: each flow is new.
	Bindings *Bindings
	// Find looks up a packet in a table with many flow entries; nil compares each.
	Find func(t openflow.TableID, packet *match.Key) *pipeline.Entry
	// EveryBucket makes select groups send a copy to each live bucket. bind does so for new flows, which it then does not add to Bindings.
	EveryBucket bool
	// Report is called with each step, if not nil.
	Report func(Step)
}

// Port is a port of the switch.
type Port struct {
	No      openflow.PortNo
	Config  openflow.PortConfig
	There   bool // its interface exists
	Live    bool
	NoFlood bool
}

// Result is the fate of a packet; lists are in order of execution.
type Result struct {
	Sent    []Sent
	Upcalls []Upcall
	Met     []uint64 // IDs of the matched flow entries
	Stack   []byte   // passed to the host's stack; nil: nothing
}

// Sent is a frame sent by a port.
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

// noCookie is the cookie of a controller's packet [7.4.1].
const noCookie = ^uint64(0)

// state is a packet in processing.
type state struct {
	frame    []byte
	in       openflow.PortNo
	metadata uint64
	tunnel   uint64
	set      []openflow.Action // the action set
	cookie   uint64
	table    openflow.TableID
	miss     bool // the current actions belong to a table-miss entry
	depth    int  // copies of copies
}

func (p *state) clone() *state {
	c := *p
	c.frame, c.set, c.miss = slices.Clone(p.frame), slices.Clone(p.set), false
	c.depth++
	return &c
}

// run is the processing of one packet and its copies.
type run struct {
	*Switch
	Result
}

// Receive processes a frame that comes in by a port.
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

// PacketOut processes a controller's frame.
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

// tables looks the packet up in the tables, from the first [5.1].
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

// lookup finds the matching entry with the highest priority.
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

// list executes an action list, and reports whether the packet still exists.
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

// decrement decrements a TTL. An expired packet ends.
func (r *run) decrement(p *state, a openflow.Action) bool {
	_, label := a.(openflow.ActionDecMPLSTTL)
	ttl, ok := p.ttl(label)
	if !ok || ttl <= 1 {
		return false
	}
	if label {
		return p.labelTTL(func(uint8) uint8 { return ttl - 1 })
	}
	v := look(p.frame)
	return p.networkTTL(v.l3, v.ipv4, v.ipv6, ttl-1)
}

// write writes an action to the set, replacing another of its kind [5.10].
func (p *state) write(a openflow.Action) {
	p.set = slices.DeleteFunc(slices.Clone(p.set), func(old openflow.Action) bool { return rank(old) == rank(a) })
	p.set = append(p.set, a)
}

// inOrder returns an action set in execution order. A group replaces an output.
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
	rankField   = 100 // plus the field's number
	rankHandoff = 200 // plus the subtype
	rankGroup   = 300
	rankOutput  = 301
)

// rank is the position of an action in the execution of a set [5.10]; actions with equal rank replace each other. Where the specification
// leaves the order open, tags precede labels, labels service tags, and fields are in the order of their numbers.
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
