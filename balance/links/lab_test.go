package links

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"baton/balance/config"
	"baton/lab"
)

// patience bounds what a test waits for that should take milliseconds, or the kernel's own seconds: machines that run tests are busy.
const patience = 30 * time.Second

// fixture is a host with two links, each to a router of its own.
type fixture struct {
	t       *testing.T
	lab     *lab.Lab
	host    *lab.Host
	routers [2]*lab.Host
	cables  [2]*lab.Link // the host's end is A
	w       *Watcher

	mu       sync.Mutex
	list     []Link
	reports  int
	answered []string
}

func setUp(t *testing.T) *fixture {
	l := lab.New(t)
	f := &fixture{t: t, lab: l, host: l.Host("host")}
	for i := range f.routers {
		f.routers[i] = l.Host(fmt.Sprintf("r%d", i))
		f.cables[i] = l.Link(lab.End{Host: f.host, Addrs: []string{fmt.Sprintf("10.0.%d.2/24", i)}},
			lab.End{Host: f.routers[i], Addrs: []string{fmt.Sprintf("10.0.%d.1/24", i)}}, lab.LinkOptions{})
		f.route(i, fmt.Sprintf("10.0.%d.1", i), 100+i, unix.RT_TABLE_MAIN, unix.RTPROT_DHCP)
	}
	return f
}

// route adds a default route of the host by a link.
func (f *fixture) route(link int, gateway string, metric, table, protocol int) {
	f.t.Helper()
	f.must(f.host.Netlink().RouteReplace(&netlink.Route{
		LinkIndex: f.host.Interface(fmt.Sprintf("eth%d", link)).Index, Gw: net.ParseIP(gateway), Priority: metric, Table: table,
		Protocol: netlink.RouteProtocol(protocol), Dst: everywhere(gateway),
	}))
}

func everywhere(like string) *net.IPNet {
	if net.ParseIP(like).To4() == nil {
		return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func both() []config.Link {
	return []config.Link{{Name: "a", Interface: "eth0"}, {Name: "b", Interface: "eth1"}}
}

func (f *fixture) open(links ...config.Link) {
	f.t.Helper()
	f.must(f.host.Do(func() (err error) {
		f.w, err = Open(context.Background(), Options{
			Links: links, Log: slog.New(slog.NewTextHandler(f.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
			Report: func(list []Link) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.list, f.reports = list, f.reports+1
			},
			Answered: func(link string, answers bool) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.answered = append(f.answered, fmt.Sprint(link, " ", answers))
			},
		})
		return err
	}))
	f.t.Cleanup(f.w.Close)
}

// until waits until a link is reported as wanted, and returns it and the time that took.
func (f *fixture) until(place int, what string, want func(Link) bool) (l Link) {
	f.t.Helper()
	began := time.Now()
	lab.Eventually(f.t, patience, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.list) <= place {
			return fmt.Errorf("there are %d links", len(f.list))
		}
		if l = f.list[place]; !want(l) {
			return fmt.Errorf("link is not %s: %+v", what, l)
		}
		return nil
	})
	f.t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
	return l
}

func (f *fixture) untilAnswered(want string) {
	f.t.Helper()
	lab.Eventually(f.t, patience, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, a := range f.answered {
			if a == want {
				return nil
			}
		}
		return fmt.Errorf("no %q in %q", want, f.answered)
	})
}

func (f *fixture) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = nil
}

func usable(l Link) bool   { return l.Usable() }
func unusable(l Link) bool { return !l.Usable() }

func TestKernelLinks(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	for i, name := range []string{"a", "b"} {
		got := f.until(i, "usable", usable)
		want := Link{
			Name: name, Interface: fmt.Sprintf("eth%d", i), Index: f.cables[i].A.Index, MAC: MAC(f.cables[i].A.MAC), MTU: 1500, Carrier: true,
			V4: Family{
				Address: netip.MustParseAddr(fmt.Sprintf("10.0.%d.2", i)), Prefix: netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i)),
				Gateway: netip.MustParseAddr(fmt.Sprintf("10.0.%d.1", i)), GatewayMAC: MAC(f.cables[i].B.MAC),
			},
		}
		if !got.Equal(want) || got.Why() != "" {
			t.Errorf("link %+v (%s), want %+v", got, got.Why(), want)
		}
	}
	for _, n := range f.neighbours() {
		if n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
			t.Errorf("entry %+v is not an ordinary one", n)
		}
	}
	f.cables[0].A.SetMTU(1400)
	f.until(0, "of another MTU", func(l Link) bool { return l.MTU == 1400 })
}

func (f *fixture) neighbours() []netlink.Neigh {
	f.t.Helper()
	list, err := f.host.Netlink().NeighList(f.cables[0].A.Index, netlink.FAMILY_V4)
	f.must(err)
	return list
}

func TestCarrier(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	f.until(0, "usable", usable)
	f.until(1, "usable", usable)
	f.cables[0].B.SetDown()
	if l := f.until(0, "without carrier", func(l Link) bool { return !l.Carrier }); l.Why() != "no carrier" {
		t.Errorf("%q, want no carrier", l.Why())
	}
	f.until(1, "usable as before", usable)
	f.cables[0].B.SetUp()
	f.until(0, "usable again", usable)
	f.cables[0].A.SetDown() // which takes its route, and says nothing of it
	f.until(0, "down", func(l Link) bool { return !l.Carrier && !l.V4.Gateway.IsValid() })
}

func TestRenewal(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	f.until(0, "usable", usable)
	f.cables[0].A.RemoveAddress("10.0.0.2/24")
	if l := f.until(0, "without address", unusable); l.Why() != "no address" || l.V4.Gateway.IsValid() {
		t.Errorf("%q, gateway %v, want no address and none", l.Why(), l.V4.Gateway)
	}
	f.routers[0].Interface("eth0").Address("10.7.0.1/16")
	f.cables[0].A.Address("10.7.1.9/16")
	if l := f.until(0, "with another address", func(l Link) bool { return l.V4.Address.IsValid() }); l.Why() != "no gateway" {
		t.Errorf("%q, want no gateway", l.Why())
	}
	f.route(0, "10.7.0.1", 100, unix.RT_TABLE_MAIN, unix.RTPROT_DHCP)
	l := f.until(0, "usable again", usable)
	if l.V4.Address.String() != "10.7.1.9" || l.V4.Prefix.String() != "10.7.0.0/16" || l.V4.Gateway.String() != "10.7.0.1" {
		t.Errorf("%+v", l.V4)
	}
}

// TestGatewayChanges changes a gateway's MAC, with an announcement or without.
func TestGatewayChanges(t *testing.T) {
	next := MAC{2, 0, 0, 0, 0, 9}
	for _, tt := range []struct {
		name   string
		notify string
	}{{"announced", "1"}, {"unannounced", "0"}} {
		t.Run(tt.name, func(t *testing.T) {
			f := setUp(t)
			f.routers[0].Sysctl("net.ipv4.conf.eth0.arp_notify", tt.notify)
			f.host.Sysctl("net.ipv4.neigh.eth0.locktime", "0") // else the kernel heeds no second answer within a second
			f.open(both()...)
			f.until(0, "usable", usable)
			r := f.routers[0].Netlink()
			link, err := r.LinkByName("eth0")
			f.must(err)
			f.must(r.LinkSetHardwareAddr(link, next[:]))
			if tt.notify == "0" {
				f.w.Probe("a")
			}
			f.until(0, "of another gateway", func(l Link) bool { return l.V4.GatewayMAC == next })
			f.until(0, "usable", usable)
		})
	}
}

func TestGatewayUnresponsive(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	f.until(0, "usable", usable)
	f.forget()
	f.w.Probe("a")
	f.untilAnswered("a true")
	f.routers[0].Sysctl("net.ipv4.conf.all.arp_ignore", "8") // to all
	f.w.Probe("a")
	f.untilAnswered("a false")
	if l := f.until(0, "unusable", unusable); l.Why() != "no gateway" {
		t.Errorf("%q, want no gateway", l.Why())
	}
	f.forget()
	f.routers[0].Sysctl("net.ipv4.conf.all.arp_ignore", "0")
	f.until(0, "usable by itself", usable)
	f.untilAnswered("a true")
}

// TestFlushed: an entry that is deleted is asked for again, and the link is usable all the while.
func TestFlushed(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	f.until(0, "usable", usable)
	f.mu.Lock()
	f.reports = 0
	f.mu.Unlock()
	f.forget()
	f.must(f.host.Netlink().NeighDel(&netlink.Neigh{LinkIndex: f.cables[0].A.Index, IP: net.ParseIP("10.0.0.1")}))
	f.untilAnswered("a true")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reports > 0 {
		t.Errorf("the link was reported %d times", f.reports)
	}
}

// TestAdvertised has IPv6 addresses and routes as router advertisements make them.
func TestAdvertised(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	f.until(0, "usable", usable)
	f.cables[0].A.Address("2001:db8:1::2/64")
	f.cables[0].B.Address("fe80::1/64")
	f.route(0, "fe80::1", 1024, unix.RT_TABLE_MAIN, unix.RTPROT_RA)
	l := f.until(0, "usable by IPv6", func(l Link) bool { return l.V6.Complete() })
	want := Family{
		Address: netip.MustParseAddr("2001:db8:1::2"), Prefix: netip.MustParsePrefix("2001:db8:1::/64"), Gateway: netip.MustParseAddr("fe80::1"),
		GatewayMAC: MAC(f.cables[0].B.MAC),
	}
	if l.V6 != want {
		t.Errorf("IPv6 %+v, want %+v", l.V6, want)
	}
	f.cables[0].A.RemoveAddress("2001:db8:1::2/64")
	f.until(0, "without IPv6", func(l Link) bool { return !l.V6.Complete() && l.V4.Complete() })
}

// TestTables: a route in another table counts when the main one has none, and our own routes never do.
func TestTables(t *testing.T) {
	f := setUp(t)
	f.must(f.host.Netlink().RouteDel(&netlink.Route{LinkIndex: f.cables[0].A.Index, Dst: everywhere("10.0.0.1"), Priority: 100}))
	f.route(0, "10.0.0.77", 0, 30001, Protocol)
	f.open(both()...)
	f.until(0, "without gateway", func(l Link) bool { return l.Why() == "no gateway" && !l.V4.Gateway.IsValid() })
	f.route(0, "10.0.0.1", 0, 1000, unix.RTPROT_STATIC)
	f.until(0, "usable", usable)
}

func TestRemovedAndBack(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	before := f.until(0, "usable", usable)
	f.must(f.host.Netlink().LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth0", Index: before.Index}}))
	if l := f.until(0, "gone", func(l Link) bool { return l.Index == 0 }); l.Why() != "no interface" || l.V4.Address.IsValid() {
		t.Errorf("%+v, %q", l, l.Why())
	}
	k := f.lab.Link(lab.End{Host: f.host, Name: "eth0", Addrs: []string{"10.0.0.2/24"}},
		lab.End{Host: f.routers[0], Addrs: []string{"10.0.0.1/24"}}, lab.LinkOptions{})
	f.route(0, "10.0.0.1", 100, unix.RT_TABLE_MAIN, unix.RTPROT_DHCP)
	l := f.until(0, "usable again", usable)
	if l.Index != k.A.Index || l.Index == before.Index || l.V4.GatewayMAC != MAC(k.B.MAC) {
		t.Errorf("%+v is not the new interface %+v", l, k.A)
	}
}

// TestOverrun changes more than the kernel keeps for us.
func TestOverrun(t *testing.T) {
	f := setUp(t)
	f.open(both()...)
	f.until(0, "usable", usable)
	f.must(f.w.changes.SetReceiveBufferSize(1, true)) // the least that there is
	f.w.mu.Lock()                                     // the first change that matters is the last that is taken
	f.route(1, "10.0.1.1", 999, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC)
	for i := range 200 {
		f.must(f.host.Netlink().RouteAdd(&netlink.Route{
			LinkIndex: f.cables[1].A.Index, Dst: &net.IPNet{IP: net.IPv4(10, 200, byte(i), 0).To4(), Mask: net.CIDRMask(24, 32)},
		}))
	}
	f.cables[0].A.RemoveAddress("10.0.0.2/24")
	f.w.mu.Unlock()
	f.until(0, "without address", func(l Link) bool { return l.Why() == "no address" })
}

// TestCarrierUnreported: a lost carrier is noticed before the kernel reports it.
func TestCarrierUnreported(t *testing.T) {
	f := setUp(t)
	index := f.cables[0].A.Index
	w := &Watcher{
		handle: f.host.Netlink(), wake: make(chan struct{}, 1), kernel: Kernel{Interfaces: []Interface{{Index: index, Live: true}}},
		list: []Link{{Index: index}},
	}
	lab.Eventually(t, patience, func() error { // it comes up
		w.hints = hints{}
		if w.lookAtCarriers(); w.hints.parts != 0 {
			return fmt.Errorf("of a carrier that is there comes %+v", w.hints)
		}
		return nil
	})
	f.cables[0].B.SetDown()
	if w.lookAtCarriers(); w.hints.parts != interfaces|routes {
		t.Errorf("of a carrier that is gone comes %+v", w.hints)
	}
	w.hints, w.kernel.Interfaces[0].Live = hints{}, false
	if w.lookAtCarriers(); w.hints.parts != 0 {
		t.Errorf("of a carrier that is known to be gone comes %+v", w.hints)
	}
}

func TestFollow(t *testing.T) {
	f := setUp(t)
	f.open(config.Link{Name: "a", Interface: "eth0"})
	before := f.until(0, "usable", usable)
	f.w.Follow([]config.Link{{Name: "second", Interface: "eth1"}, {Name: "first", Interface: "eth0", Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}})
	if l := f.until(0, "another one", usable); l.Name != "second" {
		f.until(0, "the second", func(l Link) bool { return l.Name == "second" && l.Usable() })
	}
	after := f.until(1, "usable as before", usable)
	before.Name = "first"
	if !after.Equal(before) {
		t.Errorf("%+v, want %+v", after, before)
	}
}

func TestReadHost(t *testing.T) {
	f := setUp(t)
	var h Host
	f.must(f.host.Do(func() (err error) {
		h, err = ReadHost(nil)
		return err
	}))
	if len(h.Interfaces) != 2 || len(h.Networks) < 2 {
		t.Errorf("%+v", h)
	}
}
