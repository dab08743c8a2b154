package vips

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/api"
	"baton/router/config"
	"baton/router/outcome"
	"baton/router/state"
)

// accepted is a connection between two sockets on a loopback address, at the end that has accepted it.
func accepted(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func TestIncomingInterface(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		if got, err := incomingInterface(accepted(t, address)); err != nil || got != lo.Index {
			t.Errorf("%s: %d, %v; want %d", address, got, err, lo.Index)
		}
	}
}

const someVIPs = `
vips:
  - {address: "10.9.9.1:80", interfaces: [eth0], routes: [{pool: a}]}
  - {address: "10.9.9.2:80", mode: proxy, routes: [{pool: a}]}
  - {address: "10.9.9.3:80", mode: redirect, routes: [{pool: a}]}
pools:
  a: {surrogates: [{name: a1, address: "10.0.0.1:80"}]}
`

func TestFindReason(t *testing.T) {
	cfg, err := config.Parse("router.yaml", []byte(someVIPs))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := state.Compile(cfg, &state.Numbers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	decided := outcome.Outcome("")
	var attached []int
	s := New(Options{
		Snapshot:   func() *state.Snapshot { return &state.Snapshot{Compiled: compiled} },
		TakeReason: func(netip.AddrPort, netip.AddrPort) outcome.Outcome { return decided },
		Attached:   func() []int { return attached },
		Log:        slog.New(slog.NewTextHandler(&logged, nil)),
	})
	c := accepted(t, "127.0.0.1:0")
	index, err := incomingInterface(c)
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddrPort("192.0.2.7:40000")
	for _, tt := range []struct {
		name    string
		vip     string
		decided outcome.Outcome
		on      string // where it comes in
		want    outcome.Outcome
	}{
		{"decided: no leg", "10.9.9.1:80", outcome.NoLeg, "eth0", outcome.NoLeg},
		{"decided, by a bridge's port", "10.9.9.1:80", outcome.Pipelined, "br0", outcome.Pipelined},
		{"refused", "10.9.9.1:80", outcome.Refused, "eth0", ""},
		{"its own interface", "10.9.9.1:80", "", "eth0", outcome.Proxied},
		{"another interface", "10.9.9.1:80", "", "eth1", outcome.Interface},
		{"from this host", "10.9.9.1:80", "", "this", outcome.LocalClient},
		{"mode proxy", "10.9.9.2:80", "", "eth1", outcome.Mode},
		{"mode redirect", "10.9.9.3:80", "", "eth1", ""},
		{"no VIP any more", "10.9.9.4:80", "", "eth1", ""},
	} {
		decided = tt.decided
		s.devices.until, s.devices.names = time.Now().Add(time.Hour), map[int]string{index: tt.on}
		if attached = nil; tt.on == "eth0" {
			attached = []int{index}
		}
		s.devices.own = map[netip.Addr]bool{client.Addr(): tt.on == "this"}
		p := newProxied(config.Handoff)
		logged.Reset()
		for range 3 {
			if got := s.findReason(netip.MustParseAddrPort(tt.vip), client, c, p); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
		want := ""
		if tt.want == outcome.Interface {
			want = `level=WARN msg="connections for VIP 10.9.9.1:80 come in on eth1, which is not in its interfaces: proxied" ` +
				"interfaces=[eth0]\n"
		}
		if _, got, _ := strings.Cut(logged.String(), " "); got != want {
			t.Errorf("%s: logged %q, want %q", tt.name, got, want)
		}
	}
}

func TestWarnsAgain(t *testing.T) {
	p, now := newProxied(config.Handoff), time.Unix(1000, 0)
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  bool
	}{
		{"eth1", 0, true}, {"eth1", time.Minute, false}, {"eth2", time.Minute, true},
		{"eth1", warnEvery, true}, {"eth1", warnEvery + time.Minute, false},
	} {
		if got := p.noteInterface(tt.name, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s after %v: %v", tt.name, tt.after, got)
		}
	}
}

// TestProxiedConnections: a listener counts what it accepts, and what of it is still there.
func TestProxiedConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	reasons := []outcome.Outcome{outcome.Interface, "", outcome.Interface, outcome.NoPlace}
	l := &listener{
		Listener: inner, forgetClient: func(netip.AddrPort, netip.AddrPort) {}, proxied: newProxied(config.Handoff),
		last: make(map[netip.AddrPort]*conn),
		findReason: func(netip.AddrPort, netip.AddrPort, syscall.Conn, *proxied) (why outcome.Outcome) {
			why, reasons = reasons[0], reasons[1:]
			return why
		},
	}
	var all []net.Conn
	for range len(reasons) {
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	want := &api.RouterProxied{Live: 3, Connections: map[string]uint64{"interface": 2, "no leg": 0, "no place": 1}}
	if diff := cmp.Diff(want, l.proxied.describeStatus()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range all {
		_ = c.Close()
		_ = c.Close() // as some servers do
	}
	if l.proxied.describeStatus().Live != 0 || l.proxied.describeStatus().Total() != 3 {
		t.Errorf("when all are closed: %+v", l.proxied.describeStatus())
	}
}
