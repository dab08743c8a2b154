package tables

import (
	"fmt"
	"strings"

	"baton/openflow"
)

// Text formats a message that changes tables in one line, similar to ovs-ofctl.
func Text(m openflow.Message) string {
	switch m := m.(type) {
	case *openflow.FlowMod:
		return flowText(m)
	case *openflow.GroupMod:
		return groupText(m)
	}
	return m.Type().String()
}

func flowText(m *openflow.FlowMod) string {
	parts := []string{fmt.Sprintf("table=%v,priority=%d", m.Table, m.Priority)}
	if m.Command == openflow.FlowDelete {
		parts = []string{fmt.Sprintf("table=%v", m.Table)}
	}
	if m.Cookie != 0 {
		parts = append(parts, fmt.Sprintf("cookie=%#x", m.Cookie))
	}
	if m.Idle != 0 {
		parts = append(parts, fmt.Sprintf("idle_timeout=%d", m.Idle))
	}
	if len(m.Match) > 0 {
		parts = append(parts, m.Match.String())
	}
	text := strings.ToLower(m.Command.String()) + " " + strings.Join(parts, ",")
	if m.Command == openflow.FlowDelete || m.Command == openflow.FlowDeleteStrict {
		return text
	}
	var do []string
	for _, i := range m.Instructions {
		switch i := i.(type) {
		case openflow.InstructionApplyActions:
			do = append(do, actionsText(i.Actions))
		case openflow.InstructionWriteActions:
			do = append(do, "write_actions("+actionsText(i.Actions)+")")
		case openflow.InstructionWriteMetadata:
			do = append(do, fmt.Sprintf("write_metadata:%#x", i.Metadata))
		case openflow.InstructionGotoTable:
			do = append(do, fmt.Sprintf("goto_table:%v", i.Table))
		default:
			do = append(do, i.Type().String())
		}
	}
	if len(do) == 0 {
		do = []string{"drop"}
	}
	return text + " actions=" + strings.Join(do, ",")
}

func groupText(m *openflow.GroupMod) string {
	text := fmt.Sprintf("group %s group_id=%d,type=%s", strings.ToLower(m.Command.String()), m.Group, strings.ToLower(m.Kind.String()))
	for _, b := range m.Buckets {
		text += ",bucket="
		if m.Kind == openflow.GroupTypeSelect {
			text += fmt.Sprintf("weight:%d,watch_port:%v,", b.Weight, b.WatchPort)
		}
		text += "actions=" + actionsText(b.Actions)
	}
	return text
}

func actionsText(list []openflow.Action) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, actionText(a))
	}
	return strings.Join(parts, ",")
}

func actionText(a openflow.Action) string {
	switch a := a.(type) {
	case openflow.ActionOutput:
		if a.Port == openflow.PortController {
			return fmt.Sprintf("output:%v:%d", a.Port, a.MaxLen)
		}
		return fmt.Sprintf("output:%v", a.Port)
	case openflow.ActionGroup:
		return fmt.Sprintf("group:%d", a.Group)
	case openflow.ActionSetField:
		return "set_field:" + a.Field.String()
	case openflow.ActionClampMSS:
		return fmt.Sprintf("clamp_mss:%d", a.MSS)
	case openflow.ActionBind:
		return fmt.Sprintf("bind:%v:%d:%d", a.Method, a.Group, a.Affinity)
	case openflow.ActionUnbind:
		return fmt.Sprintf("unbind:%d", a.Group)
	}
	return strings.ToLower(a.Type().String())
}
