package nameserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"baton/api"
	"baton/nameserver/config"
)

const patience = 10 * time.Second

// network is a name server with two surrogates on this host's loopback addresses.
type network struct {
	*Nameserver
	t         *testing.T
	dir       string
	surrogate [2]atomic.Bool // healthy
	port      string
	zones     string // more keys of the zone
	at        string
}

const zoneText = "$TTL 300\n@ SOA ns h %d 2 3 4 5\n@ NS ns\nns A 127.0.0.1\nwww CNAME cdn\n%s"

func (n *network) write(name, text string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

func (n *network) zone(serial int, more string) { n.write("z", fmt.Sprintf(zoneText, serial, more)) }

func (n *network) config(more string) string {
	return n.write("nameserver.yaml", fmt.Sprintf(`listen: ["127.0.0.1:%[2]s"]
control: %[1]s/c.sock
cookies: off
limits: none
zones: [{name: example.test, file: z, routed: {cdn: content}%[5]s}]
services: {content: {ttl: 20s, fallback: 192.0.2.99, https: {alpn: [h2]}}}
health: {port: %[3]s, path: /healthz, interval: 100ms, timeout: 100ms, rise: 1, fall: 1}
policy:
  default: west
  sites:
    west: {clients: [192.0.2.0/25], capacity: 5, surrogates: {se1: {addresses: [127.0.0.2]}}}
    east: {clients: [192.0.2.128/25], surrogates: {se2: {addresses: [127.0.0.3]}}}
%[4]s`, n.dir, freePort(n.t), n.port, more, n.zones))
}

var ports = map[*testing.T]string{}

// freePort is the same for a test.
func freePort(t *testing.T) string {
	if ports[t] == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, ports[t], _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	return ports[t]
}

func start(t *testing.T) *network { return startWith(t, "") }

func startWith(t *testing.T, more string) *network {
	t.Helper()
	return (&network{t: t, dir: t.TempDir()}).start(more)
}

func (n *network) start(more string) *network {
	t := n.t
	t.Helper()
	for i := range n.surrogate {
		l, err := net.Listen("tcp", net.JoinHostPort(fmt.Sprintf("127.0.0.%d", i+2), n.port+strings.Repeat("0", 1-min(1, len(n.port)))))
		if err != nil {
			t.Fatal(err)
		}
		_, n.port, _ = net.SplitHostPort(l.Addr().String())
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !n.surrogate[i].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		n.surrogate[i].Store(true)
	}
	n.zone(1, "")
	file := n.config(more)
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	n.Nameserver, err = New(t.Context(), Options{Config: cfg, Version: "test", Log: slog.New(slog.DiscardHandler), Load: func() (*config.Config, error) { return config.Load(file) }})
	if err != nil {
		t.Fatal(err)
	}
	n.at = n.sockets.Addresses()[0].String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n
}

// addresses are what a client of a subnet gets, and for which prefix.
func (n *network) addresses(name, client string) (got string, scope int) {
	n.t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, dns.TypeA)
	m.SetEdns0(1232, false)
	p := netip.MustParsePrefix(client)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}}
	a, _, err := (&dns.Client{Timeout: patience}).Exchange(m, n.at)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, rr := range a.Answer {
		if rr, ok := rr.(*dns.A); ok {
			got += rr.A.String() + " "
		}
	}
	if o, ok := a.IsEdns0().Option[0].(*dns.EDNS0_SUBNET); ok {
		scope = int(o.SourceScope)
	}
	return strings.TrimSpace(got), scope
}

// eventually waits until a client gets an address.
func (n *network) eventually(client, want string) {
	n.t.Helper()
	until := time.Now().Add(patience)
	for {
		got, _ := n.addresses("cdn.example.test.", client)
		if got == want {
			return
		}
		if time.Now().After(until) {
			n.t.Fatalf("%s gets %s, want %s", client, got, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestRouting: clients get the surrogate of their site, of another one when theirs is down or in maintenance, and the fallback when none is left.
func TestRouting(t *testing.T) {
	n := start(t)
	for client, want := range map[string]string{"192.0.2.0/26": "127.0.0.2", "192.0.2.200/32": "127.0.0.3", "198.51.100.0/24": "127.0.0.2"} {
		if got, scope := n.addresses("cdn.example.test.", client); got != want || client[:5] == "192.0" && scope != 25 {
			t.Errorf("%s gets %s for its /%d, want %s", client, got, scope, want)
		}
	}
	if got, scope := n.addresses("www.example.test.", "192.0.2.129/32"); got != "127.0.0.3" || scope != 25 {
		t.Errorf("by an alias: %s, /%d", got, scope)
	}
	if _, scope := n.addresses("ns.example.test.", "192.0.2.129/32"); scope != 0 {
		t.Errorf("an answer for all is for a /%d", scope)
	}
	n.surrogate[0].Store(false)
	n.eventually("192.0.2.0/26", "127.0.0.3")
	n.surrogate[1].Store(false)
	n.eventually("192.0.2.0/26", "192.0.2.99")
	n.surrogate[0].Store(true)
	n.eventually("192.0.2.200/32", "127.0.0.2")
	n.surrogate[1].Store(true)
	n.eventually("192.0.2.200/32", "127.0.0.3")

	maintenance := "maintenance"
	if u, err := n.routes.Change(api.NameserverChange{Surrogate: "se2", State: &maintenance}); err != nil || u.State != maintenance {
		t.Errorf("%+v, %v", u, err)
	}
	if got, _ := n.addresses("cdn.example.test.", "192.0.2.200/32"); got != "127.0.0.2" {
		t.Errorf("in maintenance: %s", got)
	}
	if _, err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if got, _ := n.addresses("cdn.example.test.", "192.0.2.200/32"); got != "127.0.0.2" {
		t.Errorf("in maintenance, after a reload: %s", got)
	}
	if _, err := n.routes.Change(api.NameserverChange{Surrogate: "se7"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("%v", err)
	}
	var d api.RoutingDecision
	told := func(word string) bool { return strings.Contains(strings.Join(d.Because, " "), word) }
	for until := time.Now().Add(patience); !told(maintenance) && time.Now().Before(until); time.Sleep(100 * time.Millisecond) { // not all decisions of a second are kept
		n.addresses("cdn.example.test.", "192.0.2.200/32")
		d = n.routes.Decisions()[0]
	}
	if why := strings.Join(d.Because, "; "); d.Method != "dns" || d.Surrogate != "se1" || d.Site != "west" || d.Name != "cdn.example.test" ||
		!strings.Contains(why, "client subnet 192.0.2.200/32") || !strings.Contains(why, "se2 is in maintenance") {
		t.Errorf("%+v", d)
	}
	x, err := n.Query(api.NameserverQuestion{Name: "www.example.test", Client: netip.MustParsePrefix("192.0.2.200/32")})
	why := strings.Join(x.Because, "\n")
	if err != nil || len(x.Answer) != 2 || x.Scope == nil || *x.Scope != 25 || !strings.Contains(why, "www.example.test. is an alias of cdn.example.test.") ||
		!strings.Contains(why, "se2 is in maintenance") || !strings.Contains(why, "service content") {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestReload: queries are answered all the while; a zone whose file is broken keeps what it had and says where; a broken configuration changes nothing.
func TestReload(t *testing.T) {
	n := start(t)
	stop, lost := make(chan struct{}), make(chan int)
	go func() {
		failed := 0
		for {
			select {
			case <-stop:
				lost <- failed
				return
			default:
			}
			m := new(dns.Msg)
			m.SetQuestion("ns.example.test.", dns.TypeA)
			if a, _, err := (&dns.Client{Timeout: patience}).Exchange(m, n.at); err != nil || len(a.Answer) != 1 {
				failed++
			}
		}
	}()
	reload := func(what, want string, refused bool) {
		t.Helper()
		r, err := n.Reload()
		text := strings.Join(r.Changed, "\n")
		if refused {
			text = fmt.Sprint(err)
		}
		if errors.Is(err, api.ErrConflict) != refused || !strings.Contains(text, want) {
			t.Errorf("%s: %v, %v; want %q", what, r, err, want)
		}
	}
	for i := range 50 {
		n.zone(i+2, fmt.Sprintf("h A 10.0.0.%d\n", i))
		reload("a newer zone", fmt.Sprintf("zone example.test. has the serial %d (%d before)", i+2, i+1), false)
	}
	n.zone(60, "h A nonsense\n")
	reload("a broken zone", n.dir+"/z:6:12: \"nonsense\" is wrong in the data of a record of type A", false)
	s, err := n.Status()
	if err != nil || s.Zones[0].Serial != 51 || !strings.HasPrefix(s.Zones[0].Error, n.dir+"/z:6:12: ") {
		t.Errorf("%+v, %v", s.Zones, err)
	}
	n.zone(50, "")
	reload("an older zone", "zone example.test. has the serial 50, which is older than 51", false)
	n.zone(50, "new A 10.0.0.1\n")
	reload("a zone with the same serial", "has changed, but its serial is 50 as before", false)
	n.config("typo: 1\n")
	reload("a broken configuration", "nameserver.yaml:13:1: typo: is not a key", true)
	n.config("udp: {size: 512}\n")
	reload("what a restart changes", "udp: takes effect only after a restart", true)
	n.config("")
	n.write("nameserver.yaml", strings.Replace(n.read("nameserver.yaml"), "ttl: 20s", "ttl: 1m", 1))
	reload("a service", "services have changed", false)
	close(stop)
	if n := <-lost; n > 0 {
		t.Errorf("%d queries were lost", n)
	}
	if s, err := n.Status(); err != nil || s.Reloads != 54 || s.ReloadsFailed != 2 {
		t.Errorf("%d reloads, %d failed, %v", s.Reloads, s.ReloadsFailed, err)
	}
}

func (n *network) read(name string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}
