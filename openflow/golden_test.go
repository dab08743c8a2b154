package openflow_test

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	. "baton/openflow"
	"baton/packet"
)

// annotated reads hex digits; what follows a # in a line is a comment.
func annotated(t testing.TB, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		text, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(text), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var goldens = []struct {
	name  string
	value Message
	bytes string
}{
	{"hello", NewHello(), `
		04 00 0010 00000001   # version, type, length, xid
		0001 0008 00000010    # version bitmap: version 4 alone
	`},
	{"error", &Error{Code: BadMatchBadPrereq, Data: []byte{4, 14}}, `
		04 01 000e 00000001
		0004 0009             # type, code
		040e                  # start of the request
	`},
	{"experimenter's error", &Error{Code: Code(ErrorExperimenter)<<16 | 2303, Experimenter: ONFExperimenter}, `
		04 01 0010 00000001
		ffff 08ff             # type, the experimenter's own
		4f4e4600              # experimenter
	`},
	{"features", &FeaturesReply{DatapathID: 0x1122334455667788, Buffers: 0, Tables: 254, Auxiliary: 1,
		Capabilities: CapabilityFlowStats | CapabilityQueueStats}, `
		04 06 0020 00000001
		1122334455667788      # datapath id
		00000000 fe 01 0000   # buffers, tables, auxiliary id, padding
		00000041 00000000     # capabilities, reserved
	`},
	{"packet in", &PacketIn{Buffer: NoBuffer, TotalLen: 60, Reason: ReasonAction, Table: 2, Cookie: 3,
		Match: Match{}.Port(7), Data: []byte{0xaa, 0xbb}}, `
		04 0a 002c 00000001
		ffffffff 003c 01 02   # buffer, total length, reason, table
		0000000000000003      # cookie
		0001 000c             # match: OXM, length without padding
		80000004 00000007     #   in_port
		00000000              #   padding of the match
		0000                  # padding
		aabb                  # data
	`},
	{"packet out", &PacketOut{Buffer: NoBuffer, InPort: PortController, Actions: []Action{ActionOutput{3, 0}}, Data: []byte{0xcc}}, `
		04 0d 0029 00000001
		ffffffff fffffffd     # buffer, in port
		0010 000000000000     # length of the actions, padding
		0000 0010 00000003    # output: type, length, port
		0000 000000000000     #   max_len, padding
		cc                    # data
	`},
	{"flow mod", &FlowMod{Cookie: 1, CookieMask: 2, Table: 3, Command: FlowModifyStrict, Idle: 4, Hard: 5, Priority: 6, Buffer: 7,
		OutPort: 8, OutGroup: 9, Flags: FlowSendFlowRem,
		Match: Match{}.Uint(FieldEthType, 0x0800).Prefix(FieldIPv4Dst, netip.MustParsePrefix("10.0.0.0/8")),
		Instructions: []Instruction{
			InstructionMeter{10}, InstructionWriteMetadata{11, 12}, InstructionApplyActions{[]Action{
				ActionSetField{Match{}.MAC(FieldEthDst, packet.MAC{2, 0, 0, 0, 0, 1})}, ActionPushVLAN{0x8100},
			}}, InstructionGotoTable{13},
		}}, `
		04 0e 0090 00000001
		0000000000000001      # cookie
		0000000000000002      # cookie mask
		03 02 0004 0005 0006  # table, command, idle, hard, priority
		00000007 00000008     # buffer, out port
		00000009 0001 0000    # out group, flags, padding
		0001 0016             # match: OXM, 22 bytes
		80000a02 0800         #   eth_type
		80001908 0a000000 ff000000 # ipv4_dst, masked
		0000                  #   padding
		0006 0008 0000000a    # meter
		0002 0018 00000000    # write metadata
		000000000000000b      #   value
		000000000000000c      #   mask
		0004 0020 00000000    # apply actions
		0019 0010             #   set-field
		80000606 020000000001 #     eth_dst
		0000                  #     padding
		0011 0008 8100 0000   #   push VLAN
		0001 0008 0d 000000   # goto table
	`},
	{"flow removed", &FlowRemoved{Cookie: 1, Priority: 2, Reason: RemovedGroupDelete, Table: 3, Duration: Duration{4, 5}, Idle: 6,
		Hard: 7, Packets: 8, Octets: 9}, `
		04 0b 0038 00000001
		0000000000000001 0002 03 03 # cookie, priority, reason, table
		00000004 00000005     # duration
		0006 0007             # idle, hard
		0000000000000008 0000000000000009 # packets, bytes
		0001 0004 00000000    # match: all
	`},
	{"group mod", &GroupMod{Command: GroupModify, Kind: GroupTypeSelect, Group: 5, Buckets: []Bucket{
		{Weight: 2, WatchPort: PortAny, WatchGroup: GroupAny, Actions: []Action{ActionGroup{6}}}, {Weight: 1}}}, `
		04 0f 0038 00000001
		0001 01 00 00000005   # command, type, padding, group
		0018 0002 ffffffff    # bucket: length, weight, watch port
		ffffffff 00000000     #   watch group, padding
		0016 0008 00000006    #   group
		0010 0001 00000000
		00000000 00000000
	`},
	{"meter mod", &MeterMod{Command: MeterAdd, Flags: MeterFlagPktps | MeterFlagBurst, Meter: 1, Bands: []Band{
		{Kind: BandDrop, Rate: 1000, Burst: 10}, {Kind: BandDSCPRemark, Rate: 500, PrecLevel: 1}}}, `
		04 1d 0030 00000001
		0000 0006 00000001    # command, flags, meter
		0001 0010 000003e8 0000000a 00000000     # drop: rate, burst, padding
		0002 0010 000001f4 00000000 01 000000    # remark: rate, burst, levels, padding
	`},
	{"set async", &SetAsync{Async{PacketIn: [2]uint32{1, 2}, PortStatus: [2]uint32{3, 4}, FlowRemoved: [2]uint32{5, 6}}}, `
		04 1c 0020 00000001
		00000001 00000002     # packet in: master or equal, slave
		00000003 00000004     # port status
		00000005 00000006     # flow removed
	`},
	{"role", &RoleRequest{RoleMaster, 9}, `
		04 18 0018 00000001
		00000002 00000000 0000000000000009
	`},
	{"table features", &MultipartReply{Flags: MultipartMore, Body: TableFeaturesBody{{Table: 1, Name: "t", MetadataMatch: 2,
		MetadataWrite: 3, MaxEntries: 4, Properties: []TableProp{
			{Kind: PropNextTables, Tables: []TableID{2}},
			{Kind: PropApplyActions, Types: []TypeID{ActionID(ActionOutput{}), ActionID(ActionIncSeq{}), ActionID(ActionIncSeq{Plain: true})}},
			{Kind: PropMatch, Fields: []FieldID{NewFieldID(FieldVLANVID, true), NewFieldID(FieldTCPFlags, false)}},
		}}}}, `
		04 13 0080 00000001
		000c 0001 00000000    # multipart type, flags, padding
		0070 01 0000000000    # length, table, padding
		7400000000000000 0000000000000000 0000000000000000 0000000000000000 # name
		0000000000000002 0000000000000003 # metadata: match, write
		00000000 00000004     # config, entries at most
		0002 0005 02 000000   # next tables, padded
		0006 0018             # apply actions, 24 bytes
		0000 0004             #   output
		ffff 000c 0042544e 0020 0000 # inc_seq
		0020 0004             #   plain inc_seq
		0008 0010             # match
		80000d04              #   vlan_vid, masked
		ffff5406 4f4e4600     #   tcp_flags
	`},
	{"flow statistics", &MultipartReply{Body: FlowStatsReply{{Table: 1, Duration: Duration{2, 3}, Priority: 4, Idle: 5, Hard: 6,
		Flags: 7, Cookie: 8, Packets: 9, Octets: 10, Instructions: []Instruction{InstructionClearActions{}}}}}, `
		04 13 0050 00000001
		0001 0000 00000000
		0040 01 00            # length, table, padding
		00000002 00000003     # duration
		0004 0005 0006 0007   # priority, idle, hard, flags
		00000000              # padding
		0000000000000008 0000000000000009 000000000000000a # cookie, packets, bytes
		0001 0004 00000000    # match: all
		0005 0008 00000000    # clear actions
	`},
	{"handoff", &FlowMod{Instructions: []Instruction{InstructionApplyActions{[]Action{
		ActionIncSeq{By: 0xfffffffe}, ActionIncAck{By: 2}, ActionIncSACK{2}, ActionIncTSval{3}, ActionIncTSecr{4},
		ActionRescaleWindow{7, 9}, ActionClampMSS{1400}, ActionStripOption{8},
		ActionIncSeq{By: 5, Plain: true}, ActionIncAck{By: 6, Plain: true}}}}}, `
		04 0e 00d0 00000001
		0000000000000000 0000000000000000
		00 00 0000 0000 0000 00000000 00000000 00000000 0000 0000
		0001 0004 00000000
		0004 0098 00000000    # apply actions
		ffff 0010 0042544e 0020 0000 fffffffe # inc_seq
		ffff 0010 0042544e 0021 0000 00000002 # inc_ack
		ffff 0010 0042544e 0022 0000 00000002 # inc_sack
		ffff 0010 0042544e 0023 0000 00000003 # inc_tsval
		ffff 0010 0042544e 0024 0000 00000004 # inc_tsecr
		ffff 0010 0042544e 0025 0000 07 09 0000 # rescale_window: sender, advertised
		ffff 0010 0042544e 0026 0000 0578 0000  # clamp_mss
		ffff 0010 0042544e 0027 0000 08 000000  # strip_option
		0020 0008 00000005    # inc_seq of the paper
		0021 0008 00000006    # inc_ack of the paper
	`},
	{"bind", &FlowMod{Instructions: []Instruction{InstructionApplyActions{[]Action{
		ActionUnbind{1}, ActionBind{BindLeast, 18, 60}}}}}, `
		04 0e 0068 00000001
		0000000000000000 0000000000000000
		00 00 0000 0000 0000 00000000 00000000 00000000 0000 0000
		0001 0004 00000000
		0004 0030 00000000    # apply actions
		ffff 0010 0042544e 0031 0000 00000001 # unbind: group
		ffff 0018 0042544e 0030 02 00 00000012 0000003c 00000000 # bind: method, group, together
	`},
	{"bundle", &BundleControl{Bundle: 1, Kind: BundleCommit, Flags: BundleAtomic | BundleOrdered}, `
		04 04 0018 00000001
		4f4e4600 000008fc     # ONF, bundle control
		00000001 0004 0003    # bundle, kind, flags
	`},
}

func TestGolden(t *testing.T) {
	for _, tt := range goldens {
		t.Run(tt.name, func(t *testing.T) {
			want := annotated(t, tt.bytes)
			got, err := Append([]byte{0xee}, 1, tt.value)
			if err != nil || got[0] != 0xee || !bytes.Equal(got[1:], want) {
				t.Errorf("encode: %v, got\n%swant\n%s", err, hex.Dump(got[1:]), hex.Dump(want))
			}
			_, m, err := Decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.value, m, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("decode (-want +got):\n%s", d)
			}
		})
	}
}

// TestDecodeRefuses: what is malformed draws the error type and code that the specification names.
func TestDecodeRefuses(t *testing.T) {
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			b := annotated(t, tt.bytes)
			b[3] = byte(len(b))
			h, m, err := Decode(b)
			if err == nil {
				t.Fatalf("accepted: %+v", m)
			}
			wantCode(t, err, tt.want)
			if h.XID != 1 {
				t.Errorf("got xid %d", h.XID)
			}
		})
	}
}

// fixed is the fixed part of a flow mod without its header (40 bytes), all the match of every packet.
const (
	fixed = "00000000 00000000 00000000 00000000 00 00 0000 0000 0000 00000000 00000000 00000000 0000 0000 "
	all   = "0001 0004 00000000 "
)

func flowMod(rest string) string { return "04 0e 0000 00000001" + fixed + rest }

// applies is a flow mod with an action.
func applies(action string) string {
	n := len(strings.ReplaceAll(action, " ", "")) / 2
	return flowMod(all + "0004 00" + hex.EncodeToString([]byte{byte(8 + n)}) + "00000000" + action)
}

var refusals = []struct {
	name, bytes string // the length in the header is set
	want        Code
}{
	{"version", "05 05 0000 00000001", BadRequestBadVersion},
	{"features request with a body", "04 05 0000 00000001 00", BadRequestBadLen},
	{"set config, short", "04 09 0000 00000001 0000", BadRequestBadLen},
	{"experimenter, short", "04 04 0000 00000001 00000000", BadRequestBadLen},
	{"packet format of Nicira, long", "04 04 0000 00000001 00002320 00000010 00000000 00000000", BadRequestBadLen},
	{"hello element of no length", "04 00 0000 00000001 0001 0000", BadRequestBadLen},
	{"flow mod, short", "04 0e 0000 00000001" + fixed[:36], BadRequestBadLen},
	{"flow mod without a match", flowMod(""), BadMatchBadLen},
	{"match of the deprecated type", flowMod("0000 0004 00000000"), BadMatchBadType},
	{"match without padding", flowMod("0001 000c 80000004 00000001"), BadMatchBadLen},
	{"match of 3 bytes", flowMod("0001 0003 00000000"), BadMatchBadLen},
	{"field past the match", flowMod("0001 000b 80000004 000000 0000000000"), BadMatchBadLen},
	{"field of a wrong length", flowMod("0001 000a 80000002 0000 000000000000"), BadMatchBadLen},
	{"half a mask", flowMod("0001 000b 80000503 000000 0000000000"), BadMatchBadLen},
	{"experimenter's field without its id", flowMod("0001 000a ffff5402 0000 000000000000"), BadMatchBadLen},
	{"instruction of 4 bytes", flowMod(all + "0005 0004"), BadInstructionBadLen},
	{"instruction of no length", flowMod(all + "0005 0000 00000000"), BadInstructionBadLen},
	{"instruction past the end", flowMod(all + "0005 0010 00000000"), BadInstructionBadLen},
	{"goto table of 16 bytes", flowMod(all + "0001 0010 00000000 00000000 00000000"), BadInstructionBadLen},
	{"clear actions with an action", flowMod(all + "0005 0010 00000000 0012 0008 00000000"), BadInstructionBadLen},
	{"action of 4 bytes", applies("0012 0004"), BadActionBadLen},
	{"action of no length", applies("0012 0000 00000000"), BadActionBadLen},
	{"action of 12 bytes", applies("0012 000c 00000000 00000000"), BadActionBadLen},
	{"action past its instruction", applies("0012 0010 00000000"), BadActionBadLen},
	{"output of 8 bytes", applies("0000 0008 00000001"), BadActionBadLen},
	{"group of 16 bytes", applies("0016 0010 00000001 00000000 00000000"), BadActionBadLen},
	{"plain inc_seq of 16 bytes", applies("0020 0010 00000001 00000000 00000000"), BadActionBadLen},
	{"inc_seq of 24 bytes", applies("ffff 0018 0042544e 0020 0000 00000001 00000000 00000000"), BadActionBadLen},
	{"bind of 16 bytes", applies("ffff 0010 0042544e 0030 01 00 00000001"), BadActionBadLen},
	{"unbind of 24 bytes", applies("ffff 0018 0042544e 0031 0000 00000001 00000000 00000000"), BadActionBadLen},
	{"action of Baton of 8 bytes", applies("ffff 0008 0042544e"), BadActionBadLen},
	{"set-field past its action", applies("0019 0008 80000004"), BadActionBadSetLen},
	{"set-field of a wrong length", applies("0019 0010 80000006 000000000000 0000"), BadActionBadSetLen},
	{"set-field in a longer action", applies("0019 0018 80000004 00000001 00000000 00000000 00000000"), BadActionBadSetLen},
	{"packet out, actions past the end", "04 0d 0000 00000001 ffffffff 00000001 0008 000000000000", BadActionBadLen},
	{"bucket of 8 bytes", "04 0f 0000 00000001 0000 00 00 00000001 0008 0000 00000000", GroupModFailedBadBucket},
	{"bucket past the end", "04 0f 0000 00000001 0000 00 00 00000001 0020 0000 00000000 00000000 00000000", GroupModFailedBadBucket},
	{"band of 12 bytes", "04 1d 0000 00000001 0000 0001 00000001 0001 000c 00000001 00000000", BadRequestBadLen},
	{"band past the end", "04 1d 0000 00000001 0000 0001 00000001 0001 0010 00000001 00000000", BadRequestBadLen},
	{"multipart, short", "04 12 0000 00000001 0000 0000", BadRequestBadLen},
	{"description request with a body", "04 12 0000 00000001 0000 0000 00000000 00", BadRequestBadLen},
	{"flow query, short", "04 12 0000 00000001 0001 0000 00000000 ff", BadRequestBadLen},
	{"flow query and more", "04 12 0000 00000001 0001 0000 00000000 ff000000 ffffffff ffffffff 00000000" +
		"0000000000000000 0000000000000000" + all + "00", BadRequestBadLen},
	{"table of 8 bytes", "04 12 0000 00000001 000c 0000 00000000 0008 0000 00000000", TableFeaturesFailedBadLen},
	{"port statistics of half a port", "04 13 0000 00000001 0004 0000 00000000 00000000", BadRequestBadLen},
	{"queues without a port", "04 17 0000 00000001", BadRequestBadLen},
}

func TestHeaderRefuses(t *testing.T) {
	for _, s := range []string{"", "04", "04 05 0008 000000", "04 05 0007 00000001", "04 02 0009 00000001", "04 02 0008 00000001 00"} {
		_, _, err := Decode(annotated(t, s))
		wantCode(t, err, BadRequestBadLen)
	}
}

// TestHelloOfOthers: a hello may be of any version, and what older versions carry is ignored (7.5.1).
func TestHelloOfOthers(t *testing.T) {
	tests := []struct {
		name, bytes string
		versions    []uint8
		bitmap      bool
	}{
		{"1.0", "01 00 0008 00000001", nil, false},
		{"1.0 with a text", "01 00 000d 00000001 68656c6c6f", nil, false},
		{"1.5 with a bitmap", "06 00 0010 00000001 0001 0008 00000052", []uint8{1, 4, 6}, true},
		{"unknown element first", "04 00 0018 00000001 0007 0005 ff 000000 0001 0008 00000010", []uint8{4}, true},
		{"bitmap of two words", "04 00 0018 00000001 0001 000c 00000010 00000001 00000000", []uint8{4, 32}, true},
		{"bitmap of none", "04 00 0010 00000001 0001 0004 00000000", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, m, err := Decode(annotated(t, tt.bytes))
			if err != nil {
				t.Fatal(err)
			}
			versions, bitmap := m.(*Hello).Versions()
			if d := cmp.Diff(tt.versions, versions, cmpopts.EquateEmpty()); d != "" || bitmap != tt.bitmap {
				t.Errorf("got %v, %v", versions, bitmap)
			}
		})
	}
}

// TestUnknownIsKept: what is not known is the same bytes again.
func TestUnknownIsKept(t *testing.T) {
	tests := []struct{ name, bytes string }{
		{"message", "04 63 000a 00000001 abcd"},
		{"multipart", "04 12 0014 00000001 0063 0001 00000000 abcdef01"},
		{"experimenter", "04 04 0012 00000001 00abcdef 00000001 abcd"},
		{"field, action, instruction", `
			04 0e 0058 00000001
			00000000 00000000 00000000 00000000 00 00 0000 0000 0000 00000000 00000000 00000000 0000 0000
			0001 000f 0001 02 07 abcdef01020304 00
			0063 0008 abcdef01
			0003 0010 00000000 0063 0008 abcdef01`},
		{"band", "04 1d 0020 00000001 0000 0001 00000001 0063 0010 00000001 00000002 abcdef01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { roundTrip(t, annotated(t, tt.bytes)) })
	}
}

func TestAppendTooLong(t *testing.T) {
	b, err := Append([]byte{1}, 0, &EchoRequest{make([]byte, MaxLength-HeaderSize+1)})
	if err == nil || len(b) != 1 {
		t.Errorf("got %d bytes, error %v", len(b), err)
	}
	if _, err := Append(nil, 0, &EchoRequest{make([]byte, MaxLength-HeaderSize)}); err != nil {
		t.Error(err)
	}
}

func TestAnswer(t *testing.T) {
	_, _, err := Decode(make([]byte, 70))
	wantCode(t, err, BadRequestBadLen)
	answer := err.(*Fault).Answer(make([]byte, 70))
	if answer.Code != BadRequestBadLen || len(answer.Data) != 64 {
		t.Errorf("got %v with %d bytes", answer.Code, len(answer.Data))
	}
}

func TestPrinted(t *testing.T) {
	m := tcp4().Prefix(FieldIPv4Dst, netip.MustParsePrefix("10.0.0.0/8")).MAC(FieldEthSrc, packet.MAC{2}).
		Bytes(NewField(0, ClassNXM1, 3), []byte{1, 2}, nil)
	want := "eth_type=0x800,ip_proto=6,ipv4_dst=10.0.0.0/255.0.0.0,eth_src=02:00:00:00:00:00,class_0x1_3=0x0102"
	if m.String() != want {
		t.Errorf("got  %s\nwant %s", m, want)
	}
	if got := BadRequestBadLen.String() + " " + Code(0x70005).String() + " " + Code(0x630001).String(); got !=
		"BAD_REQUEST/BAD_LEN PORT_MOD_FAILED/5 99/1" {
		t.Error(got)
	}
	if got := (PortConfigPortDown | PortConfigNoFwd | 0x100).String(); got != "PORT_DOWN|NO_FWD|0x100" {
		t.Error(got)
	}
	if got := PortController.String() + " " + PortNo(5).String() + " " + TypeFlowMod.String(); got != "CONTROLLER 5 FLOW_MOD" {
		t.Error(got)
	}
}
