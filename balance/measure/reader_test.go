package measure

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"baton/balance/tables"
	"baton/datapath/kerneltest"
)

func TestMain(m *testing.M) {
	kerneltest.Main(m, func() error { return exec.Command("ip", "link", "set", "lo", "up").Run() })
}

// dial connects from an address to a listener, and returns the connection's own address.
func dial(t *testing.T, from string, l net.Listener) (net.Conn, netip.AddrPort) {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return c, c.LocalAddr().(*net.TCPAddr).AddrPort()
}

// TestReader: the host's connections are joined with the switch's memory of flows; that is read only when there are others than before.
func TestReader(t *testing.T) {
	kerneltest.Need(t)
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to := l.Addr().(*net.TCPAddr).AddrPort()
	_, first := dial(t, "127.0.0.2", l)
	_, second := dial(t, "127.0.0.2", l)
	dial(t, "127.0.0.3", l) // not an internal address
	memory := map[netip.AddrPort]uint32{first: tables.FirstLink, second: tables.FirstLink + 1}
	asked := 0
	r, err := NewReader([]netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, func(visit func(uint8, netip.AddrPort, netip.AddrPort, uint32) bool) error {
		asked++
		for internal, port := range memory {
			if !visit(17, internal, to, 99) || !visit(6, internal, to, port) {
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	now := time.Duration(0)
	check := func(wantAsked int, want map[netip.AddrPort]int) {
		t.Helper()
		now += time.Hour
		flows, listed, err := r.Flows(now)
		if err != nil || !listed || len(flows) != len(want) || asked != wantAsked {
			t.Fatalf("%d flows, listed %v, asked %d times, %v", len(flows), listed, asked, err)
		}
		for _, f := range flows {
			if place, is := want[f.Local]; !is || place != f.Link || f.Remote != to {
				t.Errorf("%v: link %d", f.Local, f.Link)
			}
		}
	}
	check(1, map[netip.AddrPort]int{first: 0, second: 1})
	check(1, map[netip.AddrPort]int{first: 0, second: 1})
	if _, listed, err := r.Flows(now + listEvery/2); listed || err != nil {
		t.Errorf("too early: listed %v, %v", listed, err)
	}
	_, third := dial(t, "127.0.0.2", l) // the switch does not know it
	check(2, map[netip.AddrPort]int{first: 0, second: 1, third: nowhere})
	check(2, map[netip.AddrPort]int{first: 0, second: 1, third: nowhere})
	memory[third], memory[first] = tables.FirstLink+2, tables.FirstLink+3
	clear(r.places)
	check(3, map[netip.AddrPort]int{first: 3, second: 1, third: 2})
	broken := errors.New("no memory")
	r.bindings = func(func(uint8, netip.AddrPort, netip.AddrPort, uint32) bool) error { return broken }
	clear(r.places)
	if _, listed, err := r.Flows(now + time.Hour); listed || !errors.Is(err, broken) {
		t.Errorf("listed %v, %v", listed, err)
	}
	r.bindings = nil
	if flows, listed, err := r.Flows(now + 2*time.Hour); !listed || len(flows) > 0 || err != nil {
		t.Errorf("%d flows, listed %v, %v", len(flows), listed, err)
	}
}

func TestReadCounters(t *testing.T) {
	kerneltest.Need(t)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	before, err := ReadCounters(lo.Index)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	after, err := ReadCounters(lo.Index)
	if err != nil || after.Sent < before.Sent+1000 || after.Received < before.Received+1000 {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
	if _, err := ReadCounters(1 << 30); err == nil {
		t.Error("an interface that there is not")
	}
}
