package controller

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/links"
	"baton/balance/tables"
	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

// The server's addresses, which the host reaches by its default route alone.
const (
	server4 = "203.0.113.9"
	server6 = "2001:db8:77::9"
)

// network is a host with a few links to a server, an internal interface, a switch between them and its controller.
type network struct {
	*lab.Lab
	t            *testing.T
	host, server *lab.Host
	uplinks      []*lab.Link
	internal     *lab.Interface
	state        tables.State
	controller   *Controller
	socket       string
	listens      bool   // the controller does; else it connects
	stop         func() // the controller
}

// newNetwork makes the network with as many links. Link n has the addresses 10.n.0.2 and 2001:db8:n::2.
func newNetwork(t *testing.T, target string, count int, method config.Method) *network {
	t.Helper()
	l := lab.New(t)
	n := &network{Lab: l, t: t, host: l.Host("host"), server: l.Host("server")}
	options := lab.LinkOptions{}
	if target == ovs {
		options.NoOffloads = true // as its userspace datapath needs
	}
	internal := l.Link(lab.End{Host: n.host, Name: "bal0", Addrs: []string{"192.0.0.2/29", "64:ff9b:1::2/64"}},
		lab.End{Host: n.host, Name: "bal0p"}, options)
	n.internal = internal.A
	n.state = tables.State{
		Datapath: config.OpenVSwitch,
		Internal: tables.Internal{MAC: links.MAC(n.internal.MAC), MTU: 1500, IPv4: netip.MustParseAddr("192.0.0.2"),
			IPv6: netip.MustParseAddr("64:ff9b:1::2"), Gateways: []tables.Gateway{
				{IPv4: netip.MustParseAddr("192.0.0.1"), IPv6: netip.MustParseAddr("64:ff9b:1::1")},
				{IPv4: netip.MustParseAddr("192.0.0.3"), IPv6: netip.MustParseAddr("64:ff9b:1::3")}}},
		Rules: []tables.Rule{{Otherwise: config.Any, Method: method}},
	}
	lo := n.server.Interface("lo")
	lo.Address(server4 + "/32")
	lo.Address(server6 + "/128")
	for i := range count {
		v4, v6 := fmt.Sprintf("10.%d.0.", i), fmt.Sprintf("2001:db8:%d::", i+1)
		k := l.Link(lab.End{Host: n.host, Name: fmt.Sprintf("eth%d", i), Addrs: []string{v4 + "2/24", v6 + "2/64"}},
			lab.End{Host: n.server, Name: fmt.Sprintf("up%d", i), Addrs: []string{v4 + "1/24", v6 + "1/64"}}, options)
		n.uplinks = append(n.uplinks, k)
		if target == plain { // whose ports are not the host's any more
			n.server.Neighbour(k.B, v4+"2", k.A.MAC)
			n.server.Neighbour(k.B, v6+"2", k.A.MAC)
		}
		family := func(a string) links.Family {
			return links.Family{Address: netip.MustParseAddr(a + "2"), Gateway: netip.MustParseAddr(a + "1"), GatewayMAC: links.MAC(k.B.MAC)}
		}
		n.state.Links = append(n.state.Links, tables.Link{Usable: true, Weight: 1, Link: links.Link{Name: k.A.Name, Interface: k.A.Name,
			Index: k.A.Index, MAC: links.MAC(k.A.MAC), MTU: 1500, Carrier: true, V4: family(v4), V6: family(v6)}})
	}
	n.host.Route("0.0.0.0/0", "192.0.0.1")
	n.host.Route("::/0", "64:ff9b:1::1")
	n.controller = New(Options{})
	switch target {
	case ovs:
		n.startOVS()
		n.control()
	case plain:
		n.listens, n.socket = true, filepath.Join(l.Dir(), "openflow.sock")
		n.control()
		n.startForwarder("ports: [" + strings.Join(n.ports(), ", ") + "]\n")
	case baton:
		n.state.Datapath = config.Baton
		n.listens, n.socket = true, filepath.Join(l.Dir(), "openflow.sock")
		n.control()
		text := "normal: stack\nlimits: {bindings: 4096}\nports: {1: {interface: bal0, side: host}"
		for i, k := range n.uplinks {
			text += fmt.Sprintf(", %d: %s", tables.FirstLink+i, k.A.Name)
		}
		n.startForwarder(text + "}\n")
	}
	t.Cleanup(func() { n.stop() })
	n.ready()
	n.serve()
	return n
}

// control starts the controller, which the forwarder connects to, and which connects to Open vSwitch.
func (n *network) control() {
	if err := n.controller.Set(n.t.Context(), n.state); err != ErrNoSwitch {
		n.t.Fatalf("got %v without a switch", err)
	}
	controller := n.controller
	task := func(ctx context.Context) error {
		return controller.Connect(ctx, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", n.socket) })
	}
	if n.listens {
		ln, err := net.Listen("unix", n.socket)
		if err != nil {
			n.t.Fatal(err)
		}
		task = func(ctx context.Context) error { return controller.Accept(ctx, ln) }
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = task(ctx)
	}()
	n.stop = func() {
		cancel()
		<-done
	}
}

// ready waits until the switch has its tables.
func (n *network) ready() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	if err := n.controller.Ready(ctx); err != nil {
		n.t.Fatalf("%v: %+v", err, n.controller.Status())
	}
	if s := n.controller.Status(); s.Refused > 0 {
		n.t.Errorf("got %+v", s)
	}
}

func (n *network) ports() []string {
	list := []string{"bal0p"}
	for _, k := range n.uplinks {
		list = append(list, k.A.Name)
	}
	return list
}

// startOVS starts Open vSwitch. The host's stack sees copies of its ports' packets, and must not answer: elsewhere package host prevents
// that.
func (n *network) startOVS() {
	rules := "table netdev hush {\n"
	for _, k := range n.uplinks {
		rules += fmt.Sprintf("chain %s { type filter hook ingress device %s priority 0; meta l4proto { tcp, udp, icmp } drop; "+
			"icmpv6 type { echo-request, echo-reply } drop; }\n", k.A.Name, k.A.Name)
	}
	file := filepath.Join(n.Dir(), "hush.nft")
	if err := os.WriteFile(file, []byte(rules+"}\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.Need("nft")
	if out, err := n.host.Exec(n.t.Context(), "nft", "-f", file); err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	s := peers.OpenVSwitch(n.host, peers.OpenVSwitchOptions{Ports: n.ports(), FailMode: "secure", NoTSO: true})
	n.socket = filepath.Join(s.Dir, s.Bridge+".mgmt")
}

func (n *network) startForwarder(text string) {
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	file := filepath.Join(n.Dir(), "forwarder.yaml")
	text += fmt.Sprintf("name: balance\ncontrollers: [unix:%s]\ncontrol: %s.sock\n", n.socket, file)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.host.Start(lab.Program{Path: path, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"}); err != nil {
		n.t.Fatal(err)
	}
}

// serve starts servers that report the client's address: HTTP on port 80, UDP on port 9; and on port 7 a lasting echo.
func (n *network) serve() {
	for _, a := range []string{server4, server6} {
		at := func(port string) string { return net.JoinHostPort(a, port) }
		web, err := n.server.Listen("tcp", at("80"))
		if err != nil {
			n.t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprintln(w, netip.MustParseAddrPort(r.RemoteAddr).Addr())
			_, _ = io.CopyN(w, r.Body, r.ContentLength)
		})}
		go func() { _ = s.Serve(web) }()
		n.t.Cleanup(func() { s.Close() })
		echo, err := n.server.Listen("tcp", at("7"))
		if err != nil {
			n.t.Fatal(err)
		}
		go func() {
			for {
				conn, err := echo.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					fmt.Fprintln(conn, conn.RemoteAddr())
					_, _ = io.Copy(conn, conn)
				}()
			}
		}()
		n.t.Cleanup(func() { echo.Close() })
		datagrams, err := n.server.ListenPacket("udp", at("9"))
		if err != nil {
			n.t.Fatal(err)
		}
		go func() {
			b := make([]byte, 1500)
			for {
				_, from, err := datagrams.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = datagrams.WriteTo([]byte(from.String()), from)
			}
		}()
		n.t.Cleanup(func() { datagrams.Close() })
	}
}

// place is that of the link with an address.
func (n *network) place(a string) int {
	addr, err := netip.ParseAddr(strings.TrimSpace(a))
	return slices.IndexFunc(n.state.Links, func(l tables.Link) bool { return err == nil && (l.V4.Address == addr || l.V6.Address == addr) })
}

// fetch has curl ask the server, and returns the place of the link that it saw.
func (n *network) fetch(address string) int {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	got, err := peers.Curl(ctx, n.host, "http://"+net.JoinHostPort(address, "80")+"/")
	if err != nil {
		n.t.Fatal(err)
	}
	place := n.place(got.Body)
	if place < 0 {
		n.t.Fatalf("the server saw %q", got.Body)
	}
	return place
}

// ask sends a datagram to the server from a port, and returns the place of the link that it saw.
func (n *network) ask(address string, port int) int {
	n.t.Helper()
	conn, err := n.host.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 9))
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.WriteTo([]byte("?"), to); err != nil {
		n.t.Fatal(err)
	}
	b := make([]byte, 100)
	size, from, err := conn.ReadFrom(b)
	if err != nil {
		n.t.Fatal(err)
	}
	if from.String() != to.String() {
		n.t.Errorf("answered by %v", from)
	}
	saw, err := netip.ParseAddrPort(string(b[:size]))
	if err != nil || int(saw.Port()) != port {
		n.t.Errorf("the server saw %s of port %d", b[:size], port)
	}
	return n.place(saw.Addr().String())
}

// connection is one that stays, and the place of its link.
type connection struct {
	net.Conn
	place int
}

func (n *network) connect(address string) connection {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	conn, err := n.host.Dial(ctx, "tcp", net.JoinHostPort(address, "7"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	line := ""
	if _, err := fmt.Fscanln(conn, &line); err != nil {
		n.t.Fatal(err)
	}
	saw, _ := netip.ParseAddrPort(line)
	return connection{conn, n.place(saw.Addr().String())}
}

// alive checks that what is said comes back.
func (n *network) alive(c connection) {
	n.t.Helper()
	if _, err := fmt.Fprintln(c, "still"); err != nil {
		n.t.Error(err)
	}
	line := ""
	if _, err := fmt.Fscanln(c, &line); err != nil || line != "still" {
		n.t.Errorf("got %q, %v", line, err)
	}
}

func (n *network) set(change func(*tables.State)) {
	n.t.Helper()
	n.state.Links = slices.Clone(n.state.Links)
	change(&n.state)
	if err := n.controller.Set(n.t.Context(), n.state); err != nil {
		n.t.Fatal(err)
	}
}

func (n *network) ping(address string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	if out, err := n.host.Exec(ctx, "ping", "-c", "2", "-i", "0.1", "-W", "5", address); err != nil {
		n.t.Errorf("ping %s: %v\n%s", address, err, out)
	}
}
