package compile

import (
	"bytes"
	"testing"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

func TestFuse(t *testing.T) {
	set := func(m openflow.Match) openflow.Action { return openflow.ActionSetField{Field: m} }
	dst := set(openflow.Match{}.MAC(openflow.FieldEthDst, packet.MAC{1, 2, 3, 4, 5, 6}))
	src := set(openflow.Match{}.MAC(openflow.FieldEthSrc, packet.MAC{7, 8, 9, 10, 11, 12}))
	from := set(openflow.Match{}.Uint(openflow.FieldTCPSrc, 0x1234))
	to := set(openflow.Match{}.Uint(openflow.FieldTCPDst, 0x5678))
	tests := []struct {
		name string
		list []openflow.Action
		want []string // values of the patches; "" is another op
	}{
		{"link addresses", []openflow.Action{dst, src}, []string{"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c"}},
		{"the other way round", []openflow.Action{src, dst}, []string{"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c"}},
		{"ports", []openflow.Action{from, to}, []string{"\x12\x34\x56\x78"}},
		{"both", []openflow.Action{dst, src, to, from}, []string{"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c", "\x12\x34\x56\x78"}},
		{"one twice", []openflow.Action{dst, dst}, []string{"\x01\x02\x03\x04\x05\x06", "\x01\x02\x03\x04\x05\x06"}},
		{"an output between", []openflow.Action{dst, openflow.ActionOutput{Port: 1}, src}, []string{"\x01\x02\x03\x04\x05\x06", "", "\x07\x08\x09\x0a\x0b\x0c"}},
		{"a port of TCP and one of UDP", []openflow.Action{from, set(openflow.Match{}.Uint(openflow.FieldUDPDst, 1))}, []string{"\x12\x34", "\x00\x01"}},
		{"masked", []openflow.Action{set(openflow.Match{}.Uint(openflow.FieldMPLSTC, 1)), set(openflow.Match{}.Uint(openflow.FieldMPLSBOS, 0))},
			[]string{"\x00\x00\x02\x00", "\x00\x00\x00\x00"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ops, err := Actions(tt.list, Places{Port: func(openflow.PortNo) uint32 { return 1 }})
			if err != nil {
				t.Fatal(err)
			}
			if len(ops) != len(tt.want) {
				t.Fatalf("got %d ops, want %d: %+v", len(ops), len(tt.want), ops)
			}
			for i, want := range tt.want {
				op := ops[i]
				if (op.Kind == kernel.OpPatch) != (want != "") || !bytes.Equal(op.Value[:op.Len], []byte(want)) {
					t.Errorf("%d: got %+v, want %x", i, op, want)
				}
			}
		})
	}
}

// TestWrittenIsNotFused: each action of a set has a slot of its own, and may be replaced by itself.
func TestWrittenIsNotFused(t *testing.T) {
	set := func(f openflow.Field) openflow.Action {
		return openflow.ActionSetField{Field: openflow.Match{}.MAC(f, packet.MAC{2})}
	}
	list := []openflow.Action{set(openflow.FieldEthDst), set(openflow.FieldEthSrc)}
	for _, tt := range []struct {
		name string
		in   openflow.Instruction
		want int
	}{{"applied", openflow.InstructionApplyActions{Actions: list}, 1}, {"written", openflow.InstructionWriteActions{Actions: list}, 2}} {
		_, ops, err := Entry(&pipeline.Entry{Instructions: []openflow.Instruction{tt.in}}, Places{})
		if err != nil || len(ops) != tt.want {
			t.Errorf("%s: got %d ops, %v, want %d", tt.name, len(ops), err, tt.want)
		}
	}
}
