package router

import (
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// A replayed packet re-enters its client's interface; one that belongs to nobody any more is dropped.
func TestReplay(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		k.must(k.maps.Clients.Update(tuple(f.nth(1).client, f.vip), &routerClient{Ifindex: 1}, ebpf.UpdateAny))
		k.must(k.maps.Flows.Update(tuple(f.nth(2).client, f.vip), localFlow(1), ebpf.UpdateAny))
		k.must(k.maps.Flows.Update(tuple(f.nth(3).client, f.vip), endedFlow(datapath.Clock(), routerSideSIDE_LINGER), ebpf.UpdateAny))
		for _, tc := range []struct {
			name string
			spec packet.Spec
			want uint32
		}{
			{"spliced", c.packet(packet.ACK, plainRequest), actRedirect},
			{"pending", f.nth(1).fromClient(plainRequest), actRedirect},
			{"local", f.nth(2).fromClient(plainRequest), actRedirect},
			{"lingering", f.nth(3).fromClient(plainRequest), actShot},
			{"unknown", f.nth(4).fromClient(plainRequest), actShot},
			{"surrogate's", s.packet(packet.ACK, "x"), actShot},
		} {
			got, err := k.programs.RouterReplay.Run(&ebpf.RunOptions{Data: packet.Build(tc.spec)})
			if err != nil || got != tc.want {
				t.Errorf("%s: got action %d, %v, want %d", tc.name, got, err, tc.want)
			}
		}
	})
}
