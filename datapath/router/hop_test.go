package router

import (
	"testing"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
	"baton/packet/packettest"
)

// The next hop comes from the routing table: looked up at most once a second, cached in the splice, and updated.
func TestNextHop(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		kerneltest.Forward(t)
		north, south := k.link("north0"), k.link("south0")
		gateway, prefix := "10.99.0.9", "10.99.0.1/24"
		if f.client.Addr().Is6() {
			gateway, prefix = "fd99::9", "fd99::1/64"
		}
		family := map[bool]string{true: "-4", false: "-6"}[f.client.Addr().Is4()]
		kerneltest.IP(t, "addr", "add", prefix, "dev", "south0", "nodad")
		kerneltest.IP(t, family, "neigh", "replace", gateway, "lladdr", "02:00:00:00:00:77", "dev", "south0", "nud", "permanent")
		kerneltest.IP(t, family, "route", "replace", f.surrogate.Addr().String(), "via", gateway, "dev", "south0",
			"mtu", "lock", "1300")
		k.ifindex = north

		client, server := f.legs()
		s := spliceOf(client, server)
		s.ToServer.Ifindex, s.ToServer.Checked = north, 0
		k.put(0, s)
		send := func(want packet.MAC) {
			t.Helper()
			r := k.want(packet.Build(f.fromClient("")), routerVerdictTO_SERVER, actRedirect)
			got := r.parsed(t).Ethernet().Dst()
			if got != want {
				t.Fatalf("next hop: got %v, want %v", got, want)
			}
		}
		first, second := packet.MAC{2, 0, 0, 0, 0, 0x77}, packet.MAC{2, 0, 0, 0, 0, 0x78}
		send(first)
		got := k.splice(0).ToServer
		if got.Ifindex != south || got.Dmac != first || got.Checked == 0 || got.Mtu != 1300 {
			t.Errorf("kept: %+v, want interface %d, %v, MTU 1300", got, south, first)
		}
		const tick = 10 // ms, at most; Clock may be a tick and a ms behind the kernel's
		if age := int32(datapath.Clock() - got.Checked); age < -1-tick || age > 2000 {
			t.Errorf("kept since %d ms", age)
		}

		// a change is seen after a while
		kerneltest.IP(t, family, "neigh", "replace", gateway, "lladdr", "02:00:00:00:00:78", "dev", "south0", "nud", "permanent")
		fresh := k.splice(0)
		fresh.ToServer.Checked = datapath.Clock() + 1 // the kernel never writes 0, so that it may be ahead by 1
		k.put(0, *fresh)
		send(first)
		old := k.splice(0)
		old.ToServer.Checked = datapath.Clock() - 2000
		k.put(0, *old)
		send(second)
		if got := k.splice(0).ToServer; got.Dmac != second {
			t.Errorf("kept: %+v, want %v", got, second)
		}

		// an unknown neighbour is resolved on the interface of the current route
		kerneltest.IP(t, family, "neigh", "del", gateway, "dev", "south0")
		lost := k.splice(0)
		lost.ToServer.Checked, lost.ToServer.Ifindex = 0, north
		k.put(0, *lost)
		r := k.want(packet.Build(f.fromClient("")), routerVerdictTO_SERVER, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.MACs(clientMAC, routerMAC))
	})
}
