package host

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/balance/links"
	"baton/lab"
)

// open opens the host's side in this process, and closes it with the test unless that is done before.
func (n *network) open() *Host {
	n.t.Helper()
	var h *Host
	n.do(func() (err error) { h, err = Open("test", Options{Folder: n.folder}); return err })
	n.t.Cleanup(func() { n.do(func() error { _, err := Restore("test", Options{Folder: n.folder}); return err }) })
	return h
}

func (n *network) do(f func() error) {
	n.t.Helper()
	if err := n.host.Do(f); err != nil {
		n.t.Fatal(err)
	}
}

// divert prepares and diverts.
func (n *network) divert(h *Host, s State) {
	n.t.Helper()
	n.do(func() error {
		if err := h.Prepare(Make(s)); err != nil {
			return err
		}
		return h.Divert()
	})
}

// way is what the kernel says of the way to an address.
func (n *network) path(args ...string) string {
	n.t.Helper()
	out, err := n.exec("ip", append([]string{"route", "get"}, args...)...)
	if err != nil {
		return "none"
	}
	first, _, _ := strings.Cut(out, "\n")
	return strings.Join(strings.Fields(first), " ") + " "
}

func (n *network) wantPaths(when string, paths map[string]string) {
	n.t.Helper()
	for to, want := range paths {
		got := n.path(strings.Fields(to)...)
		for _, w := range strings.Split(want, ", ") {
			if !strings.Contains(got, w) {
				n.t.Errorf("%s, the way to %q is %q, want %q", when, to, got, w)
			}
		}
	}
}

func TestPaths(t *testing.T) {
	n := newNetwork(t)
	direct := map[string]string{
		server4: "via 10.0.0.1 dev eth0 src 10.0.0.2", server6: "via 2001:db8::1 dev eth0",
		server4 + " uid 4711": "via 10.0.0.1 dev eth0", "224.0.0.251": "dev eth0",
	}
	internal := map[string]string{
		server4: "via 192.0.0.1 dev bal0, src 192.0.0.2", server6: "via 64:ff9b:1::1 dev bal0, src 64:ff9b:1::2",
		server4 + " uid 4711":                   "via 192.0.0.3 dev bal0, src 192.0.0.2",
		server6 + " uid 4711":                   "via 64:ff9b:1::3 dev bal0, src 64:ff9b:1::2",
		server4 + " uid 4712":                   "via 192.0.0.1 dev bal0",
		server4 + " from 192.0.0.2":             "via 192.0.0.1 dev bal0",
		server4 + " from 192.0.0.2 uid 4711":    "via 192.0.0.3 dev bal0",
		server4 + " from 10.0.0.2":              "via 10.0.0.1 dev eth0",
		server4 + " from 10.1.0.2":              "via 10.1.0.1 dev eth1",
		server6 + " from 2001:db8:0::2":         "via 2001:db8::1 dev eth0",
		server6 + " from 2001:db8:1::2":         "via 2001:db8:1::1 dev eth1",
		server4 + " oif eth1":                   "via 10.1.0.1 dev eth1, src 10.1.0.2",
		server6 + " oif eth1":                   "via 2001:db8:1::1 dev eth1, src 2001:db8:1::2",
		"10.1.0.1":                              "dev eth1 src 10.1.0.2",
		"10.0.0.1 from 10.1.0.2":                "dev eth0",
		"192.0.0.1":                             "dev bal0",
		"2001:db8:1::1":                         "dev eth1",
		"224.0.0.251":                           "dev eth0",
		"255.255.255.255":                       "dev eth0",
		"169.254.169.254":                       "via 10.0.0.1 dev eth0",
		server4 + " from 10.9.0.1":              "via 10.0.0.1 dev eth0", // another address of the host
		server4 + " from 198.51.100.7 iif eth1": "none",                  // forwarded, and the host is no router
	}
	n.host.Interface("lo").Address("10.9.0.1/32")
	n.wantPaths("at first", direct)
	h := n.open()
	n.do(func() error { return h.Prepare(Make(n.state())) })
	n.wantPaths("prepared", direct)
	n.do(h.Divert)
	n.wantPaths("diverted", internal)
	n.do(func() error { return h.Prepare(Make(n.state())) })
	n.wantPaths("prepared again", internal)

	s := n.state() // a lease of another network, and no IPv6
	n.uplinks[1].A.Address("10.5.0.2/24")
	s.Links[1].V4 = uplink("10.5.0.2/24", "10.5.0.1", n.uplinks[1].B)
	s.Links[1].V6 = links.Family{}
	n.do(func() error { return h.Prepare(Make(s)) })
	n.wantPaths("another address", map[string]string{
		server4 + " from 10.5.0.2": "via 10.5.0.1 dev eth1", server6: "dev bal0", server4 + " from 10.1.0.2": "via 10.0.0.1 dev eth0",
	})
	s.Links[0].V6 = links.Family{}
	s.KeepIPv6 = true
	n.do(func() error { return h.Prepare(Make(s)) })
	n.wantPaths("no IPv6", map[string]string{server6: "via 2001:db8::1 dev eth0", server4: "dev bal0"}) // as main says
	n.do(func() error { return h.Prepare(Make(n.state())) })
	n.wantPaths("as at first", internal)
	n.do(h.Close)
	n.wantPaths("closed", direct)
}

// A network that two links are in is reached by each of them for itself.
func TestOverlappingNetworks(t *testing.T) {
	n := newNetwork(t)
	n.uplinks[1].A.Address("10.0.0.3/24")
	s := n.state()
	s.Links[1].V4 = uplink("10.0.0.3/24", "10.0.0.1", n.uplinks[1].B)
	h := n.open()
	n.divert(h, s)
	n.wantPaths("diverted", map[string]string{
		"10.0.0.9 from 10.0.0.2": "dev eth0", "10.0.0.9 from 10.0.0.3": "dev eth1", server4 + " from 10.0.0.3": "via 10.0.0.1 dev eth1",
		server4 + " from 10.0.0.2": "via 10.0.0.1 dev eth0", server4: "dev bal0",
	})
	n.do(h.Close)
}

// Without IPv6 on the host the internal interface has none either.
func TestWithoutIPv6(t *testing.T) {
	n := newNetwork(t)
	for _, of := range []string{"all", "default"} {
		n.host.Sysctl("net.ipv6.conf."+of+".disable_ipv6", "1")
	}
	s := n.state()
	for i := range s.Links {
		s.Links[i].V6 = links.Family{}
	}
	before := n.snapshot()
	h := n.open()
	n.divert(h, s)
	n.wantPaths("diverted", map[string]string{server4: "dev bal0"})
	if got := n.mustExec("ip", "-6", "address", "show", "dev", "bal0"); got != "" {
		t.Errorf("the internal interface has IPv6: %s", got)
	}
	if got := n.mustExec("ip", "-6", "rule"); strings.Contains(got, "goto") {
		t.Errorf("IPv6 is diverted: %s", got)
	}
	// One of the links gets it.
	n.host.Sysctl("net.ipv6.conf.eth0.disable_ipv6", "0")
	n.uplinks[0].A.Address("2001:db8:0::2/64")
	s.Links[0].V6 = n.state().Links[0].V6
	n.do(func() error { return h.Prepare(Make(s)) })
	n.wantPaths("with IPv6", map[string]string{server6: "via 64:ff9b:1::1 dev bal0, src 64:ff9b:1::2"})
	n.do(h.Close)
	n.uplinks[0].A.RemoveAddress("2001:db8:0::2/64")
	n.host.Sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")
	checkSame(t, n.snapshot(), before)
}

// A link that goes, or is set down, takes its own ways with it, and gets them again.
func TestLinkGoes(t *testing.T) {
	n := newNetwork(t)
	h := n.open()
	n.divert(h, n.state())
	n.uplinks[1].A.SetDown()
	n.do(func() error { return h.Prepare(Make(n.state())) }) // nobody knows yet
	n.wantPaths("down", map[string]string{server4: "dev bal0", server4 + " from 10.0.0.2": "dev eth0"})
	n.uplinks[1].A.SetUp()
	n.uplinks[1].A.Address("2001:db8:1::2/64")
	n.do(func() error { return h.Prepare(Make(n.state())) })
	n.wantPaths("up", map[string]string{server4 + " from 10.1.0.2": "via 10.1.0.1 dev eth1", server6 + " from 2001:db8:1::2": "dev eth1"})
	n.mustExec("ip", "link", "del", "eth1")
	n.do(func() error { return h.Prepare(Make(n.state())) })
	s := n.state()
	s.Links[1] = links.Link{Name: "eth1", Interface: "eth1"}
	n.do(func() error { return h.Prepare(Make(s)) })
	n.wantPaths("gone", map[string]string{server4: "dev bal0"})
	n.do(h.Close)
}

// What somebody else takes away, as systemd-networkd does when it starts, comes again.
func TestMending(t *testing.T) {
	n := newNetwork(t)
	h := n.open()
	n.divert(h, n.state())
	before := n.snapshot()
	refresh := func() error { _, err := h.Refresh(); return err }
	n.do(refresh)
	checkSame(t, n.snapshot(), before)
	for _, away := range []string{
		"ip rule del priority 32765", "ip -6 rule del priority 32765", "ip rule flush protocol 66; ip -6 rule flush protocol 66; ip route flush table 30000",
	} {
		n.mustExec("sh", "-c", away)
		n.do(refresh)
		if got, want := withoutNumbers(n.snapshot()), withoutNumbers(before); got != want {
			t.Log(away)
			checkSame(t, got, want)
		}
	}
	n.do(h.Close)
}

// VPNs keep what they have: by more specific routes, by rules, and by rules that come later.
func TestVPNs(t *testing.T) {
	n := newNetwork(t)
	vpn := n.host.Lab().Host("vpn")
	n.host.Lab().Link(lab.End{Host: n.host, Name: "wg0", Addrs: []string{"10.8.0.2/24"}}, lab.End{Host: vpn, Addrs: []string{"10.8.0.1/24"}}, lab.LinkOptions{})
	through := map[string]string{server4: "dev wg0", server4 + " uid 4711": "dev wg0", server4 + " from 10.8.0.2": "dev wg0"}
	routes := func(verb string) {
		for _, p := range []string{"0.0.0.0/1", "128.0.0.0/1"} {
			n.mustExec("ip", "route", verb, p, "via", "10.8.0.1", "dev", "wg0")
		}
	}
	rules := func(verb string) { // wg-quick's
		n.mustExec("ip", "route", verb, "default", "via", "10.8.0.1", "dev", "wg0", "table", "51820")
		n.mustExec("ip", "rule", verb, "not", "fwmark", "51820", "table", "51820")
		n.mustExec("ip", "rule", verb, "table", "main", "suppress_prefixlength", "0")
	}
	for _, tt := range []struct {
		name string
		vpn  func(verb string)
	}{{"routes", routes}, {"rules", rules}} {
		t.Run(tt.name, func(t *testing.T) {
			tt.vpn("add")
			h := n.open()
			n.divert(h, n.state())
			n.wantPaths("the VPN first", through)
			if tt.name == "rules" {
				n.wantPaths("the VPN's own", map[string]string{server4 + " mark 51820": "dev bal0"})
			}
			tt.vpn("del")
			n.wantPaths("no VPN", map[string]string{server4: "dev bal0"})
			tt.vpn("add")
			n.wantPaths("the VPN last", through)
			n.do(h.Close)
			n.wantPaths("the VPN alone", through)
			tt.vpn("del")
		})
	}
}

// A VPN whose default route in main is better than the links' has what it had, as long as it is there.
func TestTunnelWithDefaultRoute(t *testing.T) {
	n := newNetwork(t)
	n.mustExec("ip", "route", "replace", "default", "via", "10.0.0.1", "metric", "100")
	n.mustExec("ip", "route", "del", "default", "metric", "0")
	up := func() {
		n.mustExec("sh", "-ec", "ip tuntap add tun0 mode tun; ip address add 10.8.0.2/24 dev tun0; ip address add 2001:db8:8::2/64 dev tun0 nodad; "+
			"ip link set tun0 up; ip route add default dev tun0 metric 50; ip -6 route add default dev tun0 metric 50")
	}
	eventually := func(want string) {
		t.Helper()
		lab.Eventually(t, 10*time.Second, func() error {
			for _, to := range []string{server4, server4 + " uid 4711", server6} {
				if got := n.path(strings.Fields(to)...); !strings.Contains(got, want) {
					return fmt.Errorf("the way to %s is %q, want %q", to, got, want)
				}
			}
			return nil
		})
	}
	h := n.open()
	n.divert(h, n.state())
	eventually("dev bal0")
	up()
	eventually("dev tun0")
	n.wantPaths("with a tunnel", map[string]string{server4 + " from 192.0.0.2": "dev bal0", server4 + " from 10.1.0.2": "dev eth1"})
	n.do(func() error { return h.Prepare(Make(n.state())) })
	eventually("dev tun0")
	n.mustExec("ip", "route", "del", "default", "dev", "tun0")
	n.mustExec("ip", "route", "add", "default", "dev", "tun0", "metric", "200") // worse
	n.mustExec("ip", "-6", "route", "del", "default", "dev", "tun0")
	eventually("dev bal0")
	n.mustExec("ip", "link", "del", "tun0")
	up()
	eventually("dev tun0")
	n.mustExec("ip", "link", "del", "tun0")
	eventually("dev bal0")
	up()
	eventually("dev tun0")
	n.do(h.Close)
	n.mustExec("ip", "link", "del", "tun0")
	if _, err := h.Refresh(); err != nil {
		t.Error(err)
	}
}

// echoServer answers what comes by TCP.
func (n *network) echoServer(address string) {
	l, err := n.server.Listen("tcp", address)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func talk(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err
}

// Connections from before go on, and those that are bound to a link; so do those of containers behind a bridge, with strict reverse path
// filters.
func TestConnectionsGoOn(t *testing.T) {
	n := newNetwork(t)
	for _, key := range []string{"all", "default", "eth0", "eth1"} {
		n.host.Sysctl("net.ipv4.conf."+key+".rp_filter", "1")
	}
	n.host.Forward()
	bridge := n.host.Bridge("docker0", "172.17.0.1/16")
	container := n.host.Lab().Host("container")
	k := n.host.Lab().Link(lab.End{Host: n.host, Name: "veth0"}, lab.End{Host: container, Addrs: []string{"172.17.0.2/16"}}, lab.LinkOptions{})
	k.A.Attach(bridge)
	container.Route("default", "172.17.0.1")
	n.mustExec("nft", "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }; "+
		"add rule ip nat post ip saddr 172.17.0.0/16 oifname != docker0 masquerade")
	n.echoServer(server4 + ":7")
	n.echoServer("[" + server6 + "]:7")

	conns := map[string]net.Conn{}
	dial := func(name string, h *lab.Host, local, address string) {
		t.Helper()
		network := "tcp"
		c, err := h.DialFrom(t.Context(), network, local, address)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { c.Close() })
		conns[name] = c
	}
	check := func(when string) {
		t.Helper()
		for name, c := range conns {
			if err := talk(c); err != nil {
				t.Errorf("%s: %s: %v", when, name, err)
			}
		}
	}
	dial("IPv4 from before", n.host, "", server4+":7")
	dial("IPv6 from before", n.host, "", "["+server6+"]:7")
	dial("container from before", container, "", server4+":7")
	check("at first")
	h := n.open()
	n.divert(h, n.state())
	check("diverted")
	dial("IPv4 bound to eth0", n.host, "10.0.0.2:0", server4+":7")
	dial("IPv4 bound to eth1", n.host, "10.1.0.2:0", server4+":7")
	dial("IPv6 bound to eth1", n.host, "[2001:db8:1::2]:0", "["+server6+"]:7")
	dial("container after", container, "", server4+":7")
	check("more of them")
	n.do(h.Close)
	delete(conns, "IPv4 bound to eth1") // as it was, it had no way of its own
	delete(conns, "IPv6 bound to eth1")
	check("closed")
}

// Packets from the switch to the internal interface reach their socket, also with strict reverse path filters.
func TestInternalReceives(t *testing.T) {
	n := newNetwork(t)
	n.host.Sysctl("net.ipv4.conf.all.rp_filter", "1")
	h := n.open()
	n.divert(h, n.state())
	n.mustExec("ethtool", "-K", "bal0", "tx", "off") // checksums must be whole to be sent back
	swap(t, n)
	for _, to := range []string{server4 + ":9", "[" + server6 + "]:9"} {
		c, err := n.host.Dial(t.Context(), "udp", to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if local := netip.MustParseAddrPort(c.LocalAddr().String()).Addr().String(); local != "192.0.0.2" && local != "64:ff9b:1::2" {
			t.Errorf("the source is %s", local)
		}
		if err := talk(c); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
	n.do(h.Close)
}

// swap is a switch that sends each datagram back as if it were the answer, from the device's other end. It ends with the test.
func swap(t *testing.T, n *network) {
	t.Helper()
	var fd int
	n.do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL))); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: n.host.Interface("bal0p").Index})
	})
	done := make(chan struct{})
	stop := make(chan struct{})
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		defer unix.Close(fd)
		frame := make([]byte, 2048)
		for {
			select {
			case <-stop:
				return
			default:
			}
			size, from, err := unix.Recvfrom(fd, frame, 0)
			if ll, is := from.(*unix.SockaddrLinklayer); err != nil || is && ll.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			answer(frame[:size])
			_ = unix.Send(fd, frame[:size], 0)
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func answer(frame []byte) {
	exchange := func(a, b []byte) {
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
	}
	exchange(frame[:6], frame[6:12])
	ip := frame[14:]
	switch {
	case frame[12] == 0x08 && frame[13] == 0 && ip[9] == unix.IPPROTO_UDP:
		exchange(ip[12:16], ip[16:20])
		exchange(ip[20:22], ip[22:24])
	case frame[12] == 0x86 && ip[6] == unix.IPPROTO_UDP:
		exchange(ip[8:24], ip[24:40])
		exchange(ip[40:42], ip[42:44])
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// Somebody else's interface, rules and routes are not touched.
func TestConflicts(t *testing.T) {
	n := newNetwork(t)
	for _, tt := range []struct {
		name, add, del string
		want           string
	}{
		{"interface", "ip link add bal0 type veth peer name other", "ip link del bal0", "the interface bal0 exists and is not ours"},
		{"address", "ip address add 192.0.0.2/32 dev lo", "ip address del 192.0.0.2/32 dev lo", "192.0.0.2 is an address of lo"},
		{"rule", "ip rule add priority 73000 table 77", "ip rule del priority 73000", "a rule with priority 73000 exists"},
		{"route", "ip route add 198.51.100.0/24 via 10.0.0.1 table 30002", "ip route del 198.51.100.0/24 table 30002", "table 30002 has routes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n.mustExec("sh", "-c", tt.add)
			before := n.snapshot()
			h := n.open()
			err := n.host.Do(func() error { return h.Prepare(Make(n.state())) })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("prepared: %v, want %q", err, tt.want)
			}
			n.do(h.Close)
			checkSame(t, n.snapshot(), before)
			n.mustExec("sh", "-c", tt.del)
		})
	}
}
