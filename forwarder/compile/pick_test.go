package compile

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	kernel "baton/datapath/forwarder"
	"baton/openflow"
)

// TestPick holds the records of pick and unpick against bpf/forwarder/types.h.
func TestPick(t *testing.T) {
	methods := map[openflow.PickMethod]uint8{
		openflow.PickTurns: kernel.PickTurns, openflow.PickLeast: kernel.PickLeast, openflow.PickFastest: kernel.PickFastest,
		openflow.PickHash: kernel.PickHash, openflow.PickEven: kernel.PickEven,
	}
	at := Places{Group: func(id openflow.GroupID) uint32 { return uint32(id) + 100 }}
	for method, number := range methods {
		ops, err := Actions([]openflow.Action{
			openflow.ActionUnpick{Group: 1}, openflow.ActionPick{Method: method, Group: 2, Together: 0x01020304},
		}, at)
		if err != nil {
			t.Fatal(err)
		}
		want := []kernel.Op{
			{Kind: kernel.OpUnpick, Slot: kernel.SlotGroup, Arg: 101},
			{Kind: kernel.OpPick, Slot: kernel.SlotGroup, At: number, Arg: 102},
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
