package openflow_test

import (
	"errors"
	"net/netip"
	"testing"

	. "baton/openflow"
	"baton/packet"
)

// tcp4 is a match that names TCP over IPv4.
func tcp4() Match { return Match{}.Uint(FieldEthType, 0x0800).Uint(FieldIPProto, 6) }

// flow is an added flow entry with these instructions.
func flow(m Match, list ...Instruction) *FlowMod {
	f := NewFlowMod(FlowAdd)
	f.Match, f.Instructions = m, list
	return f
}

// acts is a flow entry with these actions.
func acts(list ...Action) *FlowMod { return flow(nil, InstructionApplyActions{list}) }

func sets(m Match) *FlowMod { return acts(ActionSetField{m}) }

func with[M Message](m M, change func(M)) M {
	change(m)
	return m
}

// TestCheck has, for every code that Check can say, a message that draws it, and beside it one as near as can be that does not
// (code 0).
func TestCheck(t *testing.T) {
	for _, tt := range checks {
		t.Run(tt.name, func(t *testing.T) { wantCode(t, Check(tt.m), tt.want) })
	}
}

// deletion is a flow mod that deletes, changed.
func deletion(change func(*FlowMod)) *FlowMod { return with(NewFlowMod(FlowDelete), change) }

var (
	any4    = netip.MustParseAddr("192.0.2.1")
	minimal = make([]byte, 14) // a frame
)

var checks = []struct {
	name string
	m    Message
	want Code
}{
	{"unknown type", &Unknown{Kind: 30}, BadRequestBadType},
	{"what a switch says", &PacketIn{}, BadRequestBadType},
	{"a reply", &BarrierReply{}, BadRequestBadType},
	{"barrier", &BarrierRequest{}, 0},
	{"hello", NewHello(), 0},
	{"unknown experimenter", &Experimenter{ID: 1}, BadRequestBadExperimenter},
	{"unknown type of a known experimenter", &Experimenter{ID: NiciraExperimenter, Kind: 10}, BadRequestBadExpType},
	{"unknown multipart", &MultipartRequest{Body: MultipartUnknown{Kind: 14}}, BadRequestBadMultipart},
	{"experimenter's multipart", &MultipartRequest{Body: MultipartExperimenterBody{}}, BadRequestBadExperimenter},
	{"flow query", &MultipartRequest{Body: FlowStatsRequest{NewFlowQuery()}}, 0},
	{"flow query, prerequisite", &MultipartRequest{Body: FlowStatsRequest{FlowQuery{Match: Match{}.Uint(FieldTCPSrc, 1)}}},
		BadMatchBadPrereq},
	{"aggregate, prerequisite", &MultipartRequest{Body: AggregateRequest{FlowQuery{Match: Match{}.Uint(FieldTCPSrc, 1)}}},
		BadMatchBadPrereq},
	{"table property", &MultipartRequest{Body: TableFeaturesBody{{Properties: []TableProp{{Kind: 9}}}}}, TableFeaturesFailedBadType},
	{"configuration", &SetConfig{Config{Flags: FragReasm}}, 0},
	{"configuration flags", &SetConfig{Config{Flags: 4}}, SwitchConfigFailedBadFlags},
	{"role", &RoleRequest{Role: RoleSlave}, 0},
	{"role 4", &RoleRequest{Role: 4}, RoleRequestFailedBadRole},
	{"queues of all ports", &QueueGetConfigRequest{PortAny}, 0},
	{"queues of a reserved port", &QueueGetConfigRequest{PortFlood}, QueueOpFailedBadPort},
	{"table config, deprecated bits", &TableMod{Config: 3}, 0},
	{"table config", &TableMod{Config: 4}, TableModFailedBadConfig},
	{"port mod", &PortMod{Port: 1, Mask: PortConfigNoFwd}, 0},
	{"port mod of a reserved port", &PortMod{Port: PortAll}, PortModFailedBadPort},
	{"port mod, mask", &PortMod{Port: 1, Mask: 2}, PortModFailedBadConfig},

	{"packet out", &PacketOut{Buffer: NoBuffer, InPort: PortController, Data: minimal}, 0},
	{"packet out to the tables", &PacketOut{Buffer: NoBuffer, InPort: 1, Data: minimal,
		Actions: []Action{ActionOutput{Port: PortTable}}}, 0},
	{"packet out without a port", &PacketOut{Buffer: NoBuffer, InPort: PortAny, Data: minimal}, 0},
	{"packet out from a port that none can be", &PacketOut{Buffer: NoBuffer, InPort: PortTable, Data: minimal}, BadRequestBadPort},
	{"packet out, short", &PacketOut{Buffer: NoBuffer, InPort: 1, Data: minimal[1:]}, BadRequestBadPacket},
	{"packet out, buffered", &PacketOut{InPort: 1}, 0},

	{"flow", flow(nil), 0},
	{"flow command", NewFlowMod(5), FlowModFailedBadCommand},
	{"flow flags", with(NewFlowMod(FlowAdd), func(m *FlowMod) { m.Flags = 32 }), FlowModFailedBadFlags},
	{"flow in all tables", with(NewFlowMod(FlowModify), func(m *FlowMod) { m.Table = TableAll }), FlowModFailedBadTableID},
	{"deletion in all tables", deletion(func(m *FlowMod) { m.Table = TableAll }), 0},
	{"deletion with an unknown instruction",
		deletion(func(m *FlowMod) { m.Instructions = []Instruction{InstructionUnknown{Kind: 7, Data: minimal[:4]}} }), 0},
	{"deletion with a bad match", deletion(func(m *FlowMod) { m.Match = Match{}.Uint(FieldTCPSrc, 1) }), BadMatchBadPrereq},

	{"instruction of no type", flow(nil, InstructionUnknown{Kind: 7, Data: minimal[:4]}), BadInstructionUnknownInst},
	{"experimenter's instruction", flow(nil, InstructionExperimenter{}), BadInstructionBadExperimenter},
	{"instruction twice", flow(nil, InstructionClearActions{}, InstructionClearActions{}), BadInstructionUnsupInst},
	{"goto a later table", flow(nil, InstructionGotoTable{1}), 0},
	{"goto the same table", flow(nil, InstructionGotoTable{0}), BadInstructionBadTableID},
	{"goto all tables", flow(nil, InstructionGotoTable{TableAll}), BadInstructionBadTableID},
	{"meter 0", flow(nil, InstructionMeter{}), MeterModFailedInvalidMeter},
	{"meter 1", flow(nil, InstructionMeter{1}), 0},
	{"written action", flow(nil, InstructionWriteActions{[]Action{ActionUnknown{}}}), BadActionBadType},

	{"output", acts(ActionOutput{Port: PortInPort}), 0},
	{"output to no port", acts(ActionOutput{}), BadActionBadOutPort},
	{"output to any port", acts(ActionOutput{Port: PortAny}), BadActionBadOutPort},
	{"output between the ports", acts(ActionOutput{Port: PortMax + 1}), BadActionBadOutPort},
	{"output to the tables", acts(ActionOutput{Port: PortTable}), BadActionBadOutPort},
	{"group of all", acts(ActionGroup{GroupAll}), BadActionBadOutGroup},
	{"push of a tag", acts(ActionPushVLAN{0x88a8}), 0},
	{"push of no tag", acts(ActionPushVLAN{0x0800}), BadActionBadArgument},
	{"push of no label", acts(ActionPushMPLS{0x0800}), BadActionBadArgument},
	{"push of no service tag", acts(ActionPushPBB{0x8100}), BadActionBadArgument},
	{"experimenter's action", acts(ActionExperimenter{Experimenter: 1}), BadActionBadExperimenter},
	{"action of Baton, unknown", acts(ActionExperimenter{BatonExperimenter, minimal[:8]}), BadActionBadExpType},
	{"action of Baton", acts(ActionIncSeq{By: 1}, ActionIncAck{By: 1, Plain: true}, ActionRescaleWindow{14, 0}), 0},
	{"window shift", acts(ActionRescaleWindow{0, 15}), BadActionBadArgument},
	{"bind", acts(ActionUnbind{1}, ActionOutput{Port: 1}, ActionBind{BindRoundRobin, 1, 0}), 0},
	{"bind with method 0", acts(ActionBind{0, 1, 0}), BadActionBadArgument},
	{"bind with method 6", acts(ActionBind{BindEven + 1, 1, 0}), BadActionBadArgument},
	{"bind from all groups", acts(ActionBind{BindRoundRobin, GroupAll, 0}), BadActionBadOutGroup},
	{"bind that is not the last", acts(ActionBind{BindRoundRobin, 1, 0}, ActionOutput{Port: 1}), BadActionBadArgument},
	{"bind twice", acts(ActionBind{BindRoundRobin, 1, 0}, ActionBind{BindRoundRobin, 1, 0}), BadActionBadArgument},
	{"bind in write-actions", flow(nil, InstructionWriteActions{[]Action{ActionBind{BindRoundRobin, 1, 0}}}), BadActionBadArgument},
	{"bind and goto", flow(nil, InstructionApplyActions{[]Action{ActionBind{BindRoundRobin, 1, 0}}}, InstructionGotoTable{1}), BadActionBadArgument},
	{"bind and written actions", flow(nil, InstructionWriteActions{}, InstructionApplyActions{[]Action{ActionBind{BindRoundRobin, 1, 0}}}),
		BadActionBadArgument},
	{"bind, metadata, meter", flow(nil, InstructionMeter{1}, InstructionApplyActions{[]Action{ActionBind{BindRoundRobin, 1, 0}}},
		InstructionWriteMetadata{1, 1}), 0},
	{"bind in a packet out", &PacketOut{Buffer: NoBuffer, InPort: 1, Data: minimal, Actions: []Action{ActionBind{BindRoundRobin, 1, 0}}},
		BadActionBadArgument},
	{"bucket with bind", &GroupMod{Buckets: []Bucket{{Actions: []Action{ActionBind{BindRoundRobin, 1, 0}}}}}, BadActionBadArgument},
	{"unbind and goto", flow(nil, InstructionApplyActions{[]Action{ActionUnbind{1}}}, InstructionGotoTable{1}), 0},
	{"unbind to all groups", acts(ActionUnbind{GroupAll}), BadActionBadOutGroup},
	{"unbind in write-actions", flow(nil, InstructionWriteActions{[]Action{ActionUnbind{1}}}), BadActionBadArgument},
	{"unbind in a packet out", &PacketOut{Buffer: NoBuffer, InPort: 1, Data: minimal, Actions: []Action{ActionUnbind{1}}},
		BadActionBadArgument},
	{"bucket with unbind", &GroupMod{Buckets: []Bucket{{Actions: []Action{ActionUnbind{1}}}}}, BadActionBadArgument},
	{"set-field", sets(Match{}.Addr(FieldIPv4Src, any4)), 0},
	{"set-field of in_port", sets(Match{}.Port(1)), BadActionBadSetType},
	{"set-field of an unknown field", sets(Match{}.Bytes(NewField(0, ClassNXM1, 0), minimal, nil)), BadActionBadSetType},
	{"set-field with a mask", sets(Match{}.UintMasked(FieldTunnelID, 1, 1)), BadActionBadSetArgument},
	{"set-field beyond its range", sets(Match{}.Uint(FieldIPDSCP, 64)), BadActionBadSetArgument},

	{"indirect group", &GroupMod{Kind: GroupTypeIndirect, Buckets: []Bucket{{}}}, 0},
	{"indirect group of two", &GroupMod{Kind: GroupTypeIndirect, Buckets: []Bucket{{}, {}}}, GroupModFailedInvalidGroup},
	{"group command", &GroupMod{Command: 3}, GroupModFailedBadCommand},
	{"group type", &GroupMod{Kind: 4}, GroupModFailedBadType},
	{"group number", &GroupMod{Group: GroupAll}, GroupModFailedInvalidGroup},
	{"deletion of all groups", &GroupMod{Command: GroupDelete, Group: GroupAll}, 0},
	{"fast failover without watching", &GroupMod{Kind: GroupTypeFF, Buckets: []Bucket{{WatchPort: PortAny, WatchGroup: GroupAny}}},
		GroupModFailedBadWatch},
	{"bucket with a bad action", &GroupMod{Buckets: []Bucket{{Actions: []Action{ActionOutput{}}}}}, BadActionBadOutPort},

	{"meter", &MeterMod{Meter: 1, Flags: MeterFlagKbps, Bands: []Band{{Kind: BandDrop}}}, 0},
	{"meter command", &MeterMod{Command: 3, Meter: 1}, MeterModFailedBadCommand},
	{"meter number 0", &MeterMod{}, MeterModFailedInvalidMeter},
	{"meter of all", &MeterMod{Meter: MeterAll}, MeterModFailedInvalidMeter},
	{"deletion of all meters", &MeterMod{Command: MeterDelete, Meter: MeterAll}, 0},
	{"meter of the controller", &MeterMod{Meter: MeterController}, 0},
	{"meter with two units", &MeterMod{Meter: 1, Flags: MeterFlagKbps | MeterFlagPktps}, MeterModFailedBadFlags},
	{"meter flags", &MeterMod{Meter: 1, Flags: 16}, MeterModFailedBadFlags},
	{"band type", &MeterMod{Meter: 1, Bands: []Band{{Kind: 3, Data: minimal[:4]}}}, MeterModFailedBadBand},
}

// wantCode requires a fault with that code, or no error for code 0.
func wantCode(t *testing.T, err error, want Code) {
	t.Helper()
	var f *Fault
	switch errors.As(err, &f); {
	case err != nil && f == nil:
		t.Errorf("%v is no fault", err)
	case f == nil && want != 0:
		t.Errorf("accepted, want %v", want)
	case f != nil && (f.Code != want || want == 0 || f.Section == ""):
		t.Errorf("got %v, want %v", f, want)
	}
}

func TestMatchCheck(t *testing.T) {
	for _, tt := range matches {
		t.Run(tt.name, func(t *testing.T) { wantCode(t, tt.m.Check(), tt.want) })
	}
}

var (
	icmp6 = Match{}.Uint(FieldEthType, 0x86dd).Uint(FieldIPProto, 58)
	host  = netip.MustParseAddr("2001:db8::1")
)

var matches = []struct {
	name string
	m    Match
	want Code
}{
	{"empty", nil, 0},
	{"TCP", tcp4().Uint(FieldTCPDst, 80), 0},
	{"order of no matter but for prerequisites", Match{}.Uint(FieldMetadata, 1).Port(1).Uint(FieldEthType, 1), 0},
	{"prerequisite behind", Match{}.Uint(FieldIPProto, 6).Uint(FieldEthType, 0x0800), BadMatchBadPrereq},
	{"UDP port of TCP", tcp4().Uint(FieldUDPDst, 80), BadMatchBadPrereq},
	{"IPv6 address of IPv4", tcp4().Addr(FieldIPv6Dst, host), BadMatchBadPrereq},
	{"protocol of IPv6", icmp6, 0},
	{"neighbour target of a solicitation", icmp6.Uint(FieldICMPv6Type, 135).Addr(FieldIPv6NDTarget, host), 0},
	{"neighbour target of an advertisement", icmp6.Uint(FieldICMPv6Type, 136).Addr(FieldIPv6NDTarget, host), 0},
	{"neighbour target of a ping", icmp6.Uint(FieldICMPv6Type, 128).Addr(FieldIPv6NDTarget, host), BadMatchBadPrereq},
	{"source link layer of an advertisement", icmp6.Uint(FieldICMPv6Type, 136).MAC(FieldIPv6NDSLL, packet.MAC{}), BadMatchBadPrereq},
	{"priority without a tag", Match{}.Uint(FieldVLANVID, 0).Uint(FieldVLANPCP, 1), BadMatchBadPrereq},
	{"priority with any tag", Match{}.UintMasked(FieldVLANVID, VLANPresent, VLANPresent).Uint(FieldVLANPCP, 1), 0},
	{"physical port alone", Match{}.Uint(FieldInPhyPort, 1), BadMatchBadPrereq},
	{"physical port", Match{}.Port(1).Uint(FieldInPhyPort, 1), 0},
	{"MPLS multicast", Match{}.Uint(FieldEthType, 0x8848).Uint(FieldMPLSLabel, 0xfffff), 0},
	{"label of 21 bits", Match{}.Uint(FieldEthType, 0x8848).Uint(FieldMPLSLabel, 0x100000), BadMatchBadValue},
	{"tag of 13 bits", Match{}.Uint(FieldVLANVID, 0x1fff), 0},
	{"tag of 14 bits", Match{}.Uint(FieldVLANVID, 0x2000), BadMatchBadValue},
	{"twice", Match{}.Port(1).Port(1), BadMatchDupField},
	{"twice, masked otherwise", Match{}.Uint(FieldMetadata, 1).UintMasked(FieldMetadata, 1, 1), BadMatchDupField},
	{"mask where none may be", Match{}.UintMasked(FieldEthType, 0x0800, 0xffff), BadMatchBadMask},
	{"mask", Match{}.MACMasked(FieldEthDst, packet.MAC{1}, packet.MAC{1}), 0},
	{"bits outside of the mask", Match{}.MACMasked(FieldEthDst, packet.MAC{3}, packet.MAC{1}), BadMatchBadWildcards},
	{"prefix", tcp4().Prefix(FieldIPv4Src, netip.MustParsePrefix("10.1.2.3/9")), 0},
	{"unknown field", Match{}.Bytes(NewField(0, ClassBasic, 40), []byte{1}, nil), BadMatchBadField},
	{"unknown class", Match{}.Bytes(NewField(0, ClassNXM0, 1), []byte{1}, nil), BadMatchBadField},
	{"unknown experimenter", Match{}.Bytes(NewField(7, ClassExperimenter, 42), []byte{0, 1}, nil), BadMatchBadField},
	{"TCP flags of ONF", tcp4().UintMasked(FieldTCPFlags, 2, 0x12), 0},
	{"wrong length", Match{0x80, 0, 0, 3, 1, 2, 3}, BadMatchBadLen},
	{"past the end", Match{0x80, 0, 0, 4, 1, 2, 3}, BadMatchBadLen},
}
