package seqack

import (
	"testing"

	"baton/openflow"
)

// TestTheWayBackUndoes: what is added to a number of one direction is taken away where the other direction repeats it.
func TestTheWayBackUndoes(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			there, back := sums(t, k.numbers.there), sums(t, k.numbers.back)
			for _, pair := range [][2]openflow.HandoffSubtype{
				{openflow.HandoffIncSeq, openflow.HandoffIncAck}, {openflow.HandoffIncAck, openflow.HandoffIncSeq},
				{openflow.HandoffIncTSval, openflow.HandoffIncTSecr}, {openflow.HandoffIncTSecr, openflow.HandoffIncTSval},
			} {
				if there[pair[0]]+back[pair[1]] != 0 {
					t.Errorf("%v there by %#x, %v back by %#x", pair[0], there[pair[0]], pair[1], back[pair[1]])
				}
			}
			for _, way := range []map[openflow.HandoffSubtype]uint32{there, back} {
				if sack, ok := way[openflow.HandoffIncSACK]; ok && sack != way[openflow.HandoffIncAck] {
					t.Errorf("SACK by %#x, acknowledgements by %#x", sack, way[openflow.HandoffIncAck])
				}
			}
		})
	}
}

func sums(t *testing.T, list []openflow.Action) map[openflow.HandoffSubtype]uint32 {
	t.Helper()
	by := map[openflow.HandoffSubtype]uint32{}
	for _, a := range list {
		switch a := a.(type) {
		case openflow.ActionIncSeq:
			by[openflow.HandoffIncSeq] += a.By
		case openflow.ActionIncAck:
			by[openflow.HandoffIncAck] += a.By
		case openflow.ActionIncSACK:
			by[openflow.HandoffIncSACK] += a.By
		case openflow.ActionIncTSval:
			by[openflow.HandoffIncTSval] += a.By
		case openflow.ActionIncTSecr:
			by[openflow.HandoffIncTSecr] += a.By
		case openflow.ActionRescaleWindow, openflow.ActionClampMSS:
		default:
			t.Errorf("%T is not undone", a)
		}
	}
	return by
}
