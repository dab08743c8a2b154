package pipeline

import (
	"baton/forwarder/match"
	"baton/openflow"
)

// has reports whether a table exists, and has not been left out of the pipeline by a controller.
func (p *Pipeline) has(id openflow.TableID) bool {
	return int(id) < len(p.tables) && !p.tables[id].left
}

// checkFlowMod checks a flow mod against the existing tables, groups and meters, and the fields that can be matched.
func (p *Pipeline) checkFlowMod(m *openflow.FlowMod) *openflow.Fault {
	deletes := m.Command == openflow.FlowDelete || m.Command == openflow.FlowDeleteStrict
	if !p.has(m.Table) && (m.Table != openflow.TableAll || !deletes) {
		return refuse(openflow.FlowModFailedBadTableID, "6.4", "table %v does not exist", m.Table)
	}
	if f := checkFields(m.Match); f != nil {
		return f
	}
	if deletes {
		return nil
	}
	return p.checkInstructions(m.Instructions)
}

// checkFields refuses fields that cannot be matched [7.2.3.3]. All of the specification's can.
func checkFields(m openflow.Match) *openflow.Fault {
	for t, err := range m.All() {
		if err != nil {
			return refuse(openflow.BadMatchBadLen, "7.2.3.2", "%v", err)
		}
		if t.Field.Class() != openflow.ClassBasic && !match.Known(t.Field) {
			return refuse(openflow.BadMatchBadField, "7.2.3.3", "field %v", t.Field)
		}
	}
	return nil
}

func (p *Pipeline) checkInstructions(list []openflow.Instruction) *openflow.Fault {
	for _, i := range list {
		var f *openflow.Fault
		switch i := i.(type) {
		case openflow.InstructionGotoTable:
			if !p.has(i.Table) {
				return refuse(openflow.BadInstructionBadTableID, "6.4", "goto table %v, which does not exist", i.Table)
			}
		case openflow.InstructionMeter:
			if p.meters[i.Meter] == nil {
				return refuse(openflow.MeterModFailedUnknownMeter, "6.4", "meter %d does not exist", i.Meter)
			}
		case openflow.InstructionWriteActions:
			f = p.checkActions(i.Actions)
		case openflow.InstructionApplyActions:
			f = p.checkActions(i.Actions)
		}
		if f != nil {
			return f
		}
	}
	return nil
}

// CheckActions checks the actions of a packet-out like those of a flow entry. It returns an [*openflow.Fault].
func (p *Pipeline) CheckActions(list []openflow.Action) error {
	if f := p.checkActions(list); f != nil {
		return f
	}
	return nil
}

// checkActions refuses a group that does not exist or has the wrong type, and a field that cannot be set. Actions on headers that no matching
// packet has are accepted, as the specification allows [6.4]: such packets are dropped, except that popping an absent VLAN tag is a no-op.
func (p *Pipeline) checkActions(list []openflow.Action) *openflow.Fault {
	for _, a := range list {
		switch a := a.(type) {
		case openflow.ActionGroup:
			if p.groups[a.Group] == nil {
				return refuse(openflow.BadActionBadOutGroup, "6.4", "group %d does not exist", a.Group)
			}
		case openflow.ActionBind:
			if f := p.checkBind(a.Group); f != nil {
				return f
			}
		case openflow.ActionUnbind:
			if f := p.checkUnbind(a.Group); f != nil {
				return f
			}
		case openflow.ActionSetField:
			for t := range a.Field.All() {
				if !Settable(t.Field) {
					return refuse(openflow.BadActionBadSetType, "7.2.5", "set-field of %v", t.Field)
				}
			}
		}
	}
	return nil
}

// Settable reports whether a set-field action may write the field: those of the specification except ipv6_exthdr, which describes headers
// instead of being in one [7.2.3.7].
func Settable(f openflow.Field) bool {
	return f.Settable() && match.Known(f) && f != openflow.FieldIPv6Exthdr
}
