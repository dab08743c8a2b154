package ports

import (
	"testing"

	"golang.org/x/sys/unix"

	"baton/lab"
	of "baton/openflow"
	"baton/packet"
)

func TestPortMod(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	p := f.open(f.options(Port{1, "eth1"}, Port{2, "none"}))
	mac := packet.MAC(k.A.MAC)
	const kept, down = of.PortConfigNoRecv | of.PortConfigNoFwd | of.PortConfigNoPacketIn, of.PortConfigPortDown
	all := kept | down

	refusals := []struct {
		name string
		mod  of.PortMod
		want of.Code
	}{
		{"no such port", of.PortMod{Port: 9, MAC: mac}, of.PortModFailedBadPort},
		{"no local port", of.PortMod{Port: of.PortLocal, MAC: mac}, of.PortModFailedBadPort},
		{"another's address", of.PortMod{Port: 1, MAC: packet.MAC{2, 1}, Mask: down, Config: down}, of.PortModFailedBadHWAddr},
		{"an unknown bit", of.PortMod{Port: 1, MAC: mac, Mask: down | 2, Config: down}, of.PortModFailedBadConfig},
		{"an ability", of.PortMod{Port: 1, MAC: mac, Mask: down, Config: down, Advertise: of.PortFeatures10MBHD},
			of.PortModFailedBadAdvertise},
	}
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			if _, fault := p.PortMod(&tt.mod); fault == nil || fault.Code != tt.want {
				t.Errorf("fault %v, want %v", fault, tt.want)
			}
			if got := f.flags("eth1"); got&unix.IFF_UP == 0 {
				t.Error("a mod that was refused has set the interface down")
			}
		})
	}

	steps := []struct {
		name         string
		config, mask of.PortConfig
		want         of.PortConfig
	}{
		{"nothing", all, 0, 0},
		{"no frames out", of.PortConfigNoFwd, of.PortConfigNoFwd, of.PortConfigNoFwd},
		{"and none in", of.PortConfigNoRecv, kept &^ of.PortConfigNoFwd, of.PortConfigNoRecv | of.PortConfigNoFwd},
		{"down", all, down, down | of.PortConfigNoRecv | of.PortConfigNoFwd},
		{"all but down", of.PortConfigNoPacketIn, all, of.PortConfigNoPacketIn},
		{"as it was", 0, all, 0},
	}
	for _, s := range steps {
		e, fault := p.PortMod(&of.PortMod{Port: 1, MAC: mac, Config: s.config, Mask: s.mask})
		if fault != nil || e.Port.Config != s.want || e.Reason != of.PortModify {
			t.Errorf("%s: %+v, %v; want %v", s.name, e, fault, s.want)
		}
		if isUp := f.flags("eth1")&unix.IFF_UP != 0; isUp != (s.want&down == 0) || e.Up && !isUp {
			t.Errorf("%s: up %v, reported %+v", s.name, isUp, e)
		}
	}

	// PORT_DOWN is what the interface is, whoever made it so; one set down by a controller stays down when it comes again.
	k.A.SetDown()
	f.last(1, "down", func(e Event) bool { return e.Port.Config == down && !e.Up })
	k.A.SetUp()
	f.last(1, "up", up)
	if _, fault := p.PortMod(&of.PortMod{Port: 1, MAC: mac, Config: down, Mask: down}); fault != nil {
		t.Fatal(fault)
	}
	f.must(f.host.Netlink().LinkDel(device(k.A)))
	f.last(1, "missing and down", func(e Event) bool { return e.Ifindex == 0 && e.Port.Config == down })
	f.add("eth1", 0)
	e := f.last(1, "down", func(e Event) bool { return e.Ifindex != 0 && e.Port.Config == down })
	if e, fault := p.PortMod(&of.PortMod{Port: 1, MAC: e.Port.MAC, Mask: down}); fault != nil || !up(e) {
		t.Errorf("up again: %+v, %v", e, fault)
	}

	// A port without interface keeps what it is reported, for when there is one.
	if e, fault := p.PortMod(&of.PortMod{Port: 2, Config: down | of.PortConfigNoFwd, Mask: all}); fault != nil ||
		e.Port.Config != down|of.PortConfigNoFwd {
		t.Errorf("without an interface: %+v, %v", e, fault)
	}
	f.add("none", 0)
	f.last(2, "there and down", func(e Event) bool { return e.Ifindex != 0 && e.Port.Config == down|of.PortConfigNoFwd })
}

// TestCloseAfterPortDown: an interface that a controller has set down is left as it was found.
func TestCloseAfterPortDown(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	p := f.open(f.options(Port{1, "eth1"}))
	const down = of.PortConfigPortDown
	if _, fault := p.PortMod(&of.PortMod{Port: 1, MAC: packet.MAC(k.A.MAC), Config: down, Mask: down}); fault != nil {
		t.Fatal(fault)
	}
	f.must(p.Close())
	if got := f.flags("eth1"); got&unix.IFF_UP == 0 {
		t.Errorf("eth1 was up, and is left with flags %#x", got)
	}
}
