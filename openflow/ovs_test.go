package openflow_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "baton/openflow"
	"baton/packet"
)

// requiredProps are the properties that Open vSwitch wants of a table.
func requiredProps(props ...TableProp) []TableProp {
	have := map[PropType]bool{}
	for _, p := range props {
		have[p.Kind] = true
	}
	for _, k := range []PropType{PropInstructions, PropNextTables, PropWriteActions, PropApplyActions, PropMatch, PropWildcards,
		PropWriteSetfield, PropApplySetfield} {
		if !have[k] {
			props = append(props, TableProp{Kind: k})
		}
	}
	return props
}

// ovsPrints is what ovs-ofctl says of each message. It skips the test if ovs-ofctl is not there.
func ovsPrints(t *testing.T, messages [][]byte) []string {
	t.Helper()
	ofctl, err := exec.LookPath("ovs-ofctl")
	if err != nil {
		t.Skip("ovs-ofctl is not installed (make deps)")
	}
	// An echo request stands behind every message, to tell what is said of one from what is said of the next.
	const xid, mark = 0xbabe1234, "OFPT_ECHO_REQUEST (OF1.3) (xid=0xbabe1234): 0 bytes of payload\n"
	var stream []byte
	for _, m := range messages {
		if stream, err = Append(append(stream, m...), xid, &EchoRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(file, stream, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(ofctl, "ofp-parse", file).Output()
	if err != nil {
		t.Fatalf("ovs-ofctl: %v", err)
	}
	said := strings.Split(string(out), mark)
	if len(said) != len(messages)+1 {
		t.Fatalf("ovs-ofctl said %d things of %d messages:\n%s", len(said)-1, len(messages), out)
	}
	return said[:len(messages)]
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// TestOpenVSwitchReads: ovs-ofctl prints of our bytes what was put into them.
func TestOpenVSwitchReads(t *testing.T) {
	mac, other := packet.MAC{2, 3, 4, 5, 6, 7}, packet.MAC{8, 9, 10, 11, 12, 13}
	arp := Match{}.Uint(FieldEthType, 0x0806).Uint(FieldARPOp, 2).Addr(FieldARPSPA, ip("10.0.0.1")).
		Addr(FieldARPTPA, ip("10.0.0.2")).MAC(FieldARPSHA, mac).MAC(FieldARPTHA, other)
	v6 := Match{}.Uint(FieldEthType, 0x86dd)
	nd := v6.Uint(FieldIPProto, 58).Uint(FieldICMPv6Type, 135).Uint(FieldICMPv6Code, 0).
		Addr(FieldIPv6NDTarget, ip("2001:db8::1")).MAC(FieldIPv6NDSLL, mac)
	tests := []struct {
		name string
		m    Message
		want string // words in this order
	}{
		{"hello", NewHello(), "OFPT_HELLO (OF1.3) bitmap: 0x04"},
		{"error", &Error{Code: GroupModFailedLoop, Data: make([]byte, 64)}, "OFPT_ERROR OFPGMFC_LOOP"},
		{"features", &FeaturesReply{DatapathID: 0xabc, Tables: 254, Auxiliary: 1,
			Capabilities: CapabilityGroupStats | CapabilityPortBlocked},
			"dpid:0000000000000abc n_tables:254, n_buffers:0, auxiliary_id:1 GROUP_STATS PORT_BLOCKED"},
		{"configuration", &SetConfig{Config{FragDrop, 128}}, "OFPT_SET_CONFIG frags=drop miss_send_len=128"},
		{"packet in", &PacketIn{Buffer: NoBuffer, TotalLen: 14, Reason: ReasonInvalidTTL, Table: 2, Cookie: 3,
			Match: Match{}.Port(7).Uint(FieldMetadata, 8).Uint(FieldTunnelID, 9), Data: make([]byte, 14)},
			"OFPT_PACKET_IN table_id=2 cookie=0x3 total_len=14 tun_id=0x9,metadata=0x8,in_port=7 (via invalid_ttl) data_len=14 (unbuffered)"},
		{"packet out", &PacketOut{Buffer: 5, InPort: 3, Actions: []Action{ActionOutput{PortFlood, 0}, ActionOutput{PortTable, 0}}},
			"OFPT_PACKET_OUT in_port=3 actions=FLOOD,TABLE buffer=0x00000005"},
		{"flow mod", goldens[6].value, "MOD_STRICT table:3 priority=6,ip,nw_dst=10.0.0.0/8 cookie:0x1/0x2 idle:4 hard:5 buf:0x7 " +
			"out_port:8 send_flow_rem actions=meter:10,set_field:02:00:00:00:00:01->eth_dst,push_vlan:0x8100,write_metadata:0xb/0xc," +
			"goto_table:13"},
		{"Ethernet", flow(Match{}.Port(1).MACMasked(FieldEthDst, packet.MAC{1}, packet.MAC{1}).MAC(FieldEthSrc, mac).
			Uint(FieldEthType, 0x1234).Uint(FieldVLANVID, VLANPresent|5).Uint(FieldVLANPCP, 3)),
			"in_port=1,dl_vlan=5,dl_vlan_pcp=3,dl_src=02:03:04:05:06:07,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,dl_type=0x1234"},
		{"TCP", flow(tcp4().Uint(FieldIPDSCP, 10).Uint(FieldIPECN, 2).Addr(FieldIPv4Src, ip("10.0.0.1")).Uint(FieldTCPSrc, 40000).
			Uint(FieldTCPDst, 80).UintMasked(FieldTCPFlags, 2, 0x12)),
			"tcp,nw_src=10.0.0.1,nw_tos=40,nw_ecn=2,tp_src=40000,tp_dst=80,tcp_flags=+syn-ack"},
		{"SCTP", flow(Match{}.Uint(FieldEthType, 0x0800).Uint(FieldIPProto, 132).Uint(FieldSCTPSrc, 1).Uint(FieldSCTPDst, 2)),
			"sctp,tp_src=1,tp_dst=2"},
		{"UDP over IPv6", flow(v6.Uint(FieldIPProto, 17).Addr(FieldIPv6Src, ip("2001:db8::1")).
			Prefix(FieldIPv6Dst, netip.MustParsePrefix("2001:db8::/33")).Uint(FieldIPv6Flabel, 0x12345).
			Uint(FieldUDPSrc, 1).Uint(FieldUDPDst, 2)),
			"udp6,ipv6_src=2001:db8::1,ipv6_dst=2001:db8::/33,ipv6_label=0x12345,tp_src=1,tp_dst=2"},
		{"ICMP", flow(Match{}.Uint(FieldEthType, 0x0800).Uint(FieldIPProto, 1).Uint(FieldICMPv4Type, 8).Uint(FieldICMPv4Code, 1)),
			"icmp,icmp_type=8,icmp_code=1"},
		{"ARP", flow(arp), "arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_op=2,arp_sha=02:03:04:05:06:07,arp_tha=08:09:0a:0b:0c:0d"},
		{"neighbour discovery", flow(nd), "icmp6,icmp_type=135,icmp_code=0,nd_target=2001:db8::1,nd_sll=02:03:04:05:06:07"},
		{"MPLS", flow(Match{}.Uint(FieldEthType, 0x8847).Uint(FieldMPLSLabel, 100).Uint(FieldMPLSTC, 3).Uint(FieldMPLSBOS, 1)),
			"mpls,mpls_label=100,mpls_tc=3,mpls_bos=1"},
		{"tunnel", flow(Match{}.UintMasked(FieldTunnelID, 0x10, 0xf0)), "tun_id=0x10/0xf0"},
		{"actions", flow(tcp4(), InstructionApplyActions{[]Action{ActionGroup{5}, ActionSetQueue{6}, ActionSetNWTTL{8},
			ActionDecNWTTL{},
			ActionPushVLAN{0x88a8}, ActionPopVLAN{}, ActionOutput{PortController, 100}, ActionOutput{PortInPort, 0}}}),
			"actions=group:5,set_queue:6,mod_nw_ttl:8,dec_ttl,push_vlan:0x88a8,pop_vlan,CONTROLLER:100,IN_PORT"},
		{"label's TTL", flow(Match{}.Uint(FieldEthType, 0x8847), InstructionApplyActions{[]Action{ActionSetMPLSTTL{7},
			ActionDecMPLSTTL{}}}),
			"actions=set_mpls_ttl(7),dec_mpls_ttl"},
		{"MPLS actions", acts(ActionPushMPLS{0x8848}, ActionPopMPLS{0x0800}), "actions=push_mpls:0x8848,pop_mpls:0x0800"},
		{"written actions", flow(nil, InstructionClearActions{}, InstructionWriteActions{[]Action{ActionOutput{2, 0}}}),
			"actions=clear_actions,write_actions(output:2)"},
		{"flow removed", goldens[7].value, "priority=2 reason=group_delete table_id=3 cookie:0x1 duration4.000000005s idle6 hard7 pkts8 bytes9"},
		{"group", &GroupMod{Command: GroupAdd, Kind: GroupTypeFF, Group: 5, Buckets: []Bucket{{WatchPort: 2, WatchGroup: GroupAny,
			Actions: []Action{ActionOutput{2, 0}}}}}, "ADD group_id=5,type=ff,bucket=watch_port:2,actions=output:2"},
		{"meter", goldens[9].value, "ADD meter=1 pktps burst bands= type=drop rate=1000 burst_size=10 type=dscp_remark rate=500 prec_level=1"},
		{"port mod", &PortMod{Port: 3, MAC: mac, Config: PortConfigNoFwd, Mask: PortConfigNoFwd | PortConfigPortDown,
			Advertise: PortFeaturesCopper},
			"port: 3: addr:02:03:04:05:06:07 config: NO_FWD mask: PORT_DOWN NO_FWD advertise: COPPER"},
		{"port status", &PortStatus{PortModify, Port{No: 3, MAC: mac, Name: "eth3", Config: PortConfigNoRecv, State: PortStateLive,
			Current: PortFeatures10GBFD, Speed: 10_000_000, MaxSpeed: 40_000_000}},
			"MOD: 3(eth3): addr:02:03:04:05:06:07 config: NO_RECV state: LIVE current: 10GB-FD speed: 10000 Mbps now, 40000 Mbps max"},
		{"role", &RoleReply{RoleSlave, 9}, "role=secondary generation_id=9"},
		{"queue configuration", &QueueGetConfigReply{Port: 1, Queues: []Queue{{ID: 2, Port: 1, Properties: []QueueProp{
			{Kind: QueueMinRate, Rate: 500}, {Kind: QueueMaxRate, Rate: 1000}}}}}, "port=1 queue 2: min_rate:50.0% max_rate:100.0%"},
		{"description", &MultipartReply{Body: DescReply{"a", "b", "c", "d", "e"}},
			"Manufacturer: a Hardware: b Software: c Serial Num: d DP Description: e"},
		{"flow statistics", &MultipartReply{Body: FlowStatsReply{{Table: 1, Duration: Duration{2, 500000000}, Priority: 4, Idle: 5,
			Hard:   6,
			Cookie: 8, Packets: 9, Octets: 10, Match: tcp4(), Instructions: []Instruction{InstructionGotoTable{3}}}}},
			"cookie=0x8, duration=2.500s, table=1, n_packets=9, n_bytes=10, idle_timeout=5, hard_timeout=6, priority=4,tcp actions=goto_table:3"},
		{"flow query", &MultipartRequest{Body: FlowStatsRequest{FlowQuery{Table: 1, OutPort: 2, OutGroup: GroupAny, Cookie: 3,
			CookieMask: 7, Match: tcp4()}}}, "OFPST_FLOW request table=1 out_port=2 tcp"},
		{"aggregate", &MultipartReply{Body: AggregateReply{1, 2, 3}}, "packet_count=1 byte_count=2 flow_count=3"},
		{"table statistics", &MultipartReply{Body: TableStatsReply{{Table: 1, Active: 2, Lookups: 3, Hits: 4}}},
			"table 1 active=2, lookup=3, matched=4"},
		{"port statistics", &MultipartReply{Body: PortStatsReply{{Port: 1, RxPackets: 2, TxPackets: 3, RxOctets: 4, TxOctets: 5,
			RxDropped: 6,
			TxDropped: 7, RxErrors: 8, TxErrors: 9, RxFrameErr: 10, RxOverErr: 11, RxCRCErr: 12, Collided: 13, Duration: Duration{14,
				0}}}},
			"port 1: rx pkts=2, bytes=4, drop=6, errs=8, frame=10, over=11, crc=12 tx pkts=3, bytes=5, drop=7, errs=9, coll=13 duration=14s"},
		{"queue statistics", &MultipartReply{Body: QueueStatsReply{{1, 2, 3, 4, 5, Duration{6, 0}}}},
			"port 1 queue 2: bytes=3, pkts=4, errors=5, duration=6s"},
		{"group statistics", &MultipartReply{Body: GroupStatsReply{{1, 2, 3, 4, Duration{5, 0}, []Counter{{6, 7}}}}},
			"group_id=1,duration=5s,ref_count=2,packet_count=3,byte_count=4,bucket0:packet_count=6,byte_count=7"},
		{"groups", &MultipartReply{Body: GroupDescReply{{GroupTypeSelect, 1, []Bucket{{Weight: 2, WatchPort: PortAny,
			WatchGroup: GroupAny,
			Actions:    []Action{ActionOutput{3, 0}}}}}}}, "group_id=1,type=select,bucket=weight:2,actions=output:3"},
		{"group features", &MultipartReply{Body: GroupFeaturesReply{Types: 2, Capabilities: GroupCapabilityChaining,
			Max:     [4]uint32{0, 9},
			Actions: [4]uint32{0, 1}}}, "Types: 0x2 Capabilities: 0x4 select group: max_groups=0x9 actions: output"},
		{"meter statistics", &MultipartReply{Body: MeterStatsReply{{1, 2, Counter{3, 4}, Duration{5, 0}, []Counter{{6, 7}}}}},
			"meter:1 flow_count:2 packet_in_count:3 byte_in_count:4 duration:5s bands: 0: packet_count:6 byte_count:7"},
		{"meters", &MultipartReply{Body: MeterConfigReply{{MeterFlagKbps | MeterFlagStats, 1, []Band{{Kind: BandDrop, Rate: 5}}}}},
			"meter=1 kbps stats bands= type=drop rate=5"},
		{"meter features", &MultipartReply{Body: MeterFeaturesReply{100, 6, 15, 2, 3}},
			"max_meter:100 max_bands:2 max_color:3 band_types: drop dscp_remark capabilities: kbps pktps burst stats"},
		{"ports", &MultipartReply{Body: PortDescReply{{No: PortLocal, MAC: mac, Name: "br0"}}}, "LOCAL(br0): addr:02:03:04:05:06:07"},
		{"table features", &MultipartReply{Body: TableFeaturesBody{{Table: 1, Name: "one", MetadataMatch: 2, MetadataWrite: 3,
			MaxEntries: 4,
			Properties: requiredProps(
				TableProp{Kind: PropNextTables, Tables: []TableID{2, 3}},
				TableProp{Kind: PropInstructions, Types: []TypeID{{Type: uint16(InstructionTypeGotoTable)}}},
				TableProp{Kind: PropApplyActions, Types: []TypeID{ActionID(ActionOutput{}), ActionID(ActionIncSeq{}), ActionID(ActionBind{Method: BindRoundRobin})}},
				TableProp{Kind: PropMatch, Fields: []FieldID{NewFieldID(FieldEthType, false), NewFieldID(FieldTCPFlags, true)}},
			)}}}, `table 1 ("one"): metadata: match=0x2 write=0x3 max_entries=4 next tables: 2-3 instructions: goto_table output mask: tcp_flags exact match: eth_type`},
		{"bundle", goldens[len(goldens)-1].value, "bundle_id=0x1 type=COMMIT_REQUEST flags=atomic ordered"},
		{"packet-in format", &SetPacketInFormat{0}, "NXT_SET_PACKET_IN_FORMAT format=standard"},
		{"controller id", &SetControllerID{5}, "NXT_SET_CONTROLLER_ID id=5"},
	}
	var all [][]byte
	for _, tt := range tests {
		b, err := Append(nil, 1, tt.m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	printed := ovsPrints(t, all)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rest := printed[i]
			if strings.Contains(rest, "***decode error") {
				t.Fatalf("refused:\n%s", rest)
			}
			for word := range strings.FieldsSeq(tt.want) {
				before, after, found := strings.Cut(rest, word)
				if !found {
					t.Fatalf("%q is not behind %q:\n%s", word, before[:min(len(before), 40)], printed[i])
				}
				rest = after
			}
		})
	}
}
