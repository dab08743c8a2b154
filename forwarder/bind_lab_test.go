package forwarder_test

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/lab/build"
	of "baton/openflow"
	"baton/openflow/channel"
	"baton/packet"
)

// family is what differs between the IP versions on the stage of links.
type family struct {
	name, bits             string
	etherType              uint64
	src, dst               of.Field
	internal, gateway      string
	host, router, far, out [2]string // by link: the host's address, its gateway's, the server's on that side, the router's there
	server                 string
	group                  of.GroupID
}

var families = [2]family{
	{
		name: "ipv4", bits: "/32", etherType: 0x0800, src: of.FieldIPv4Src, dst: of.FieldIPv4Dst, internal: "192.0.0.2", gateway: "192.0.0.1",
		host: [2]string{"198.51.100.2", "203.0.113.2"}, router: [2]string{"198.51.100.1", "203.0.113.1"},
		far: [2]string{"10.1.0.2", "10.2.0.2"}, out: [2]string{"10.1.0.1", "10.2.0.1"}, server: "192.0.2.80", group: 16,
	},
	{
		name: "ipv6", bits: "/128", etherType: 0x86dd, src: of.FieldIPv6Src, dst: of.FieldIPv6Dst, internal: "64:ff9b:1::2", gateway: "64:ff9b:1::1",
		host: [2]string{"2001:db8:1::2", "2001:db8:2::2"}, router: [2]string{"2001:db8:1::1", "2001:db8:2::1"},
		far: [2]string{"fd00:1::2", "fd00:2::2"}, out: [2]string{"fd00:1::1", "fd00:2::1"}, server: "2001:db8:80::80", group: 17,
	},
}

// gatewayMAC is who the host sends to: nobody is there but the forwarder.
var gatewayMAC = packet.MAC{0x02, 0x42, 0x74}

// narrow is the MTU of the way to the server behind the routers, which the host does not know.
const narrow = 1300

// linked is a host with two links, by which a server is reached, and with an internal port: a veth pair that its default route goes to.
//
//	bal0 (192.0.0.2) ─ bal0p     eth0 ── isp0 ──┐
//	      host                   eth1 ── isp1 ──┴── server (192.0.2.80)
type linked struct {
	*stage
	server   *lab.Host
	internal *lab.Interface
	links    [2]*lab.Link
	isps     [2]*lab.Host
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	var id [4]byte
	_, _ = rand.Read(id[:])
	l := &linked{stage: &stage{Lab: lab.New(t), t: t, name: fmt.Sprintf("t%x", id)}}
	l.node, l.server = l.Host("host"), l.Host("server")
	for i := range l.links {
		isp := l.Host(fmt.Sprintf("isp%d", i))
		isp.Forward()
		l.isps[i] = isp
		l.links[i] = l.Link(lab.End{Host: l.node, Name: fmt.Sprintf("eth%d", i), Addrs: l.both(func(f *family) string { return mask(f.host[i]) })},
			lab.End{Host: isp, Name: "eth0", Addrs: l.both(func(f *family) string { return mask(f.router[i]) })}, lab.LinkOptions{})
		l.Link(lab.End{Host: isp, Name: "eth1", Addrs: l.both(func(f *family) string { return mask(f.out[i]) })},
			lab.End{Host: l.server, Name: fmt.Sprintf("eth%d", i), Addrs: l.both(func(f *family) string { return mask(f.far[i]) })},
			lab.LinkOptions{MTU: narrow})
		for _, f := range families {
			isp.Route(f.server+f.bits, f.far[i])
			// The server says that it takes more than the way does, so that nothing but ICMP can tell the host.
			l.must2(l.server.Exec(l.within(), "ip", "route", "add", netip.MustParsePrefix(mask(f.host[i])).Masked().String(), "via", f.out[i],
				"mtu", fmt.Sprint(narrow), "advmss", "1440"))
			l.node.Neighbour(l.links[i].A, f.router[i], l.links[i].B.MAC)
			isp.Neighbour(l.links[i].B, f.host[i], l.links[i].A.MAC)
		}
	}
	for _, f := range families {
		l.server.Interface("lo").Address(f.server + f.bits)
	}
	l.internal = l.Link(lab.End{Host: l.node, Name: "bal0", Addrs: l.both(func(f *family) string { return mask(f.internal) })},
		lab.End{Host: l.node, Name: "bal0p"}, lab.LinkOptions{}).A
	for _, f := range families {
		l.node.Neighbour(l.internal, f.gateway, gatewayMAC[:])
		l.node.Route("default", f.gateway)
	}
	return l
}

func (l *linked) both(one func(*family) string) []string {
	return []string{one(&families[0]), one(&families[1])}
}

// mask is an address with the length of its network.
func mask(address string) string {
	if strings.Contains(address, ":") {
		return address + "/64"
	}
	return address + "/24"
}

// begin runs the forwarder and installs the entries of a host that has each new flow take a link by turns.
func (l *linked) begin(lines string) *channel.Conn {
	l.t.Helper()
	l.start("ports: {1: {interface: bal0, side: host}, 2: eth0, 3: eth1}\nnormal: stack\n" +
		"limits: {entries: 4096, groups: 64, cache: 1024, bindings: 4096}\n" + lines)
	c := l.connect()
	l.commit(c, l.tables()...)
	return c
}

// tables are the entries and groups of docs/openflow-bind.md's example, for both links and both IP versions.
func (l *linked) tables() []of.Message {
	set := func(m of.Match) of.Action { return of.ActionSetField{Field: m} }
	apply := func(list ...of.Action) of.Instruction { return of.InstructionApplyActions{Actions: list} }
	entry := func(table of.TableID, priority uint16, m of.Match, does ...of.Instruction) of.Message {
		f := of.NewFlowMod(of.FlowAdd)
		f.Table, f.Priority, f.Match, f.Instructions = table, priority, m, does
		return f
	}
	goTo := func(t of.TableID) of.Instruction { return of.InstructionGotoTable{Table: t} }
	list := []of.Message{
		&of.GroupMod{Command: of.GroupAdd, Kind: of.GroupTypeIndirect, Group: 1, Buckets: []of.Bucket{{
			WatchPort: of.PortAny, WatchGroup: of.GroupAny, Actions: []of.Action{
				set(of.Match{}.MAC(of.FieldEthSrc, gatewayMAC)), set(of.Match{}.MAC(of.FieldEthDst, packet.MAC(l.internal.MAC))), output(1),
			},
		}}},
		entry(0, 2, of.Match{}.Port(1).MAC(of.FieldEthDst, gatewayMAC), goTo(1)),
		entry(0, 1, of.Match{}.Port(1)),
		entry(0, 0, nil, apply(output(of.PortNormal))),
		entry(2, 0, nil, apply(of.ActionUnbind{Group: 1}, output(of.PortNormal))),
	}
	for _, f := range families {
		g := &of.GroupMod{Command: of.GroupAdd, Kind: of.GroupTypeSelect, Group: f.group}
		for i, link := range l.links {
			port := of.PortNo(2 + i)
			host := netip.MustParseAddr(f.host[i])
			g.Buckets = append(g.Buckets, of.Bucket{Weight: 1, WatchPort: port, WatchGroup: of.GroupAny, Actions: []of.Action{
				set(of.Match{}.MAC(of.FieldEthSrc, packet.MAC(link.A.MAC))), set(of.Match{}.MAC(of.FieldEthDst, packet.MAC(link.B.MAC))),
				set(of.Match{}.Addr(f.src, host)), output(port),
			}})
			list = append(list, entry(0, 2, of.Match{}.Port(port).Uint(of.FieldEthType, f.etherType).Addr(f.dst, host), goTo(2)))
		}
		list = append(list, g, entry(1, 1, of.Match{}.Uint(of.FieldEthType, f.etherType), apply(of.ActionBind{Method: of.BindRoundRobin, Group: f.group})))
	}
	return list
}

// echoes serves TCP on the server: each line that comes goes back behind the address that it is said to come from.
func (l *linked) echoes() {
	l.t.Helper()
	for _, f := range families {
		ln, err := l.server.Listen("tcp", net.JoinHostPort(f.server, "7"))
		l.must(err)
		l.t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					in := bufio.NewReaderSize(c, 1<<20)
					for {
						line, err := in.ReadString('\n')
						if err != nil {
							return
						}
						fmt.Fprintf(c, "%s %s", c.RemoteAddr(), line)
					}
				}()
			}
		}()
		udp, err := l.server.ListenPacket("udp", net.JoinHostPort(f.server, "7"))
		l.must(err)
		l.t.Cleanup(func() { udp.Close() })
		go func() {
			b := make([]byte, 1<<16)
			for {
				n, from, err := udp.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = udp.WriteTo(append([]byte(from.String()+" "), b[:n]...), from)
			}
		}()
	}
}

// dial opens a socket to the server, on the port of echoes or another.
func (l *linked) dial(network string, f *family, port string) net.Conn {
	l.t.Helper()
	c, err := l.node.Dial(l.within(), network, net.JoinHostPort(f.server, port))
	l.must(err)
	l.t.Cleanup(func() { c.Close() })
	l.must(c.SetDeadline(time.Now().Add(patience)))
	if from := netip.MustParseAddrPort(c.LocalAddr().String()).Addr().String(); from != f.internal {
		l.t.Fatalf("the socket is at %s", from)
	}
	return c
}

// say sends a line and returns the link by which it came to the server.
func (l *linked) say(c net.Conn, f *family, line string) int {
	l.t.Helper()
	_, err := io.WriteString(c, line+"\n")
	l.must(err)
	return l.hear(c, f, line)
}

// hear waits until a line has come back, and returns the link by which it came to the server.
func (l *linked) hear(c net.Conn, f *family, line string) int {
	l.t.Helper()
	heard, err := bufio.NewReaderSize(c, 1<<20).ReadString('\n')
	l.must(err)
	from, back, _ := strings.Cut(heard, " ")
	if back != line+"\n" {
		l.t.Fatalf("said %d bytes, heard %d", len(line), len(back))
	}
	seen, own := netip.MustParseAddrPort(from), netip.MustParseAddrPort(c.LocalAddr().String())
	for i, host := range f.host {
		if seen == netip.AddrPortFrom(netip.MustParseAddr(host), own.Port()) {
			return i
		}
	}
	l.t.Fatalf("the server knows %v as %v", own, seen)
	return 0
}

func exchange(c net.Conn, line string) (string, error) {
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	return bufio.NewReaderSize(c, 1<<20).ReadString('\n')
}

// trace is what baton forwarder trace says.
func (l *linked) trace(in, fields string) string {
	l.t.Helper()
	path, err := build.Program("baton")
	l.must(err)
	return l.must2(l.exec(path, "forwarder", "trace", "--control", l.path("forwarder.sock"), "--in-port", in, fields))
}

// TestBoundLinks has real sockets of a host use both links by turns, without knowing.
func TestBoundLinks(t *testing.T) {
	l := newLinked(t)
	l.Need("ping", "ip")
	l.echoes()
	l.begin("")
	defer func() { l.t = t }()
	for n := range families {
		f := &families[n]
		l.t = t
		t.Run(f.name, func(t *testing.T) {
			l.t = t
			for _, network := range []string{"tcp", "udp"} {
				var conns []net.Conn
				var links []int
				for range 4 {
					c := l.dial(network, f, "7")
					conns, links = append(conns, c), append(links, l.say(c, f, "hello"))
				}
				if links[0] == links[1] || links[0] != links[2] || links[1] != links[3] {
					t.Errorf("%s: flows by links %v, want each in its turn", network, links)
				}
				for i, c := range conns[:2] {
					if got := l.shout(network, c, f); got != links[i] {
						t.Errorf("%s: a flow went from link %d to %d", network, links[i], got)
					}
				}
				l.traced(network, f, conns[:2], links)
			}
			l.refused(f)
			for range 2 {
				if _, err := l.exec("ping", "-c", "2", "-i", "0.2", "-W", "5", f.server); err != nil {
					t.Error(err)
				}
			}
			l.own(f)
		})
	}
	l.t = t
	out := l.status()
	for _, want := range []string{"of 4096 flows bound to a link", "\n2     eth0", "\n3     eth1", "to_stack", "forwarded"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
}

// must2 returns what a program said that must have ended well.
func (l *linked) must2(out string, err error) string {
	l.t.Helper()
	l.must(err)
	return out
}

// shout sends more than the way takes at once, and returns the link. The host must be told so by ICMP: in the addresses that it knows, or it does not
// believe it. Then it sends fragments of datagrams.
func (l *linked) shout(network string, c net.Conn, f *family) (link int) {
	l.t.Helper()
	l.must2(l.exec("ip", "-4", "route", "flush", "cache"))
	l.must2(l.exec("ip", "-6", "route", "flush", "cache"))
	if out := l.must2(l.exec("ip", "route", "get", f.server)); strings.Contains(out, "mtu") {
		l.t.Fatalf("the host knows already: %s", out)
	}
	if network == "tcp" {
		link = l.say(c, f, strings.Repeat("x", 200_000))
	} else if _, err := exchange(c, strings.Repeat("x", 1400)+"\n"); !errors.Is(err, unix.EMSGSIZE) {
		l.t.Errorf("a datagram that is too large: %v, want %v", err, unix.EMSGSIZE)
	} else {
		link = l.say(c, f, strings.Repeat("x", 1400))
	}
	if out := l.must2(l.exec("ip", "route", "get", f.server)); !strings.Contains(out, fmt.Sprintf("mtu %d", narrow)) {
		l.t.Errorf("the host does not know how much the way takes: %s", out)
	}
	return link
}

// traced checks that trace knows the bound flows and their replies.
func (l *linked) traced(network string, f *family, conns []net.Conn, links []int) {
	l.t.Helper()
	flags := ""
	if network == "tcp" {
		flags = ",tcp_flags=16"
	}
	for i, c := range conns {
		own := netip.MustParseAddrPort(c.LocalAddr().String())
		port, device := 2+links[i], fmt.Sprintf("eth%d", links[i])
		known := l.trace("1", fmt.Sprintf("eth_dst=02:42:74:00:00:00,%s_src=%s,%s_dst=%s,%s_src=%d,%s_dst=7%s", f.name, f.internal, f.name, f.server,
			network, own.Port(), network, flags))
		answers := l.trace(device, fmt.Sprintf("%s_src=%s,%s_dst=%s,%s_src=7,%s_dst=%d%s", f.name, f.server, f.name, f.host[links[i]],
			network, network, own.Port(), flags))
		other := l.trace(fmt.Sprintf("eth%d", 1-links[i]), fmt.Sprintf("%s_src=%s,%s_dst=%s,%s_src=7,%s_dst=%d%s", f.name, f.server, f.name, f.host[1-links[i]],
			network, network, own.Port(), flags))
		for text, want := range map[string]string{
			known:   fmt.Sprintf("the flow is bound to port %d (%s)", port, device),
			answers: fmt.Sprintf("a reply to the flow from %v to %v: goes to %s", own, netip.AddrPortFrom(netip.MustParseAddr(f.server), 7), f.internal),
			other:   "a reply to no bound flow\n",
		} {
			if !strings.Contains(text, want) {
				l.t.Errorf("trace does not say %q:\n%s", want, text)
			}
		}
		if !strings.Contains(answers, "to the host by port 1 (bal0)") || !strings.Contains(other, "to the host's stack: unchanged") {
			l.t.Errorf("trace of an answer, and of what is none:\n%s\n%s", answers, other)
		}
	}
	fresh := l.trace("1", fmt.Sprintf("eth_dst=02:42:74:00:00:00,%s_src=%s,%s_dst=%s,%s_src=9,%s_dst=9", f.name, f.internal, f.name, f.server, network, network))
	if !strings.Contains(fresh, "a new flow is bound to one of 2 buckets, round-robin\n") {
		l.t.Errorf("trace of a new flow:\n%s", fresh)
	}
}

// refused: that nobody listens is told to who asks, by either link.
func (l *linked) refused(f *family) {
	l.t.Helper()
	for range 2 {
		c := l.dial("udp", f, "9")
		_, err := exchange(c, "anybody?\n")
		if !errors.Is(err, unix.ECONNREFUSED) {
			l.t.Errorf("to a port where nobody is: %v, want %v", err, unix.ECONNREFUSED)
		}
		if _, err := l.node.Dial(l.within(), "tcp", net.JoinHostPort(f.server, "9")); !errors.Is(err, unix.ECONNREFUSED) {
			l.t.Errorf("to a TCP port where nobody is: %v, want %v", err, unix.ECONNREFUSED)
		}
	}
}

// own: what the host has with its links' networks does not go by the host.
func (l *linked) own(f *family) {
	l.t.Helper()
	for i, router := range f.router {
		if _, err := l.exec("ping", "-c", "1", "-W", "5", router); err != nil {
			l.t.Error(err)
		}
		if _, err := l.isps[i].Exec(l.within(), "ping", "-c", "1", "-W", "5", f.host[i]); err != nil {
			l.t.Error(err)
		}
	}
}

// TestBoundLinkGone: with a link gone, new flows have the other, and TCP that had it is not moved; with the link back it goes on.
func TestBoundLinkGone(t *testing.T) {
	l := newLinked(t)
	l.echoes()
	l.begin("")
	f := &families[0]
	first, second := l.dial("tcp", f, "7"), l.dial("tcp", f, "7")
	gone, stays := l.say(first, f, "one"), l.say(second, f, "two")
	if gone == stays {
		t.Fatal("both by one link")
	}
	l.links[gone].B.SetDown() // the host's end has no carrier then
	lab.Eventually(t, patience, func() error {
		if out := l.trace("1", "eth_dst=02:42:74:00:00:00,ipv4_dst=192.0.2.80,udp_src=9,udp_dst=9"); !strings.Contains(out, "the only bucket it can have") {
			return errors.New(out)
		}
		return nil
	})
	for range 3 {
		if got := l.say(l.dial("tcp", f, "7"), f, "three"); got != stays {
			t.Errorf("a new flow by link %d, which is gone", got)
		}
	}
	if got := l.say(second, f, "four"); got != stays {
		t.Errorf("moved to link %d", got)
	}
	_, err := io.WriteString(first, "five\n")
	l.must(err)
	lab.Eventually(t, patience, func() error {
		if out := l.status(); !strings.Contains(out, "drop_bind_gone") {
			return errors.New(out)
		}
		return nil
	})
	l.links[gone].B.SetUp()
	if got := l.hear(first, f, "five"); got != gone {
		t.Errorf("with the link back by link %d", got)
	}
}

// status is what baton forwarder status says.
func (l *linked) status() string {
	l.t.Helper()
	path, err := build.Program("baton")
	l.must(err)
	return l.must2(l.exec(path, "forwarder", "status", "--control", l.path("forwarder.sock")))
}

// TestBindingsSurvive: connections go on while the forwarder is killed, while it is not there, and when another one has taken over.
func TestBindingsSurvive(t *testing.T) {
	l := newLinked(t)
	l.echoes()
	l.begin("state: " + l.Dir() + "/state\n")
	f := &families[0]
	conns := []net.Conn{l.dial("tcp", f, "7"), l.dial("tcp", f, "7")}
	links := []int{l.say(conns[0], f, "one"), l.say(conns[1], f, "two")}
	goOn := func(when string) {
		t.Helper()
		for i, c := range conns {
			if got := l.say(c, f, when); got != links[i] {
				t.Errorf("%s: from link %d to %d", when, links[i], got)
			}
		}
	}
	l.must(l.process.Signal(unix.SIGKILL))
	_ = l.process.Wait(l.within())
	goOn("killed")
	l.run()
	goOn("taken over")
	l.traced("tcp", f, conns, links)
}
