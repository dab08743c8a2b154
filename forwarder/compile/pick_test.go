package compile

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/datapath"
	"baton/openflow"
)

// TestPick holds the records of pick and unpick against bpf/forwarder/types.h.
func TestPick(t *testing.T) {
	methods := map[openflow.PickMethod]uint8{
		openflow.PickTurns: datapath.PickTurns, openflow.PickLeast: datapath.PickLeast, openflow.PickFastest: datapath.PickFastest,
		openflow.PickHash: datapath.PickHash, openflow.PickEven: datapath.PickEven,
	}
	at := Places{Group: func(id openflow.GroupID) uint32 { return uint32(id) + 100 }}
	for method, kernel := range methods {
		ops, err := Actions([]openflow.Action{
			openflow.ActionUnpick{Group: 1}, openflow.ActionPick{Method: method, Group: 2, Together: 0x01020304},
		}, at)
		if err != nil {
			t.Fatal(err)
		}
		want := []datapath.ForwarderOp{
			{Kind: datapath.OpUnpick, Slot: datapath.SlotGroup, Arg: 101},
			{Kind: datapath.OpPick, Slot: datapath.SlotGroup, At: kernel, Arg: 102},
		}
		binary.NativeEndian.PutUint32(want[1].Value[:], 0x01020304)
		if d := cmp.Diff(want, ops); d != "" {
			t.Errorf("%v (-want +got):\n%s", method, d)
		}
	}
	if ops, err := Actions([]openflow.Action{openflow.ActionPick{Method: openflow.PickEven + 1, Group: 2}}, at); err == nil {
		t.Errorf("a fifth method is %+v", ops)
	}
}
