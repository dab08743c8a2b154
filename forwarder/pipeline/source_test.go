package pipeline_test

import (
	"math/rand/v2"

	"baton/openflow"
)

// source makes the random messages of a test.
type source struct{ *rand.Rand }

func (r source) actions() []openflow.Action {
	var list []openflow.Action
	for range r.IntN(3) {
		if r.IntN(2) == 0 {
			list = append(list, out(openflow.PortNo(r.IntN(3)+1)))
		} else {
			list = append(list, into(openflow.GroupID(r.IntN(4)+1)))
		}
	}
	return list
}

func (r source) flowMod() (*openflow.FlowMod, packets) {
	commands := []openflow.FlowModCommand{add, add, add, add, modify, modifyStrict, deletes, deleteStrict}
	f := flow(commands[r.IntN(len(commands))])
	var set packets
	f.Match, set = anyMatch(r.Rand)
	f.Table = openflow.TableID(r.IntN(4)) // one too many
	f.Priority = uint16(r.IntN(2))
	f.Cookie, f.CookieMask = r.Uint64N(4), r.Uint64N(4)&r.Uint64N(4)
	f.Flags = openflow.FlowModFlags(r.IntN(8))
	if r.IntN(4) == 0 {
		f.Idle, f.Hard = uint16(r.IntN(20)), uint16(r.IntN(20))
	}
	if f.Command >= deletes {
		if r.IntN(6) == 0 {
			f.Table = openflow.TableAll
		}
		if r.IntN(2) == 0 {
			f.OutPort = openflow.PortNo(r.IntN(3) + 1)
		} else if r.IntN(2) == 0 {
			f.OutGroup = openflow.GroupID(r.IntN(4) + 1)
		}
	}
	if r.IntN(2) == 0 {
		f.Instructions = append(f.Instructions, openflow.InstructionApplyActions{Actions: r.actions()})
	} else if r.IntN(2) == 0 {
		list := append(r.actions(), unbind(openflow.GroupID(r.IntN(4)+1)))
		if r.IntN(2) == 0 {
			list = append(list, bind(openflow.GroupID(r.IntN(4)+1)))
			f.Instructions = append(f.Instructions, openflow.InstructionApplyActions{Actions: list})
			return f, set // nothing may come behind it
		}
		f.Instructions = append(f.Instructions, openflow.InstructionApplyActions{Actions: list})
	}
	if r.IntN(4) == 0 {
		f.Instructions = append(f.Instructions, openflow.InstructionWriteActions{Actions: r.actions()})
	}
	if r.IntN(6) == 0 {
		f.Instructions = append(f.Instructions, openflow.InstructionMeter{Meter: openflow.MeterID(r.IntN(3) + 1)})
	}
	if r.IntN(4) == 0 && f.Table < 3 {
		f.Instructions = append(f.Instructions, openflow.InstructionGotoTable{Table: f.Table + 1})
	}
	return f, set
}

func (r source) groupMod() *openflow.GroupMod {
	g := &openflow.GroupMod{Command: openflow.GroupCommand(r.IntN(3)), Group: openflow.GroupID(r.IntN(4) + 1)}
	switch {
	case g.Command == openflow.GroupDelete:
	case r.IntN(3) == 0:
		g.Kind, g.Buckets = openflow.GroupTypeIndirect, []openflow.Bucket{bucket(r.actions()...)}
	case r.IntN(2) == 0:
		g.Kind = openflow.GroupTypeSelect
		for i := range openflow.PortNo(r.IntN(3)) {
			b := link(i + 1)
			b.Actions = r.actions()
			g.Buckets = append(g.Buckets, b)
		}
	default:
		for range r.IntN(3) {
			g.Buckets = append(g.Buckets, bucket(r.actions()...))
		}
	}
	if g.Command == openflow.GroupDelete && r.IntN(4) == 0 {
		g.Group = openflow.GroupAll
	}
	return g
}

func (r source) meterMod() *openflow.MeterMod {
	return &openflow.MeterMod{Command: 2 * openflow.MeterCommand(r.IntN(2)), Meter: openflow.MeterID(r.IntN(3) + 1)}
}
