package balance

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/balance/host"
	"baton/lab"
	"baton/lab/peers"
)

// soon bounds what a test waits for that should take milliseconds: machines that run tests are busy.
const soon = 20 * time.Second

// What the server is called, and the resolver that is asked by a link of its own.
const (
	server4, server6 = "198.51.100.10", "2001:db8:100::10"
	other4           = "198.51.100.20" // the server's second address
	resolver4        = "198.51.100.53"
)

// The server's ports.
const (
	echoPort = 7000 // reports the client's address, then echoes
	sshPort  = 22   // of the host, an echo server
)

// network is a host with links to gateways of different providers, and a server behind them all.
type network struct {
	*lab.Lab
	t            *testing.T
	host, server *lab.Host
	gateways     []*lab.Host
	links        []*lab.Interface // of the host
	far          []*lab.Interface // of the gateways, towards the host
	beyond       []*lab.Interface // of the gateways, towards the server
	behind       []*lab.Interface // of the server, towards the gateways
	vswitch      *peers.VSwitch   // nil: there is none
	name         string           // of the balance
	echoed       *ends
}

// ends are those of the echo server's connections, for tests that fail.
type ends struct {
	mu   sync.Mutex
	list []string
}

func (e *ends) note(c net.Conn, size int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf("%s %v: %d bytes, %v", time.Now().Format(time.StampMilli), c.RemoteAddr(), size, err))
}

// last is a line for each of the last 50.
func (e *ends) last() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.list[max(0, len(e.list)-50):], "\n")
}

// hosts and gateways are the addresses of link i, from 0.
func host4(i int) string { return fmt.Sprintf("192.0.2.%d", 16*i+2) }

func host6(i int) string { return fmt.Sprintf("2001:db8:%d::2", i+1) }

func gateway4(i int) string { return fmt.Sprintf("192.0.2.%d", 16*i+1) }

func gateway6(i int) string { return fmt.Sprintf("2001:db8:%d::1", i+1) }

var names struct {
	sync.Mutex
	last int
}

// newName is one that no other balance of the machine has, for who looks at one that a test has left running.
func newName() string {
	names.Lock()
	defer names.Unlock()
	names.last++
	return fmt.Sprintf("t%d-%d", os.Getpid()%100000, names.last)
}

func newNetwork(t *testing.T, links int) *network {
	t.Helper()
	l := lab.New(t)
	n := &network{Lab: l, t: t, host: l.Host("host"), server: l.Host("server"), name: newName(), echoed: new(ends)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the echo server's last connections:\n%s", n.echoed.last())
		}
	})
	n.host.Private(host.Folder)
	for _, a := range []string{server4 + "/32", other4 + "/32", resolver4 + "/32", server6 + "/128"} {
		n.server.Interface("lo").Address(a)
	}
	for i := range links {
		g := l.Host(fmt.Sprintf("gateway%d", i))
		g.Forward()
		k := l.Link(lab.End{Host: n.host, Name: fmt.Sprintf("eth%d", i), Addrs: []string{host4(i) + "/28", host6(i) + "/64"}},
			lab.End{Host: g, Addrs: []string{gateway4(i) + "/28", gateway6(i) + "/64"}}, lab.LinkOptions{})
		v4, v6 := fmt.Sprintf("203.0.113.%d", 4*i), fmt.Sprintf("2001:db8:f%d::", i)
		far := l.Link(lab.End{Host: g, Addrs: []string{last(v4, 1) + "/30", v6 + "1/64"}},
			lab.End{Host: n.server, Addrs: []string{last(v4, 2) + "/30", v6 + "2/64"}}, lab.LinkOptions{})
		g.Route("198.51.100.0/24", last(v4, 2))
		g.Route("2001:db8:100::/64", v6+"2")
		n.server.Route(fmt.Sprintf("192.0.2.%d/28", 16*i), last(v4, 1))
		n.server.Route(fmt.Sprintf("2001:db8:%d::/64", i+1), v6+"1")
		n.gateways, n.links, n.far = append(n.gateways, g), append(n.links, k.A), append(n.far, k.B)
		n.beyond, n.behind = append(n.beyond, far.A), append(n.behind, far.B)
		n.defaults(i)
	}
	peers.Nginx(n.server, peers.NginxOptions{NoAccessLog: true, Workers: 1, Server: "add_header X-From $remote_addr always; location = /1g { limit_rate 1m; }"})
	n.echoAddress(n.server, echoPort)
	n.echoAddress(n.server, 53)
	return n
}

// defaults gives the host the default routes of link i, the first link the best ones.
func (n *network) defaults(i int) {
	n.t.Helper()
	n.defaults4(i)
	n.run("ip", "-6", "route", "add", "default", "via", gateway6(i), "dev", n.links[i].Name, "metric", fmt.Sprint(100*(i+1)))
}

func (n *network) defaults4(i int) {
	n.t.Helper()
	n.run("ip", "route", "add", "default", "via", gateway4(i), "dev", n.links[i].Name, "metric", fmt.Sprint(100*(i+1)))
}

// last is the address that is n after one.
func last(address string, n int) string {
	a := netip.MustParseAddr(address)
	for range n {
		a = a.Next()
	}
	return a.String()
}

// run runs a program on the host.
func (n *network) run(program string, args ...string) string {
	n.t.Helper()
	out, err := n.host.Exec(n.t.Context(), program, args...)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

// greet serves a TCP port of a host: it reports the client's address, calls then, and closes the connection.
func (n *network) greet(h *lab.Host, port int, then func(net.Conn)) {
	n.t.Helper()
	l, err := h.Listen("tcp", fmt.Sprintf(":%d", port))
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
				fmt.Fprintln(c, plain(c.RemoteAddr()))
				then(c)
			}()
		}
	}()
}

// echoAddress serves a TCP and UDP port of a host: it reports the client's address, and then echoes.
func (n *network) echoAddress(h *lab.Host, port int) {
	n.t.Helper()
	n.greet(h, port, func(c net.Conn) {
		size, err := io.Copy(c, c) // until the client goes
		n.echoed.note(c, size, err)
	})
	for _, address := range []string{server4, other4, resolver4, server6} {
		if h != n.server {
			return
		}
		u, err := h.ListenPacket("udp", net.JoinHostPort(address, fmt.Sprint(port)))
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { u.Close() })
		go func() {
			for b := make([]byte, 2048); ; {
				size, from, err := u.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = u.WriteTo(append([]byte(plain(from)+"\n"), b[:size]...), from)
			}
		}()
	}
}

// plain is the address without its port, and without the prefix of IPv4 in IPv6.
func plain(a net.Addr) string { return netip.MustParseAddrPort(a.String()).Addr().Unmap().String() }

// addresses4 and addresses6 are the host's by its links.
func (n *network) addresses(of func(int) string) (list []string) {
	for i := range n.links {
		list = append(list, of(i))
	}
	return list
}

// picture is the host's network, for messages.
func (n *network) picture() string { return n.shown("") }

// whole is all of the host's network that somebody may have set.
func (n *network) whole() string {
	return n.shown(`sysctl -a 2>/dev/null | grep '^net.ipv[46].conf' | grep -v 'stable_secret\|\.mtu'
for i in /sys/class/net/*; do ethtool -k ${i##*/} | grep -v fixed; done
tc qdisc`)
}

func (n *network) shown(more string) string {
	script := `ip -o link | sed 's/ qlen [0-9]*//; s/^[0-9]*: //; s/<[^>]*>//; s/ state [A-Z]*//'
ip -o addr | sed 's/^[0-9]*: //'
ip rule; ip -6 rule
ip route show table all; ip -6 route show table all
ip neigh show nud permanent; ip neigh show proxy; ip -6 neigh show proxy
nft list ruleset
ls /sys/fs/bpf/baton-forwarder 2>/dev/null | grep -w ` + n.name + "\n" + more + "\ntrue"
	p, err := n.host.Start(lab.Program{Path: "sh", Args: []string{"-c", script}, Unlogged: true})
	if err != nil {
		return err.Error()
	}
	if err := p.Wait(context.Background()); err != nil {
		return fmt.Sprint(err, p.Log())
	}
	text := p.Stdout()
	if n.vswitch != nil {
		out, err := n.vswitch.Vsctl(context.Background(), "--format=list", "--columns=name,type,mtu_request", "list", "interface")
		text += fmt.Sprint(out, err)
	}
	return text
}
