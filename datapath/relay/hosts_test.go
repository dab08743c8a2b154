package relay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"baton/datapath/kerneltest"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// network is the network of the relay's tests: a client, the relay's host, which is the namespace of the tests, and a server.
//
//	client c0 --- r0 relay r1 --- s0 server
type network struct {
	t              testing.TB
	client, server host
	north, south   int // interfaces of the relay towards them
}

// host is a network namespace.
type host struct {
	t  testing.TB
	ns netns.NsHandle
}

// family is what is different between IPv4 and IPv6.
type family struct {
	name                          string
	clientNet, serverNet, far     netip.Prefix // far: where nobody is
	relay, client, server, farOne netip.Addr
}

var families = []family{
	{
		"IPv4", netip.MustParsePrefix("10.77.1.0/24"), netip.MustParsePrefix("10.77.2.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParseAddr("10.77.1.1"), netip.MustParseAddr("10.77.1.2"), netip.MustParseAddr("10.77.2.2"), netip.MustParseAddr("203.0.113.9"),
	},
	{
		"IPv6", netip.MustParsePrefix("fd77:1::/64"), netip.MustParsePrefix("fd77:2::/64"), netip.MustParsePrefix("2001:db8::/64"),
		netip.MustParseAddr("fd77:1::1"), netip.MustParseAddr("fd77:1::2"), netip.MustParseAddr("fd77:2::2"), netip.MustParseAddr("2001:db8::9"),
	},
}

func eachFamily(t *testing.T, run func(t *testing.T, f family)) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) { run(t, f) })
	}
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	kerneltest.Need(t)
	kerneltest.Forward(t)
	n := &network{t: t, client: newHost(t), server: newHost(t)}
	n.north = n.join(n.client, "c0", "r0", 1)
	n.south = n.join(n.server, "s0", "r1", 2)
	return n
}

// join links a host to the relay's; net is the number of the network between them.
func (n *network) join(h host, theirs, ours string, net int) (ifindex int) {
	n.t.Helper()
	kerneltest.IP(n.t, "link", "add", ours, "type", "veth", "peer", "name", theirs)
	n.t.Cleanup(func() { kerneltest.IP(n.t, "link", "del", ours) })
	peer, err := netlink.LinkByName(theirs)
	if err == nil {
		err = netlink.LinkSetNsFd(peer, int(h.ns))
	}
	if err != nil {
		n.t.Fatal(err)
	}
	v4, v6 := fmt.Sprintf("10.77.%d.", net), fmt.Sprintf("fd77:%d::", net)
	h.ip("link", "set", "lo", "up")
	h.ip("link", "set", theirs, "up")
	kerneltest.IP(n.t, "link", "set", ours, "up")
	kerneltest.IP(n.t, "addr", "add", v4+"1/24", "dev", ours)
	kerneltest.IP(n.t, "addr", "add", v6+"1/64", "dev", ours, "nodad")
	h.ip("addr", "add", v4+"2/24", "dev", theirs)
	h.ip("addr", "add", v6+"2/64", "dev", theirs, "nodad")
	h.ip("route", "add", "default", "via", v4+"1")
	h.ip("-6", "route", "add", "default", "via", v6+"1")
	l, err := netlink.LinkByName(ours)
	if err != nil {
		n.t.Fatal(err)
	}
	return l.Attrs().Index
}

func newHost(t testing.TB) host {
	t.Helper()
	h := host{t: t}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		var err error
		h.ns, err = netns.New()
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.ns.Close() })
	return h
}

// own is the relay's host itself, as any other.
func own(t testing.TB) host {
	t.Helper()
	ns, err := netns.GetFromPath("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return host{t, ns}
}

// do runs f in the host.
func (h host) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(h.ns)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func (h host) ip(args ...string) {
	h.t.Helper()
	if err := h.do(func() error { kerneltest.IP(h.t, args...); return nil }); err != nil {
		h.t.Fatal(err)
	}
}

// patience is more than the first repetitions of a SYN take.
const patience = 10 * time.Second

// dial connects from an address, or from any.
func (h host) dial(from, to netip.AddrPort) (net.Conn, error) {
	var c net.Conn
	err := h.do(func() (err error) { c, err = dialWith(from, to); return err })
	if err == nil {
		h.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// connect requires a connection.
func (h host) connect(to netip.AddrPort) net.Conn {
	h.t.Helper()
	c, err := h.dial(netip.AddrPort{}, to)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func dialWith(from, to netip.AddrPort, options ...func(fd int) error) (net.Conn, error) {
	return dialUntil(context.Background(), from, to, options...)
}

func dialUntil(ctx context.Context, from, to netip.AddrPort, options ...func(fd int) error) (net.Conn, error) {
	d := net.Dialer{Timeout: patience, Control: control(options)}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(from)
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(patience))
}

// echo answers with what it is told.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(c, c)
			c.Close()
		}()
	}
}

// says requires that the other end echoes.
func says(t testing.TB, c io.ReadWriter, words string) {
	t.Helper()
	got := make([]byte, len(words))
	if _, err := io.WriteString(c, words); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != words {
		t.Fatalf("got %q, %v; want %q", got, err, words)
	}
}

// listen makes a listener with socket options in the host.
func (h host) listen(at netip.AddrPort, options ...func(fd int) error) net.Listener {
	h.t.Helper()
	var l net.Listener
	if err := h.do(func() (err error) { l, err = listenWith(at, options...); return err }); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	return l
}

func listenWith(at netip.AddrPort, options ...func(fd int) error) (net.Listener, error) {
	c := net.ListenConfig{Control: control(options)}
	c.SetMultipathTCP(false)
	network := "tcp" // with :: for both families
	if at.Addr().Is4() {
		network = "tcp4"
	}
	return c.Listen(context.Background(), network, at.String())
}

func control(options []func(fd int) error) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			for _, set := range options {
				if failed = set(int(fd)); failed != nil {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		return failed
	}
}

func transparent(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1); err != nil {
		return err
	}
	if domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_INET6 {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
}

func reusePort(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// byHash has a group of listeners choose by the packet's hash, as the relay's workers are chosen.
func byHash(workers int) func(fd int) error {
	return func(fd int) error {
		const hash = 0xfffff000 + 32 // SKF_AD_OFF + SKF_AD_RXHASH
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: hash},
			{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(workers)},
			{Code: unix.BPF_RET | unix.BPF_A},
		}
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}
}

// setSysctl sets what is below /proc/sys/net of the relay's host, for a test.
func setSysctl(t testing.TB, name, value string) {
	t.Helper()
	before, err := os.ReadFile("/proc/sys/net/" + name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(value []byte) {
		if err := os.WriteFile("/proc/sys/net/"+name, value, 0o644); err != nil {
			t.Error(err)
		}
	}
	write([]byte(value))
	t.Cleanup(func() { write(before) })
}

// setBacklog bounds the queues of a listener.
func setBacklog(l net.Listener, n int) error {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Listen(int(fd), n) }); err != nil {
		return err
	}
	return failed
}

// poll waits for something.
func poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// States of sockets in /proc/net/tcp.
const (
	synReceived = "03"
	timeWait    = "06"
)

// hasSocket reports whether a host has a socket in a state whose peer is at an address.
func hasSocket(t testing.TB, state string, peer netip.AddrPort) bool {
	t.Helper()
	name := "/proc/thread-self/net/tcp6"
	if peer.Addr().Is4() {
		name = "/proc/thread-self/net/tcp"
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", peer.Port())) && f[3] == state {
			return true
		}
	}
	return false
}
