package host

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"baton/balance/config"
	"baton/lab"
	"baton/lab/peers"
)

// withOpenVSwitch has Open vSwitch run on the host, with a bridge of somebody else.
func withOpenVSwitch(t *testing.T, n *network) State {
	t.Helper()
	s := peers.OpenVSwitch(n.host, peers.OpenVSwitchOptions{Bridge: "others", NoTSO: true})
	n.env = []string{"OVS_RUNDIR=" + s.Dir}
	t.Setenv("OVS_RUNDIR", s.Dir)
	for _, k := range n.uplinks {
		n.mustExec("ethtool", "-K", k.A.Name, "gro", "on")
		n.mustExec("tc", "qdisc", "add", "dev", k.A.Name, "root", "handle", "5:", "tbf", "rate", "1gbit", "burst", "256k", "latency", "50ms")
	}
	state := n.state()
	state.Datapath = config.OpenVSwitch
	return state
}

// TestStateIsAsBeforeWithOpenVSwitch is TestStateIsAsBefore with a bridge, a table of nftables, and offloads switched off.
func TestStateIsAsBeforeWithOpenVSwitch(t *testing.T) {
	n := newNetwork(t)
	killEverywhere(t, n, withOpenVSwitch(t, n), 5)
}

func TestOpenVSwitch(t *testing.T) {
	n := newNetwork(t)
	s := withOpenVSwitch(t, n)
	n.echoServer(server4 + ":7")
	before, err := n.host.Dial(t.Context(), "tcp", server4+":7")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { before.Close() })
	h := n.open()
	n.divert(h, s)
	ports := n.mustExec("ovs-vsctl", "--bare", "--columns=name,ofport", "find", "interface", "type!=internal")
	for _, want := range []string{"bal0p\n1", "eth0\n2", "eth1\n3"} {
		if !strings.Contains(ports, want) {
			t.Errorf("ports %q, want %q", ports, want)
		}
	}
	if got := n.mustExec("ovs-vsctl", "get-fail-mode", "bal0br"); strings.TrimSpace(got) != "secure" {
		t.Errorf("fail mode %q", got)
	}
	if got := n.mustExec("ovs-vsctl", "get-controller", "bal0br"); strings.TrimSpace(got) != s.Controller {
		t.Errorf("controller %q", got)
	}
	for device, want := range map[string]string{"eth0": "generic-receive-offload: off", "bal0": "tx-checksumming: off", "bal0p": "generic-receive-offload: "} {
		if got := n.mustExec("ethtool", "-k", device); !strings.Contains(got, want) {
			t.Errorf("%s has not %q:\n%s", device, want, got)
		}
	}
	if got := n.mustExec("tc", "qdisc", "show", "dev", "eth0"); !strings.Contains(got, "tbf 5:") {
		t.Errorf("the link's queue is gone: %q", got)
	}
	bound, err := n.host.DialFrom(t.Context(), "tcp", "10.1.0.2:0", server4+":7")
	if err != nil {
		t.Fatalf("a link that is a port: %v", err)
	}
	defer bound.Close()
	if err := talk(before); err != nil {
		t.Errorf("a connection from before, by a link that is a port: %v", err)
	}
	if err := talk(bound); err != nil {
		t.Errorf("a connection that is bound to a link that is a port: %v", err)
	}
	s.Links = s.Links[:1]
	n.do(func() error { return h.Prepare(Make(s)) })
	if got := n.mustExec("ovs-vsctl", "list-ports", "bal0br"); strings.Contains(got, "eth1") {
		t.Errorf("ports %q of one link", got)
	}
	if got := n.mustExec("ethtool", "-k", "eth1"); !strings.Contains(got, "generic-receive-offload: on") {
		t.Errorf("a link that is none any more:\n%s", got)
	}
	n.do(h.Close)
	if err := talk(before); err != nil {
		t.Errorf("a connection from before, afterwards: %v", err)
	}
	if got := n.mustExec("ovs-vsctl", "list-br"); strings.TrimSpace(got) != "others" {
		t.Errorf("bridges %q are left", got)
	}
}

// The host's stack gets a copy of the switch's packets, and the internal interface one of the host's own. Neither interferes.
func TestHush(t *testing.T) {
	n := newNetwork(t)
	s := withOpenVSwitch(t, n)
	n.uplinks[0].B.Offloads(false) // what Open vSwitch in user space cannot have
	n.echoServer(server4 + ":7")
	n.echoServer("[" + server6 + "]:7")
	l, err := n.host.Listen("tcp", ":22") // also on the internal address
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			_, err = io.ReadFull(c, make([]byte, 5))
		}
		if err == nil {
			_, err = c.Write([]byte("hello"))
		}
		accepted <- err
	}()
	own, err := n.host.Dial(t.Context(), "tcp", server4+":7")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()

	h := n.open()
	n.divert(h, s)
	link, gateway := n.uplinks[0].A.MAC, n.uplinks[0].B.MAC
	for _, protocol := range []string{"tcp", "udp", "icmp"} {
		n.flow("in_port=1,%s,dl_dst=02:42:74:00:00:00,actions=set_field:%s->eth_src,set_field:%s->eth_dst,set_field:10.0.0.2->ip_src,output:2",
			protocol, link, gateway)
		n.flow("in_port=2,%s,nw_dst=10.0.0.2,actions=set_field:02:42:74:00:00:00->eth_src,set_field:%s->eth_dst,set_field:192.0.0.2->ip_dst,output:1",
			protocol, net.HardwareAddr(HostMAC[:]))
	}
	n.flow("in_port=1,tcp6,dl_dst=02:42:74:00:00:00,actions=set_field:%s->eth_src,set_field:%s->eth_dst,set_field:2001:db8::2->ipv6_src,output:2", link, gateway)
	n.flow("in_port=2,tcp6,ipv6_dst=2001:db8::2,actions=set_field:02:42:74:00:00:00->eth_src,set_field:%s->eth_dst,set_field:64:ff9b:1::2->ipv6_dst,output:1",
		net.HardwareAddr(HostMAC[:]))

	resets := n.uplinks[0].A.Capture(lab.CaptureOptions{Keep: func(frame []byte) bool {
		if frame[12] != 0x08 || frame[13] != 0 {
			return false
		}
		if frame[23] == unix.IPPROTO_ICMP {
			return frame[34] == 3
		}
		answer := frame[47]&(tcpSYN|tcpACK) == tcpSYN|tcpACK && frame[34] == 0 && frame[35] == 22
		return frame[23] == unix.IPPROTO_TCP && (frame[47]&tcpRST != 0 || answer)
	}})
	for _, address := range []string{server4 + ":7", "[" + server6 + "]:7"} {
		for range 3 {
			c, err := n.host.Dial(t.Context(), "tcp", address)
			if err != nil {
				t.Fatalf("%s: %v", address, err)
			}
			if host, _, _ := net.SplitHostPort(c.LocalAddr().String()); host != "192.0.0.2" && host != "64:ff9b:1::2" {
				t.Errorf("%s: the source is %s", address, host)
			}
			for range 5 {
				if err := talk(c); err != nil {
					t.Errorf("%s: %v", address, err)
				}
			}
			if err := talk(own); err != nil {
				t.Errorf("the host's own connection: %v", err)
			}
			c.Close()
		}
	}
	in, err := n.server.DialFrom(t.Context(), "tcp", server4+":0", "10.0.0.2:22")
	if err != nil {
		t.Fatalf("a connection to the host: %v", err)
	}
	defer in.Close()
	if err := talk(in); err != nil {
		t.Errorf("a connection to the host: %v", err)
	}
	if err := <-accepted; err != nil {
		t.Errorf("a connection to the host: %v", err)
	}
	answers := 0
	for _, p := range resets.Stop() {
		if p.Data[23] == unix.IPPROTO_TCP && p.Data[47]&tcpRST == 0 {
			answers++
			continue
		}
		t.Errorf("a reset or an error: % x", p.Data)
	}
	if answers != 1 {
		t.Errorf("%d answers to the SYN of a connection to the host", answers)
	}
	n.do(h.Close)
}

func (n *network) flow(format string, args ...any) {
	n.t.Helper()
	n.mustExec("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "unix:"+strings.TrimPrefix(n.env[0], "OVS_RUNDIR=")+"/bal0br.mgmt", fmt.Sprintf(format, args...))
}
