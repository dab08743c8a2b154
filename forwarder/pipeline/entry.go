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
	// ID identifies the counters. It is kept while table, priority and match are: by a modification, and by an entry that replaces an
	// identical one. IDs are never reused.
	ID       uint64
	Table    openflow.TableID
	Priority uint16
	// Fields is the match as received, Match its compiled form.
	Fields       openflow.Match
	Match        match.Match
	Cookie       uint64
	Flags        openflow.FlowModFlags
	Idle, Hard   uint16 // seconds, 0: none
	Instructions []openflow.Instruction
	// Created is when it was added; modifications keep it [6.4].
	Created time.Time
}

// TableMiss reports whether the entry is its table's table-miss entry [5.4].
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

// ownActions copies actions. Of those that a switch accepts, only set-field aliases its message.
func ownActions(list []openflow.Action) []openflow.Action {
	own := slices.Clone(list)
	for n, a := range own {
		if a, ok := a.(openflow.ActionSetField); ok {
			own[n] = openflow.ActionSetField{Field: bytes.Clone(a.Field)}
		}
	}
	return own
}

// actionsOf calls f for each list of actions in the instructions until it returns false, and reports whether it never did.
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

// countActions returns the number of actions in the instructions.
func countActions(list []openflow.Instruction) int {
	n := 0
	actionsOf(list, func(actions []openflow.Action) bool { n += len(actions); return true })
	return n
}

// outputsTo reports whether an action of the entry itself, not of a group, outputs to the port [6.4].
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

// groups calls f for each action of the entry that refers to a group.
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

// next returns the table of the goto instruction, if any.
func (e *Entry) next() (openflow.TableID, bool) {
	for _, i := range e.Instructions {
		if g, ok := i.(openflow.InstructionGotoTable); ok {
			return g.Table, true
		}
	}
	return 0, false
}

// meter returns the entry's meter, if any.
func (e *Entry) meter() (openflow.MeterID, bool) {
	for _, i := range e.Instructions {
		if m, ok := i.(openflow.InstructionMeter); ok {
			return m.Meter, true
		}
	}
	return 0, false
}

func byID(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) }
