package forwarder_test

import (
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// TestBetweenSwitches: host, Open vSwitch, forwarder, Open vSwitch, host, with a VLAN trunk on either side of the forwarder.
func TestBetweenSwitches(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flows []string
	}{
		{"entries", []string{"in_port=1,dl_vlan=100,actions=output:2", "in_port=2,dl_vlan=100,actions=output:1"}},
		{"NORMAL", []string{"actions=normal"}},
		{"the tag is changed twice", []string{"table=0,dl_vlan=100,actions=pop_vlan,goto_table:1",
			"table=1,in_port=1,actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:2",
			"table=1,in_port=2,actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, 0, lab.LinkOptions{})
			none := lab.LinkOptions{NoOffloads: true}
			var ends []*lab.Host
			for i, name := range []string{"west", "east"} {
				h, sw := s.Host(name), s.Host(name+"-switch")
				silence(h)
				silence(sw)
				k := s.Link(lab.End{Host: h, Name: "eth0", Addrs: []string{address(i+1).String() + "/24"}}, lab.End{Host: sw, Name: "host"}, none)
				trunk := s.Link(lab.End{Host: sw, Name: "trunk"}, lab.End{Host: s.node, Name: []string{"p1", "p2"}[i]}, none)
				ovs := peers.OpenVSwitch(sw, peers.OpenVSwitchOptions{Ports: []string{"host", "trunk"}, NoTSO: true})
				_, err := ovs.Vsctl(s.within(), "set", "port", "host", "tag=100")
				s.must(err)
				ends = append(ends, h)
				s.hosts, s.cables = append(s.hosts, h), append(s.cables, &lab.Link{A: trunk.B, B: k.A})
			}
			s.start("")
			for _, flow := range tt.flows {
				s.ofctl("add-flow", flow)
			}
			lab.Eventually(t, patience, func() error { return s.ping(1, 2) })
			s.must(s.ping(2, 1))
			peers.Iperf3Server(ends[1])
			for _, reverse := range []bool{false, true} {
				var flow peers.Flow
				lab.Eventually(t, patience, func() (err error) { // the server serves one after another
					flow, err = peers.Iperf3(s.within(), ends[0], address(2).String(), peers.Iperf3Options{Bytes: 4 << 20, Reverse: reverse})
					return err
				})
				if flow.Sent < 4<<20 || flow.Received == 0 {
					t.Errorf("reverse %v: %d bytes sent, %d received", reverse, flow.Sent, flow.Received)
				}
			}
		})
	}
}
