package trace

import (
	"fmt"
	"strings"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// entryText describes a flow entry without its apply-actions, which are traced one by one.
func entryText(e *pipeline.Entry) string {
	if e == nil {
		return "no flow entry: the packet is dropped"
	}
	parts := []string{fmt.Sprintf("priority=%d", e.Priority)}
	if m := e.Fields.String(); m != "" {
		parts = append(parts, m)
	}
	if e.Cookie != 0 {
		parts = append(parts, fmt.Sprintf("cookie=%#x", e.Cookie))
	}
	text := strings.Join(parts, ",")
	var more []string
	for _, i := range e.Instructions {
		switch i := i.(type) {
		case openflow.InstructionMeter:
			more = append(more, fmt.Sprintf("meter:%d (not simulated)", i.Meter))
		case openflow.InstructionClearActions:
			more = append(more, "clear_actions")
		case openflow.InstructionWriteActions:
			more = append(more, "write_actions("+actionsText(i.Actions)+")")
		case openflow.InstructionWriteMetadata:
			more = append(more, fmt.Sprintf("write_metadata:%#x/%#x", i.Metadata, i.Mask))
		case openflow.InstructionGotoTable:
			more = append(more, fmt.Sprintf("goto_table:%v", i.Table))
		}
	}
	switch {
	case len(e.Instructions) == 0:
		return text + ": drop"
	case len(more) == 0:
		return text
	}
	return text + ": " + strings.Join(more, " ")
}

func actionsText(list []openflow.Action) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, actionText(a))
	}
	return strings.Join(parts, ",")
}

// actionText is an action in ovs-ofctl's syntax, where that has one.
func actionText(a openflow.Action) string {
	switch a := a.(type) {
	case openflow.ActionOutput:
		if a.Port == openflow.PortController {
			return fmt.Sprintf("output:%v:%d", a.Port, a.MaxLen)
		}
		return fmt.Sprintf("output:%v", a.Port)
	case openflow.ActionGroup:
		return fmt.Sprintf("group:%d", a.Group)
	case openflow.ActionBind:
		return bindText(a, strings.ToLower(strings.ReplaceAll(a.Method.String(), "_", "-")))
	case openflow.ActionUnbind:
		return fmt.Sprintf("unbind:%d", a.Group)
	case openflow.ActionSetQueue:
		return fmt.Sprintf("set_queue:%d", a.Queue)
	case openflow.ActionSetField:
		return "set_field:" + a.Field.String()
	case openflow.ActionPushVLAN:
		return fmt.Sprintf("push_vlan:%#x", a.EtherType)
	case openflow.ActionPushMPLS:
		return fmt.Sprintf("push_mpls:%#x", a.EtherType)
	case openflow.ActionPopMPLS:
		return fmt.Sprintf("pop_mpls:%#x", a.EtherType)
	case openflow.ActionPushPBB:
		return fmt.Sprintf("push_pbb:%#x", a.EtherType)
	case openflow.ActionSetMPLSTTL:
		return fmt.Sprintf("set_mpls_ttl:%d", a.TTL)
	case openflow.ActionSetNWTTL:
		return fmt.Sprintf("set_nw_ttl:%d", a.TTL)
	case openflow.ActionIncSeq:
		return fmt.Sprintf("inc_seq:%d", a.By)
	case openflow.ActionIncAck:
		return fmt.Sprintf("inc_ack:%d", a.By)
	case openflow.ActionIncSACK:
		return fmt.Sprintf("inc_sack:%d", a.By)
	case openflow.ActionIncTSval:
		return fmt.Sprintf("inc_tsval:%d", a.By)
	case openflow.ActionIncTSecr:
		return fmt.Sprintf("inc_tsecr:%d", a.By)
	case openflow.ActionRescaleWindow:
		return fmt.Sprintf("rescale_window:%d:%d", a.Sender, a.Advertised)
	case openflow.ActionClampMSS:
		return fmt.Sprintf("clamp_mss:%d", a.MSS)
	case openflow.ActionStripOption:
		return fmt.Sprintf("strip_option:%d", a.Kind)
	}
	return strings.ToLower(a.Type().String()) // actions without an argument
}
