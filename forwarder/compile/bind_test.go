package compile

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	kernel "baton/datapath/forwarder"
	"baton/openflow"
)

// TestBind holds the records of bind and unbind against bpf/forwarder/types.h.
func TestBind(t *testing.T) {
	methods := map[openflow.BindMethod]uint8{
		openflow.BindRoundRobin: kernel.BindRoundRobin, openflow.BindLeast: kernel.BindLeast, openflow.BindFastest: kernel.BindFastest,
		openflow.BindHash: kernel.BindHash, openflow.BindEven: kernel.BindEven,
	}
	at := Places{Group: func(id openflow.GroupID) uint32 { return uint32(id) + 100 }}
	for method, number := range methods {
		ops, err := Actions([]openflow.Action{
			openflow.ActionUnbind{Group: 1}, openflow.ActionBind{Method: method, Group: 2, Affinity: 0x01020304},
		}, at)
		if err != nil {
			t.Fatal(err)
		}
		want := []kernel.Op{
			{Kind: kernel.OpUnbind, Slot: kernel.SlotGroup, Arg: 101},
			{Kind: kernel.OpBind, Slot: kernel.SlotGroup, At: number, Arg: 102},
		}
		binary.NativeEndian.PutUint32(want[1].Value[:], 0x01020304)
		if d := cmp.Diff(want, ops); d != "" {
			t.Errorf("%v (-want +got):\n%s", method, d)
		}
	}
	if ops, err := Actions([]openflow.Action{openflow.ActionBind{Method: openflow.BindEven + 1, Group: 2}}, at); err == nil {
		t.Errorf("a fifth method is %+v", ops)
	}
}
