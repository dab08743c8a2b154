package openflow_test

import (
	"net/netip"
	"testing"

	. "baton/openflow"
	"baton/packet"
)

// hot are the messages whose rate matters: as a controller of many flows sends and gets them.
func hot() map[string]Message {
	frame := make([]byte, 64)
	match := Match{}.Port(1).Uint(FieldEthType, 0x0800).Uint(FieldIPProto, 6).
		Addr(FieldIPv4Src, netip.MustParseAddr("10.0.0.1")).Addr(FieldIPv4Dst, netip.MustParseAddr("10.0.0.2")).
		Uint(FieldTCPSrc, 40000).Uint(FieldTCPDst, 80)
	return map[string]Message{
		"packet-in": &PacketIn{Buffer: NoBuffer, TotalLen: 64, Match: Match{}.Port(1), Data: frame},
		"packet-out": &PacketOut{Buffer: NoBuffer, InPort: PortController, Data: frame,
			Actions: []Action{ActionOutput{Port: 2}}},
		"flow-mod": flow(match, InstructionApplyActions{[]Action{
			ActionSetField{Match{}.MAC(FieldEthDst, packet.MAC{2})}, ActionIncSeq{By: 1}, ActionIncAck{By: 2}, ActionOutput{Port: 2},
		}}),
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, m := range hot() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buffer := make([]byte, 0, 512)
			for b.Loop() {
				var err error
				if buffer, err = Append(buffer[:0], 1, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, m := range hot() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buffer, err := Append(nil, 1, m)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, _, err := Decode(buffer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for name, m := range hot() {
		if name == "packet-in" {
			continue // no message for a switch
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Check(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAppendAllocates: encoding into a buffer with room allocates nothing.
func TestAppendAllocates(t *testing.T) {
	buffer := make([]byte, 0, 512)
	for name, m := range hot() {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := Append(buffer, 1, m); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
