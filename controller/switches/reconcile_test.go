package switches

import (
	"testing"

	"baton/openflow"
	"baton/packet"
)

func entry(priority uint16, match openflow.Match, cookie uint64, port openflow.PortNo) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Priority, m.Match, m.Cookie = priority, match, cookie
	m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: []openflow.Action{openflow.ActionOutput{Port: port}}}}
	return m
}

func stats(m *openflow.FlowMod) openflow.FlowStats {
	return openflow.FlowStats{Priority: m.Priority, Match: m.Match, Cookie: m.Cookie, Instructions: m.Instructions, Packets: 5}
}

func TestDifference(t *testing.T) {
	a, b := packet.MAC{2, 1}, packet.MAC{2, 2}
	match := openflow.Match{}.MAC(openflow.FieldEthDst, a).MAC(openflow.FieldEthSrc, b)
	turned := openflow.Match{}.MAC(openflow.FieldEthSrc, b).MAC(openflow.FieldEthDst, a)
	cookie := Cookie(ModulePaths, 0)
	same := entry(100, match, cookie, 1)
	drop := openflow.NewFlowMod(openflow.FlowAdd)
	drop.Cookie = cookie
	empty := *drop
	empty.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{}}
	tests := []struct {
		name string
		have *openflow.FlowMod
		want *openflow.FlowMod
		keep bool
		is   []openflow.FlowModCommand
	}{
		{"same", same, entry(100, turned, cookie, 1), false, nil},
		{"another port", same, entry(100, match, cookie, 2), false, []openflow.FlowModCommand{openflow.FlowAdd}},
		{"another cookie", same, entry(100, match, cookie+1, 1), false, []openflow.FlowModCommand{openflow.FlowAdd}},
		{"another priority", same, entry(99, match, cookie, 1), false,
			[]openflow.FlowModCommand{openflow.FlowDeleteStrict, openflow.FlowAdd}},
		{"too much", same, nil, false, []openflow.FlowModCommand{openflow.FlowDeleteStrict}},
		{"too much, but kept", same, nil, true, nil},
		{"missing", nil, same, false, []openflow.FlowModCommand{openflow.FlowAdd}},
		{"no actions in two forms", drop, &empty, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var have []openflow.FlowStats
			var want []*openflow.FlowMod
			if tt.have != nil {
				have = append(have, stats(tt.have))
			}
			if tt.want != nil {
				want = append(want, tt.want)
			}
			got := Difference(have, want, func(openflow.FlowStats) bool { return tt.keep })
			if len(got) != len(tt.is) {
				t.Fatalf("got %d messages, want %v", len(got), tt.is)
			}
			for i, m := range got {
				if m.(*openflow.FlowMod).Command != tt.is[i] {
					t.Errorf("message %d is %v, want %v", i, m.(*openflow.FlowMod).Command, tt.is[i])
				}
			}
		})
	}
}
