package switches

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"

	"baton/openflow"
)

// Difference returns the flow mods that make the entries of a switch the wanted ones: the removals first, then what is missing or different. An
// entry is known by table, priority and match. Packets that meet an entry which stays are not disturbed. Entries that keep names stay, too.
func Difference(have []openflow.FlowStats, want []*openflow.FlowMod, keep func(openflow.FlowStats) bool) []openflow.Message {
	wanted := map[string]*openflow.FlowMod{}
	for _, m := range want {
		wanted[identity(m.Table, m.Priority, m.Match)] = m
	}
	var gone, changed []openflow.Message
	same := map[string]bool{}
	for _, e := range have {
		id := identity(e.Table, e.Priority, e.Match)
		m := wanted[id]
		switch {
		case m == nil && (keep == nil || !keep(e)):
			gone = append(gone, Removal(e))
		case m != nil && e.Cookie == m.Cookie && e.Idle == m.Idle && e.Hard == m.Hard &&
			SameInstructions(e.Instructions, m.Instructions):
			same[id] = true
		}
	}
	for _, m := range want {
		if !same[identity(m.Table, m.Priority, m.Match)] {
			changed = append(changed, m)
		}
	}
	return append(gone, changed...)
}

// Removal is the flow mod that removes one entry, if it still has its cookie.
func Removal(e openflow.FlowStats) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowDeleteStrict)
	m.Table, m.Priority, m.Match, m.Cookie, m.CookieMask = e.Table, e.Priority, e.Match, e.Cookie, 1<<64-1
	return m
}

// identity is the same for matches whose fields stand in another order.
func identity(table openflow.TableID, priority uint16, match openflow.Match) string {
	var fields [][]byte
	for t, err := range match.All() {
		if err != nil {
			return string(match)
		}
		fields = append(fields, openflow.Match{}.Bytes(t.Field, t.Value, t.Mask))
	}
	slices.SortFunc(fields, bytes.Compare)
	return string(bytes.Join(append([][]byte{{byte(table), byte(priority >> 8), byte(priority)}}, fields...), nil))
}

// SameInstructions compares instructions by their values. Their order does not matter, and a list without actions is
// none.
func SameInstructions(a, b []openflow.Instruction) bool {
	return reflect.DeepEqual(normal(a), normal(b))
}

func normal(list []openflow.Instruction) []openflow.Instruction {
	list = slices.DeleteFunc(slices.Clone(list), func(i openflow.Instruction) bool {
		a, ok := i.(openflow.InstructionApplyActions)
		return ok && len(a.Actions) == 0
	})
	slices.SortFunc(list, func(a, b openflow.Instruction) int { return cmp.Compare(a.Type(), b.Type()) })
	if len(list) == 0 {
		return nil
	}
	return list
}
