package openflow_test

import (
	"encoding/base64"
	"fmt"

	"baton/openflow"
)

// object is a JSON object; class is one as os-ken writes it, with the name of its class around it.
type object map[string]any

func class(name string, fields object) object { return object{name: fields} }

// describe is the message as os-ken would write it in JSON, without lengths. It is nil for what os-ken has no class for.
func describe(m openflow.Message) object {
	switch m := m.(type) {
	case *openflow.Hello:
		var elements []any
		for _, e := range m.Elements {
			versions, _ := (&openflow.Hello{Elements: []openflow.HelloElement{e}}).Versions()
			list := []any{}
			for _, v := range versions {
				list = append(list, v)
			}
			elements = append(elements, class("OFPHelloElemVersionBitmap", object{"type": e.Kind, "versions": list}))
		}
		return class("OFPHello", object{"elements": listOf(elements)})
	case *openflow.Error:
		if m.Code.Type() == openflow.ErrorExperimenter {
			return class("OFPErrorMsg", object{
				"type": m.Code.Type(), "code": nil, "data": data(m.Data), "exp_type": m.Code.Number(), "experimenter": m.Experimenter,
			})
		}
		return class("OFPErrorMsg", object{"type": m.Code.Type(), "code": m.Code.Number(), "data": data(m.Data)})
	case *openflow.EchoRequest:
		return class("OFPEchoRequest", object{"data": data(m.Data)})
	case *openflow.EchoReply:
		return class("OFPEchoReply", object{"data": data(m.Data)})
	case *openflow.Experimenter:
		return class("OFPExperimenter", object{"experimenter": m.ID, "exp_type": m.Kind, "data": data(m.Data)})
	case *openflow.FeaturesRequest:
		return class("OFPFeaturesRequest", object{})
	case *openflow.FeaturesReply:
		return class("OFPSwitchFeatures", object{
			"datapath_id": m.DatapathID, "n_buffers": m.Buffers, "n_tables": m.Tables, "auxiliary_id": m.Auxiliary,
			"capabilities": m.Capabilities,
		})
	case *openflow.GetConfigRequest:
		return class("OFPGetConfigRequest", object{})
	case *openflow.GetConfigReply:
		return class("OFPGetConfigReply", object{"flags": m.Flags, "miss_send_len": m.MissSendLen})
	case *openflow.SetConfig:
		return class("OFPSetConfig", object{"flags": m.Flags, "miss_send_len": m.MissSendLen})
	case *openflow.PacketIn:
		return class("OFPPacketIn", object{
			"buffer_id": m.Buffer, "total_len": m.TotalLen, "reason": m.Reason, "table_id": m.Table, "cookie": m.Cookie,
			"match": match(m.Match), "data": data(m.Data),
		})
	case *openflow.FlowRemoved:
		return class("OFPFlowRemoved", object{
			"cookie": m.Cookie, "priority": m.Priority, "reason": m.Reason, "table_id": m.Table, "duration_sec": m.Duration.Sec,
			"duration_nsec": m.Duration.Nsec, "idle_timeout": m.Idle, "hard_timeout": m.Hard, "packet_count": m.Packets,
			"byte_count": m.Octets, "match": match(m.Match),
		})
	case *openflow.PortStatus:
		return class("OFPPortStatus", object{"reason": m.Reason, "desc": port(m.Port)})
	case *openflow.PacketOut:
		return class("OFPPacketOut", object{
			"buffer_id": m.Buffer, "in_port": m.InPort, "actions": list(m.Actions, action), "data": data(m.Data),
		})
	case *openflow.FlowMod:
		return class("OFPFlowMod", object{
			"cookie": m.Cookie, "cookie_mask": m.CookieMask, "table_id": m.Table, "command": m.Command, "idle_timeout": m.Idle,
			"hard_timeout": m.Hard, "priority": m.Priority, "buffer_id": m.Buffer, "out_port": m.OutPort, "out_group": m.OutGroup,
			"flags": m.Flags, "match": match(m.Match), "instructions": list(m.Instructions, instruction),
		})
	case *openflow.GroupMod:
		return class("OFPGroupMod", object{
			"command": m.Command, "type": m.Kind, "group_id": m.Group, "buckets": list(m.Buckets, bucket),
		})
	case *openflow.PortMod:
		return class("OFPPortMod", object{
			"port_no": m.Port, "hw_addr": m.MAC.String(), "config": m.Config, "mask": m.Mask, "advertise": m.Advertise,
		})
	case *openflow.TableMod:
		return class("OFPTableMod", object{"table_id": m.Table, "config": m.Config})
	case *openflow.BarrierRequest:
		return class("OFPBarrierRequest", object{})
	case *openflow.BarrierReply:
		return class("OFPBarrierReply", object{})
	case *openflow.QueueGetConfigRequest:
		return class("OFPQueueGetConfigRequest", object{"port": m.Port})
	case *openflow.QueueGetConfigReply:
		return class("OFPQueueGetConfigReply", object{"port": m.Port, "queues": list(m.Queues, queue)})
	case *openflow.RoleRequest:
		return class("OFPRoleRequest", object{"role": m.Role, "generation_id": m.Generation})
	case *openflow.RoleReply:
		return class("OFPRoleReply", object{"role": m.Role, "generation_id": m.Generation})
	case *openflow.GetAsyncRequest:
		return class("OFPGetAsyncRequest", object{})
	case *openflow.GetAsyncReply:
		return class("OFPGetAsyncReply", async(m.Async))
	case *openflow.SetAsync:
		return class("OFPSetAsync", async(m.Async))
	case *openflow.MeterMod:
		return class("OFPMeterMod", object{
			"command": m.Command, "flags": m.Flags, "meter_id": m.Meter, "bands": list(m.Bands, band),
		})
	case *openflow.MultipartRequest:
		return describeRequest(m)
	case *openflow.MultipartReply:
		return describeReply(m)
	}
	return nil
}

func list[T any](in []T, f func(T) object) []any {
	out := []any{}
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

func listOf(in []any) []any {
	if in == nil {
		return []any{}
	}
	return in
}

func data(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func async(a openflow.Async) object {
	return object{"packet_in_mask": a.PacketIn[:], "port_status_mask": a.PortStatus[:], "flow_removed_mask": a.FlowRemoved[:]}
}

func match(m openflow.Match) object {
	fields := []any{}
	for t := range m.All() {
		fields = append(fields, tlv(t))
	}
	return class("OFPMatch", object{"type": 1, "oxm_fields": fields})
}

func tlv(t openflow.TLV) object {
	if !t.Field.Known() {
		return nil
	}
	fields := object{"field": t.Field.String(), "value": tlvValue(t.Field, t.Value), "mask": nil}
	if t.Masked {
		fields["mask"] = tlvValue(t.Field, t.Mask)
	}
	return class("OXMTlv", fields)
}

func tlvValue(f openflow.Field, b []byte) any {
	t := openflow.TLV{Field: f, Value: b}
	switch {
	case len(b) == 6:
		return t.MAC().String()
	case len(b) == 16 || f == openflow.FieldIPv4Src || f == openflow.FieldIPv4Dst || f == openflow.FieldARPSPA ||
		f == openflow.FieldARPTPA:
		return t.Addr().String()
	}
	return t.Uint()
}

func action(a openflow.Action) object {
	switch a := a.(type) {
	case openflow.ActionOutput:
		return class("OFPActionOutput", object{"type": a.Type(), "port": a.Port, "max_len": a.MaxLen})
	case openflow.ActionGroup:
		return class("OFPActionGroup", object{"type": a.Type(), "group_id": a.Group})
	case openflow.ActionSetQueue:
		return class("OFPActionSetQueue", object{"type": a.Type(), "queue_id": a.Queue})
	case openflow.ActionSetMPLSTTL:
		return class("OFPActionSetMplsTtl", object{"type": a.Type(), "mpls_ttl": a.TTL})
	case openflow.ActionDecMPLSTTL:
		return class("OFPActionDecMplsTtl", object{"type": a.Type()})
	case openflow.ActionSetNWTTL:
		return class("OFPActionSetNwTtl", object{"type": a.Type(), "nw_ttl": a.TTL})
	case openflow.ActionDecNWTTL:
		return class("OFPActionDecNwTtl", object{"type": a.Type()})
	case openflow.ActionCopyTTLOut:
		return class("OFPActionCopyTtlOut", object{"type": a.Type()})
	case openflow.ActionCopyTTLIn:
		return class("OFPActionCopyTtlIn", object{"type": a.Type()})
	case openflow.ActionPushVLAN:
		return class("OFPActionPushVlan", object{"type": a.Type(), "ethertype": a.EtherType})
	case openflow.ActionPopVLAN:
		return class("OFPActionPopVlan", object{"type": a.Type()})
	case openflow.ActionPushMPLS:
		return class("OFPActionPushMpls", object{"type": a.Type(), "ethertype": a.EtherType})
	case openflow.ActionPopMPLS:
		return class("OFPActionPopMpls", object{"type": a.Type(), "ethertype": a.EtherType})
	case openflow.ActionPushPBB:
		return class("OFPActionPushPbb", object{"type": a.Type(), "ethertype": a.EtherType})
	case openflow.ActionPopPBB:
		return class("OFPActionPopPbb", object{"type": a.Type()})
	case openflow.ActionSetField:
		for t := range a.Field.All() {
			return class("OFPActionSetField", object{"type": a.Type(), "field": tlv(t)})
		}
	case openflow.ActionExperimenter:
		if a.Experimenter == openflow.NiciraExperimenter {
			return nil
		}
		return class("OFPActionExperimenterUnknown", object{
			"type": a.Type(), "experimenter": a.Experimenter, "data": data(a.Data),
		})
	}
	b := handoffBytes(a)
	return class("OFPActionExperimenterUnknown", object{
		"type": 0xffff, "experimenter": openflow.BatonExperimenter, "data": data(b),
	})
}

func handoffBytes(a openflow.Action) []byte {
	b, err := openflow.Append(nil, 0, &openflow.PacketOut{Actions: []openflow.Action{a}})
	if err != nil {
		panic(err)
	}
	return b[24+8:]
}

func instruction(i openflow.Instruction) object {
	switch i := i.(type) {
	case openflow.InstructionGotoTable:
		return class("OFPInstructionGotoTable", object{"type": i.Type(), "table_id": i.Table})
	case openflow.InstructionWriteMetadata:
		return class("OFPInstructionWriteMetadata", object{
			"type": i.Type(), "metadata": i.Metadata, "metadata_mask": i.Mask,
		})
	case openflow.InstructionWriteActions:
		return class("OFPInstructionActions", object{"type": i.Type(), "actions": list(i.Actions, action)})
	case openflow.InstructionApplyActions:
		return class("OFPInstructionActions", object{"type": i.Type(), "actions": list(i.Actions, action)})
	case openflow.InstructionClearActions:
		return class("OFPInstructionActions", object{"type": i.Type(), "actions": []any{}})
	case openflow.InstructionMeter:
		return class("OFPInstructionMeter", object{"type": i.Type(), "meter_id": i.Meter})
	}
	panic(fmt.Sprintf("describe %T", i))
}
