package pipeline

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// Entry is a flow entry [5.2].
type Entry struct {
	// ID is what counters are kept by. It stays while table, priority and match do: a modification has it, and so has an entry
	// that is added in place of an identical one. Once removed it does not come again.
	ID       uint64
	Table    openflow.TableID
	Priority uint16
	// Fields is the match as it was sent, Match what it asks.
	Fields       openflow.Match
	Match        match.Match
	Cookie       uint64
	Flags        openflow.FlowModFlags
	Idle, Hard   uint16 // seconds, 0 for none
	Instructions []openflow.Instruction
	// Created is when it was added; a modification does not change it [6.4].
	Created time.Time
}

// TableMiss reports whether the entry is what its table does with the packets of no other one [5.4].
func (e *Entry) TableMiss() bool { return e.Priority == 0 && e.Match == match.Match{} }

// ownInstructions copies instructions that alias a message.
func ownInstructions(list []openflow.Instruction) []openflow.Instruction {
	own := slices.Clone(list)
	for n, i := range own {
		switch i := i.(type) {
		case openflow.InstructionWriteActions:
			own[n] = openflow.InstructionWriteActions{Actions: ownActions(i.Actions)}
		case openflow.InstructionApplyActions:
			own[n] = openflow.InstructionApplyActions{Actions: ownActions(i.Actions)}
		}
	}
	return own
}

// ownActions copies actions. Of those that a switch accepts, only a set-field aliases its message.
func ownActions(list []openflow.Action) []openflow.Action {
	own := slices.Clone(list)
	for n, a := range own {
		if a, ok := a.(openflow.ActionSetField); ok {
			own[n] = openflow.ActionSetField{Field: bytes.Clone(a.Field)}
		}
	}
	return own
}

// actionsOf calls f for each list of actions of the instructions until it says false, and reports whether it never did.
func actionsOf(list []openflow.Instruction, f func([]openflow.Action) bool) bool {
	for _, i := range list {
		var actions []openflow.Action
		switch i := i.(type) {
		case openflow.InstructionWriteActions:
			actions = i.Actions
		case openflow.InstructionApplyActions:
			actions = i.Actions
		}
		if !f(actions) {
			return false
		}
	}
	return true
}

// countActions is how many actions the instructions have.
func countActions(list []openflow.Instruction) int {
	n := 0
	actionsOf(list, func(actions []openflow.Action) bool { n += len(actions); return true })
	return n
}

// outputsTo reports whether an action of the entry itself, not of a group, has the port as its destination [6.4].
func (e *Entry) outputsTo(port openflow.PortNo) bool {
	return !actionsOf(e.Instructions, func(list []openflow.Action) bool {
		for _, a := range list {
			if o, ok := a.(openflow.ActionOutput); ok && o.Port == port {
				return false
			}
		}
		return true
	})
}

// groups calls f for each action of the entry that gives packets to a group.
func (e *Entry) groups(f func(openflow.GroupID)) {
	actionsOf(e.Instructions, func(list []openflow.Action) bool {
		for _, a := range list {
			switch a := a.(type) {
			case openflow.ActionGroup:
				f(a.Group)
			case openflow.ActionBind:
				f(a.Group)
			case openflow.ActionUnbind:
				f(a.Group)
			}
		}
		return true
	})
}

func (e *Entry) usesGroup(group openflow.GroupID) bool {
	found := false
	e.groups(func(g openflow.GroupID) { found = found || g == group })
	return found
}

// next returns the table that packets of the entry go on to, if any.
func (e *Entry) next() (openflow.TableID, bool) {
	for _, i := range e.Instructions {
		if g, ok := i.(openflow.InstructionGotoTable); ok {
			return g.Table, true
		}
	}
	return 0, false
}

// meter returns the meter that packets of the entry pass, if any.
func (e *Entry) meter() (openflow.MeterID, bool) {
	for _, i := range e.Instructions {
		if m, ok := i.(openflow.InstructionMeter); ok {
			return m.Meter, true
		}
	}
	return 0, false
}

func byID(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) }
