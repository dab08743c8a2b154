package ports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"baton/lab"
	of "baton/openflow"
	"baton/packet"
)

func TestOpenAndClose(t *testing.T) {
	f := setUp(lab.New(t))
	one, two := f.cable("eth1"), f.cable("eth2")
	one.A.Address("10.0.0.1/24")
	two.A.SetDown()
	f.must(f.host.Netlink().SetPromiscOn(device(one.A)))
	p := f.open(f.options(Port{7, "eth2"}, Port{1, "eth1"}, Port{3, "none"}))

	reported := f.events()
	if len(reported) != 3 || reported[0].Port.No != 1 || reported[1].Port.No != 3 || reported[2].Port.No != 7 {
		t.Fatalf("reported before Open returned: %+v", reported)
	}
	for _, e := range reported {
		if e.Reason != of.PortAdd {
			t.Errorf("port %v: %v", e.Port.No, e.Reason)
		}
	}
	want := of.Port{No: 1, Name: "eth1", MAC: packet.MAC(one.A.MAC), State: of.PortStateLive,
		Current: of.PortFeatures10GBFD | of.PortFeaturesCopper, Speed: 10_000_000, MaxSpeed: 10_000_000}
	if reported[0].Port != want || reported[0].Ifindex != one.A.Index || !reported[0].Up {
		t.Errorf("reported %+v, want %+v", reported[0], want)
	}
	if !missing(reported[1]) || reported[1].Port.Name != "none" {
		t.Errorf("a port without interface: %+v", reported[1])
	}
	f.last(7, "up", up)
	for _, name := range []string{"eth1", "eth2"} {
		if got := f.flags(name); got&unix.IFF_UP == 0 || got&unix.IFF_PROMISC == 0 {
			t.Errorf("flags of %s: %#x", name, got)
		}
	}
	if got := p.List(); len(got) != 3 || got[0] != want || got[1].No != 3 || got[2].No != 7 {
		t.Errorf("list %+v", got)
	}
	f.must(p.Close())
	if got := f.flags("eth1"); got&unix.IFF_UP == 0 || got&unix.IFF_PROMISC == 0 {
		t.Errorf("eth1 was up and promiscuous, and is left with flags %#x", got)
	}
	if got := f.flags("eth2"); got&unix.IFF_UP != 0 || got&unix.IFF_PROMISC != 0 {
		t.Errorf("eth2 was neither up nor promiscuous, and is left with flags %#x", got)
	}
	addrs, err := f.host.Netlink().AddrList(device(one.A), unix.AF_INET)
	if err != nil || len(addrs) != 1 {
		t.Errorf("addresses of eth1: %v, %v", addrs, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	f := setUp(lab.New(t))
	f.cable("eth1")
	f.cable("sw0")
	tests := []struct {
		name  string
		ports []Port
		want  string
	}{
		{"a number twice", []Port{{1, "eth1"}, {1, "eth2"}}, "port 1: duplicate number"},
		{"an interface twice", []Port{{1, "eth1"}, {2, "eth1"}}, "port 2: eth1 is port 1 already"},
		{"a long name", []Port{{1, "an-interface-too-long"}}, "port 1: an interface's name has 1 to 15 bytes"},
		{"no Ethernet", []Port{{1, "eth1"}, {2, "lo"}}, "port 2: interface lo is not Ethernet"},
		{"a local interface that is another's", []Port{{1, "eth1"}, {of.PortLocal, "sw0"}}, "port LOCAL: interface sw0 already exists"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := f.tryOpen(context.Background(), f.options(tt.ports...))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if got := f.flags("eth1"); got&unix.IFF_PROMISC != 0 {
				t.Errorf("eth1 is left with flags %#x", got)
			}
		})
	}
}

func TestCarrier(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	f.open(f.options(Port{1, "eth1"}))
	f.last(1, "up", up)
	k.B.SetDown()
	f.last(1, "without a link", linkDown)
	k.B.SetUp()
	f.last(1, "up", up)
	reported := f.events()
	for i, e := range reported[1:] {
		if e.Reason != of.PortModify || e.Serial <= reported[i].Serial {
			t.Errorf("event %d: %+v", i+1, e)
		}
	}
}

func TestInterfaceGoesAndComes(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	p := f.open(f.options(Port{1, "eth1"}))
	first := f.last(1, "up", up)

	f.must(f.host.Netlink().LinkDel(device(k.A)))
	f.last(1, "missing", missing)
	if list := p.List(); len(list) != 1 || list[0].MAC != first.Port.MAC {
		t.Errorf("without its interface: %+v", list)
	}
	stats, fault := p.Stats(1)
	if fault != nil || len(stats) != 1 || stats[0].RxPackets != notCounted {
		t.Errorf("counters without an interface: %+v, %v", stats, fault)
	}

	k = f.cable("eth1")
	again := f.last(1, "up", up)
	if again.Ifindex != k.A.Index || again.Port.MAC != packet.MAC(k.A.MAC) {
		t.Errorf("reported %+v, and the interface is %+v", again, k.A)
	}
	if got := f.flags("eth1"); got&unix.IFF_PROMISC == 0 {
		t.Errorf("flags of the new interface: %#x", got)
	}

	k.A.SetDown() // before Linux 6.2 an interface that is up cannot be renamed
	f.must(f.host.Netlink().LinkSetName(device(k.A), "eth9"))
	f.last(1, "missing", missing)
	f.must(f.host.Netlink().LinkSetName(device(k.A), "eth1"))
	if e := f.last(1, "up", up); e.Ifindex != k.A.Index {
		t.Errorf("reported %+v", e)
	}

	other := f.lab.Host("other")
	handle, err := netns.GetFromName(other.Netns())
	f.must(err)
	defer handle.Close()
	f.must(f.host.Netlink().LinkSetNsFd(device(k.A), int(handle)))
	f.last(1, "missing", missing)
	f.must(p.Close())
}

// TestSameIndex: an interface that takes the place and the index of one that has gone is reported as another, however late its
// going is noticed.
func TestSameIndex(t *testing.T) {
	f := setUp(lab.New(t))
	f.add("eth1", 77)
	o, release := f.held(f.options(Port{1, "eth1"}))
	f.open(o)
	f.last(1, "up", up)
	f.host.Interface("eth1-peer").SetDown()
	f.last(1, "without a link", linkDown)
	f.must(f.host.Netlink().LinkDel(device(f.host.Interface("eth1"))))
	f.add("eth1", 77)
	release()
	f.last(1, "missing, then up", func(e Event) bool {
		return up(e) && slices.ContainsFunc(f.events(), func(e Event) bool { return e.Ifindex == 0 })
	})
}

// TestBridgePortLeaves: what a bridge says of a port that it has lost is not that the interface has gone.
func TestBridgePortLeaves(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	bridge := f.host.Bridge("bridge")
	f.open(f.options(Port{1, "eth1"}))
	f.last(1, "up", up)
	k.A.Attach(bridge)
	f.must(f.host.Netlink().LinkSetNoMaster(device(k.A)))
	k.B.SetDown() // something to wait for
	f.last(1, "without a link", linkDown)
	for _, e := range f.events() {
		if e.Ifindex == 0 {
			t.Errorf("reported %+v", e)
		}
	}
}

func TestStats(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	f.cable("eth2")
	p := f.open(f.options(Port{1, "eth1"}, Port{2, "eth2"}))
	before, fault := p.Stats(1)
	if fault != nil {
		t.Fatal(fault)
	}
	const count, size = 5, 100
	f.send(k.B, count, size)
	lab.Eventually(t, patience, func() error {
		link, err := f.host.Netlink().LinkByName("eth1")
		if err != nil {
			return err
		}
		c := link.Attrs().Statistics
		after, fault := p.Stats(of.PortAny)
		if fault != nil || len(after) != 2 || after[0].Port != 1 || after[1].Port != 2 {
			return fmt.Errorf("counters %+v, %v", after, fault)
		}
		got := after[0]
		if got.RxPackets < before[0].RxPackets+count || got.RxOctets < before[0].RxOctets+count*size {
			return fmt.Errorf("received %+v, before %+v", got, before[0])
		}
		if got.RxPackets != c.RxPackets || got.RxOctets != c.RxBytes || got.TxPackets != c.TxPackets || got.TxOctets != c.TxBytes {
			return fmt.Errorf("counters %+v, of the interface %+v", got, c)
		}
		if d := got.Duration; d.Sec == 0 && d.Nsec == 0 || d.Sec > 60 {
			return fmt.Errorf("duration %+v", d)
		}
		return nil
	})
	if _, fault := p.Stats(3); fault == nil || fault.Code != of.BadRequestBadPort {
		t.Errorf("no such port: %v", fault)
	}
}

func TestLocal(t *testing.T) {
	f := setUp(lab.New(t))
	o := f.options(Port{of.PortLocal, "sw0"})
	p := f.open(o)
	e := f.last(of.PortLocal, "up", up)
	host := f.host.Interface("sw0")
	if e.Port.Name != "sw0" || e.Port.MAC != packet.MAC(host.MAC) || e.Ifindex == host.Index || e.Port.No != of.PortLocal {
		t.Errorf("reported %+v, and the host's end is %+v", e, host)
	}
	before, _ := p.Stats(of.PortLocal)
	f.send(host, 3, 60)
	lab.Eventually(t, patience, func() error {
		after, _ := p.Stats(of.PortLocal)
		if after[0].RxPackets < before[0].RxPackets+3 {
			return fmt.Errorf("received %+v", after)
		}
		return nil
	})
	mac := packet.MAC{2, 9, 9, 9, 9, 9}
	f.must(f.host.Netlink().LinkSetHardwareAddr(device(host), mac[:]))
	f.last(of.PortLocal, "of another address", func(e Event) bool { return e.Port.MAC == mac && up(e) })
	host.SetDown()
	f.last(of.PortLocal, "without a link", linkDown)

	// An earlier process that was killed has left it: the one who comes next takes it over, and takes it away.
	f.mu.Lock()
	f.reported = nil
	f.mu.Unlock()
	next := f.open(o)
	if e := f.last(of.PortLocal, "there", linkDown); e.Port.MAC != mac {
		t.Errorf("taken over: %+v", e)
	}
	f.must(next.Close())
	for _, name := range []string{"sw0", portEnd("sw0")} {
		var none netlink.LinkNotFoundError
		if _, err := f.host.Netlink().LinkByName(name); !errors.As(err, &none) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	f.must(p.Close())
}

func TestLeave(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	k.A.SetDown()
	p := f.open(f.options(Port{1, "eth1"}, Port{of.PortLocal, "sw0"}))
	f.must(p.Leave())
	f.must(p.Close()) // too late to undo it
	for _, name := range []string{"eth1", portEnd("sw0")} {
		if got := f.flags(name); got&unix.IFF_UP == 0 || got&unix.IFF_PROMISC == 0 {
			t.Errorf("%s is left with flags %#x", name, got)
		}
	}
	remove := func(name string) { f.must(f.host.Do(func() error { return RemoveLocal(name) })) }
	remove("eth1") // which is none
	f.flags("eth1")
	remove("sw0")
	var none netlink.LinkNotFoundError
	if _, err := f.host.Netlink().LinkByName(portEnd("sw0")); !errors.As(err, &none) {
		t.Errorf("removed: %v", err)
	}
	remove("sw0")
}

// warnings counts the records of a log.
type warnings struct {
	slog.Handler
	mu sync.Mutex
	n  int
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "notifications of interfaces were lost") {
		w.mu.Lock()
		w.n++
		w.mu.Unlock()
	}
	return nil
}

// TestMissedChanges: more changes than the kernel keeps are made up for by reading all ports again.
func TestMissedChanges(t *testing.T) {
	f := setUp(lab.New(t))
	k := f.cable("eth1")
	gone := f.cable("eth2")
	noise := f.cable("noise")
	log := &warnings{Handler: slog.DiscardHandler}
	o, release := f.held(f.options(Port{1, "eth1"}, Port{2, "eth2"}))
	o.Log = slog.New(log)
	f.open(o)
	k.B.SetDown()
	f.last(1, "without a link", linkDown) // and its notification waits
	for i := range 2500 {
		f.must(f.host.Netlink().LinkSetMTU(device(noise.A), 1400+i%2))
	}
	k.B.SetUp()
	f.must(f.host.Netlink().LinkDel(device(gone.A)))
	release()
	f.last(1, "up", up)
	f.last(2, "missing", missing)
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.n == 0 {
		t.Error("no notification was lost: the test tests nothing")
	}
}

func TestEndsWithContext(t *testing.T) {
	f := setUp(lab.New(t))
	f.cable("eth1")
	ctx, cancel := context.WithCancel(context.Background())
	p, err := f.tryOpen(ctx, f.options(Port{1, "eth1"}))
	f.must(err)
	cancel()
	select {
	case <-p.watched:
	case <-time.After(patience):
		t.Error("the changes are still watched")
	}
	f.must(p.Close())
	f.must(p.Close())
}
