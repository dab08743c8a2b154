package openflow_test

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/openflow"
)

// messages has one of every message type, of every multipart request and reply, and of every typed experimenter's message.
var messages = []openflow.Message{
	&openflow.Hello{}, &openflow.Error{}, &openflow.EchoRequest{}, &openflow.EchoReply{}, &openflow.Experimenter{},
	&openflow.FeaturesRequest{}, &openflow.FeaturesReply{}, &openflow.GetConfigRequest{}, &openflow.GetConfigReply{},
	&openflow.SetConfig{}, &openflow.PacketIn{}, &openflow.FlowRemoved{}, &openflow.PortStatus{}, &openflow.PacketOut{},
	&openflow.FlowMod{}, &openflow.GroupMod{}, &openflow.PortMod{}, &openflow.TableMod{}, &openflow.BarrierRequest{},
	&openflow.BarrierReply{}, &openflow.QueueGetConfigRequest{}, &openflow.QueueGetConfigReply{}, &openflow.RoleRequest{},
	&openflow.RoleReply{}, &openflow.GetAsyncRequest{}, &openflow.GetAsyncReply{}, &openflow.SetAsync{}, &openflow.MeterMod{},
	&openflow.SetPacketInFormat{}, &openflow.SetControllerID{}, &openflow.BundleControl{}, &openflow.BundleAdd{},

	&openflow.MultipartRequest{Body: openflow.DescRequest{}}, &openflow.MultipartReply{Body: openflow.DescReply{}},
	&openflow.MultipartRequest{Body: openflow.FlowStatsRequest{}}, &openflow.MultipartReply{Body: openflow.FlowStatsReply{}},
	&openflow.MultipartRequest{Body: openflow.AggregateRequest{}}, &openflow.MultipartReply{Body: openflow.AggregateReply{}},
	&openflow.MultipartRequest{Body: openflow.TableStatsRequest{}}, &openflow.MultipartReply{Body: openflow.TableStatsReply{}},
	&openflow.MultipartRequest{Body: openflow.PortStatsRequest{}}, &openflow.MultipartReply{Body: openflow.PortStatsReply{}},
	&openflow.MultipartRequest{Body: openflow.PortDescRequest{}}, &openflow.MultipartReply{Body: openflow.PortDescReply{}},
	&openflow.MultipartRequest{Body: openflow.QueueStatsRequest{}}, &openflow.MultipartReply{Body: openflow.QueueStatsReply{}},
	&openflow.MultipartRequest{Body: openflow.GroupStatsRequest{}}, &openflow.MultipartReply{Body: openflow.GroupStatsReply{}},
	&openflow.MultipartRequest{Body: openflow.GroupDescRequest{}}, &openflow.MultipartReply{Body: openflow.GroupDescReply{}},
	&openflow.MultipartRequest{Body: openflow.GroupFeaturesRequest{}}, &openflow.MultipartReply{Body: openflow.GroupFeaturesReply{}},
	&openflow.MultipartRequest{Body: openflow.MeterStatsRequest{}}, &openflow.MultipartReply{Body: openflow.MeterStatsReply{}},
	&openflow.MultipartRequest{Body: openflow.MeterConfigRequest{}}, &openflow.MultipartReply{Body: openflow.MeterConfigReply{}},
	&openflow.MultipartRequest{Body: openflow.MeterFeaturesRequest{}}, &openflow.MultipartReply{Body: openflow.MeterFeaturesReply{}},
	&openflow.MultipartRequest{Body: openflow.TableFeaturesBody{}}, &openflow.MultipartReply{Body: openflow.TableFeaturesBody{}},
	&openflow.MultipartRequest{Body: openflow.MultipartExperimenterBody{}},
	&openflow.MultipartReply{Body: openflow.MultipartExperimenterBody{}},
}

// actions and instructions have one of every type.
var (
	actions = []openflow.Action{
		openflow.ActionOutput{}, openflow.ActionGroup{}, openflow.ActionSetQueue{}, openflow.ActionSetMPLSTTL{},
		openflow.ActionDecMPLSTTL{}, openflow.ActionSetNWTTL{}, openflow.ActionDecNWTTL{}, openflow.ActionCopyTTLOut{},
		openflow.ActionCopyTTLIn{}, openflow.ActionPushVLAN{}, openflow.ActionPopVLAN{}, openflow.ActionPushMPLS{},
		openflow.ActionPopMPLS{}, openflow.ActionPushPBB{}, openflow.ActionPopPBB{}, openflow.ActionSetField{},
		openflow.ActionExperimenter{}, openflow.ActionIncSeq{}, openflow.ActionIncAck{}, openflow.ActionIncSACK{},
		openflow.ActionIncTSval{}, openflow.ActionIncTSecr{}, openflow.ActionRescaleWindow{}, openflow.ActionClampMSS{},
		openflow.ActionStripOption{}, openflow.ActionBind{}, openflow.ActionUnbind{},
	}
	instructions = []openflow.Instruction{
		openflow.InstructionGotoTable{}, openflow.InstructionWriteMetadata{}, openflow.InstructionWriteActions{},
		openflow.InstructionApplyActions{}, openflow.InstructionClearActions{}, openflow.InstructionMeter{},
	}
)

// random makes values for every field of a message.
type random struct {
	*rand.Rand
	// alone: no other implementation has to agree. It would not know Baton's plain actions.
	alone bool
}

// message returns a copy of m with random fields.
func (r random) message(m openflow.Message) openflow.Message {
	v := reflect.New(reflect.TypeOf(m).Elem())
	v.Elem().Set(reflect.ValueOf(m).Elem())
	r.fill(v.Elem())
	if out, ok := v.Interface().(*openflow.PacketOut); ok {
		out.Buffer = openflow.NoBuffer // with data
	}
	return v.Interface().(openflow.Message)
}

func (r random) fill(v reflect.Value) {
	if r.fillSpecial(v) {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> (64 - v.Type().Bits()))
	case reflect.String:
		v.SetString(r.text())
	case reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			r.fill(v.Index(i))
		}
	case reflect.Slice:
		list := reflect.MakeSlice(v.Type(), r.IntN(3)+1, 3)
		for i := range list.Len() {
			r.fill(list.Index(i))
		}
		v.Set(list)
	default:
		panic("random: " + v.Type().String())
	}
}

// fillSpecial fills what may not have any value.
func (r random) fillSpecial(v reflect.Value) bool {
	var made any
	switch x := v.Interface().(type) {
	case openflow.Match:
		made = r.match()
	case openflow.ActionSetField:
		fields := openflow.Fields()
		made = openflow.ActionSetField{Field: r.field(nil, fields[r.IntN(len(fields))], false)}
	case openflow.ActionExperimenter:
		made = openflow.ActionExperimenter{Experimenter: 0x00abcdef, Data: r.bytes(8)}
	case openflow.ActionIncSeq:
		made = openflow.ActionIncSeq{By: r.Uint32(), Plain: r.alone && r.IntN(2) == 1}
	case openflow.ActionIncAck:
		made = openflow.ActionIncAck{By: r.Uint32(), Plain: r.alone && r.IntN(2) == 1}
	case openflow.Band:
		made = r.band()
	case openflow.QueueProp:
		made = openflow.QueueProp{Kind: openflow.QueueMinRate + openflow.QueuePropType(r.IntN(2)), Rate: uint16(r.Uint32())}
	case openflow.TableProp:
		made = r.property()
	case openflow.TypeID:
		made = openflow.TypeID{Type: uint16(r.IntN(30))}
	case openflow.FieldID:
		fields := openflow.Fields()
		id := openflow.NewFieldID(fields[r.IntN(len(fields))], false)
		if !r.alone {
			id.Length = 0 // as os-ken writes it
		}
		made = id
	case openflow.HelloElement:
		made = openflow.HelloElement{Kind: 1, Data: binary.BigEndian.AppendUint32(nil, r.Uint32()>>1)} // os-ken sees 31 bits
	case openflow.Code:
		made = openflow.BadMatchBadPrereq
	case openflow.MultipartFlags:
		made = openflow.MultipartFlags(r.IntN(2))
	case openflow.BundleAdd:
		made = openflow.BundleAdd{Bundle: r.Uint32(), Flags: 3, Message: r.bytes(16)}
	case []byte:
		made = r.bytes(r.IntN(20) + 1)
	case openflow.Error:
		made = openflow.Error{Code: openflow.GroupModFailedLoop, Data: r.bytes(64)}
	case openflow.BundleControl:
		made = openflow.BundleControl{Bundle: r.Uint32(), Kind: openflow.BundleCommit, Flags: 3, Properties: r.bytes(8)}
	default:
		if v.Kind() != reflect.Interface {
			return false
		}
		made = r.choose(v, x)
	}
	v.Set(reflect.ValueOf(made))
	return true
}

// choose fills the interface that a field has: a multipart body stays of its type, of an action or instruction any is taken.
func (r random) choose(v reflect.Value, x any) any {
	switch v.Type() {
	case reflect.TypeFor[openflow.Action]():
		x = actions[r.IntN(len(actions))]
	case reflect.TypeFor[openflow.Instruction]():
		x = instructions[r.IntN(len(instructions))]
	}
	made := reflect.New(reflect.TypeOf(x)).Elem()
	r.fill(made)
	return made.Interface()
}

func (r random) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r random) text() string {
	b := make([]byte, r.IntN(15)+1)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
	}
	return string(b)
}

func (r random) band() openflow.Band {
	b := openflow.Band{Kind: openflow.BandDrop, Rate: r.Uint32(), Burst: r.Uint32()}
	if r.IntN(2) == 1 {
		b.Kind, b.PrecLevel = openflow.BandDSCPRemark, uint8(r.IntN(8))
	}
	return b
}

func (r random) property() openflow.TableProp {
	switch r.IntN(3) {
	case 0:
		p := openflow.TableProp{Kind: openflow.PropNextTables}
		r.fill(reflect.ValueOf(&p.Tables).Elem())
		return p
	case 1:
		p := openflow.TableProp{Kind: openflow.PropApplyActions}
		r.fill(reflect.ValueOf(&p.Types).Elem())
		return p
	}
	p := openflow.TableProp{Kind: openflow.PropMatch}
	r.fill(reflect.ValueOf(&p.Fields).Elem())
	return p
}

// match returns a few different fields in the order of their numbers, without regard for prerequisites.
func (r random) match() openflow.Match {
	var m openflow.Match
	for _, f := range openflow.Fields() {
		if r.IntN(8) == 0 {
			m = r.field(m, f, f.Maskable() && r.IntN(2) == 1)
		}
	}
	return m
}

// field appends a field, whose value has no bits beyond the field's, nor outside of its mask.
func (r random) field(m openflow.Match, f openflow.Field, masked bool) openflow.Match {
	value, mask := r.bytes(f.Size()), []byte(nil)
	for i := range value {
		below := 8 * (f.Size() - i - 1) // bits behind this byte
		value[i] &= byte(1<<min(max(f.Bits()-below, 0), 8) - 1)
	}
	if masked {
		mask = make([]byte, len(value))
		for i := range mask {
			mask[i] = value[i] | byte(i+1)
		}
	}
	return m.Bytes(f, value, mask)
}

func newRandom(t *testing.T) random {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return random{Rand: rand.New(rand.NewPCG(seed, 0))}
}

// TestEveryMessage: any value of any message is the same value after encoding and decoding, into new memory.
func TestEveryMessage(t *testing.T) {
	r := newRandom(t)
	r.alone = true
	for _, m := range messages {
		for range 50 {
			want := r.message(m)
			b, err := openflow.Append(nil, 7, want)
			if err != nil {
				t.Fatal(err)
			}
			h, got, err := openflow.Decode(b)
			if err != nil {
				t.Fatalf("%T %+v: %v", want, want, err)
			}
			if h.XID != 7 || int(h.Length) != len(b) || h.Type != want.Type() {
				t.Fatalf("%T: header %+v of %d bytes", want, h, len(b))
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%T (-want +got):\n%s", want, d)
			}
		}
	}
}

// TestEveryMessageCut: no message is accepted when its end is missing, whatever its length field says.
func TestEveryMessageCut(t *testing.T) {
	r := newRandom(t)
	for _, m := range messages {
		whole, err := openflow.Append(nil, 7, r.message(m))
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(whole) {
			if _, _, err := openflow.Decode(whole[:n:n]); err == nil {
				t.Fatalf("%T: %d of %d bytes were accepted", m, n, len(whole))
			}
		}
	}
}
