package route

import (
	"fmt"
	"strings"
	"testing"

	"baton/packet/hello"
	"baton/router/config"

	"github.com/google/go-cmp/cmp"
)

// TestKernelEntries checks the tables: nothing redundant with a shorter prefix, nothing of other modes.
func TestKernelEntries(t *testing.T) {
	table := compile(t, `  - {address: "10.9.9.8:80", mode: proxy, routes: [{pool: a}]}
  - {address: "10.9.9.9:80", interfaces: [eth0], routes: [{match: {host: h, path_prefix: /v/w, methods: [GET]}, pool: b}, `+
		`{match: {host: i, path_prefix: /v/w, methods: [GET]}, pool: b}, {match: {host: j, path_prefix: /v}, pool: b}, {match: {host: j}, pool: c}, `+
		`{match: {path_prefix: /v, methods: [GET]}, pool: b}, {match: {methods: [GET]}, pool: a}]}
`)
	got := table.Kernel(RoomOf(MaxHosts))
	wantHosts := []HostEntry{{VIP: 1, Host: "h", ID: 1}, {VIP: 1, Host: "i", ID: 1}, {VIP: 1, Host: "j", ID: 2}}
	wantPrefixes := []PrefixEntry{
		{VIP: 1, HostID: 0, Method: 1, Prefix: "", Pool: 0}, {VIP: 1, HostID: 0, Method: 1, Prefix: "/v", Pool: 1},
		{VIP: 1, HostID: 1, Method: 1, Prefix: "", Pool: 0}, {VIP: 1, HostID: 1, Method: 1, Prefix: "/v", Pool: 1},
		{VIP: 1, HostID: 2, Method: AnyMethod, Prefix: "", Pool: 2},
	}
	for method := range uint8(5) {
		wantPrefixes = append(wantPrefixes, PrefixEntry{VIP: 1, HostID: 2, Method: method + 1, Prefix: "/v", Pool: 1})
	}
	if diff := cmp.Diff(wantHosts, got.Hosts); diff != "" {
		t.Errorf("Hosts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantPrefixes, got.Prefixes); diff != "" {
		t.Errorf("Prefixes (-want +got):\n%s", diff)
	}
}

// hostRoutes are routes for n hosts, h0.test and so on, to ten pools; every third has a path, and every seventh a
// method, if various.
func hostRoutes(n int, various bool) *config.Config {
	cfg := &config.Config{File: "f", VIPs: []config.VIP{{Mode: config.Handoff}}}
	for i := range 10 {
		cfg.Pools = append(cfg.Pools, config.Pool{Name: fmt.Sprint(i)})
	}
	add := func(r config.Route) { cfg.VIPs[0].Routes = append(cfg.VIPs[0].Routes, r) }
	for i := range n {
		m := config.Match{Host: fmt.Sprintf("h%d.test", i)}
		if various && i%3 == 0 {
			m.PathPrefix = fmt.Sprintf("/%d/", i)
			add(config.Route{Match: m, Pool: "9", Line: i + 2})
			m.PathPrefix = ""
		}
		if various && i%7 == 0 {
			m.Methods = []string{"GET"}
		}
		add(config.Route{Match: m, Pool: fmt.Sprint(i % 10), Line: i + 2})
	}
	add(config.Route{Pool: "0", Line: n + 2})
	return cfg
}

func compileConfig(t testing.TB, cfg *config.Config) *Table {
	t.Helper()
	table, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestHundredThousandHosts: the tables hold them all, and hosts with the same routes share their entries.
func TestHundredThousandHosts(t *testing.T) {
	const hosts = 100000
	cfg := hostRoutes(hosts, false)
	k := compileConfig(t, cfg).Kernel(RoomFor(cfg))
	if len(k.Hosts) != hosts || len(k.LeftOut) > 0 || len(k.Prefixes) != 11 {
		t.Errorf("%d hosts, %d prefixes, left out %+v; want %d, 11 and none", len(k.Hosts), len(k.Prefixes), k.LeftOut, hosts)
	}
	cfg = hostRoutes(hosts, true)
	table := compileConfig(t, cfg)
	k = table.Kernel(RoomFor(cfg))
	if len(k.LeftOut) > 0 {
		t.Fatalf("left out %+v, with %d prefixes", k.LeftOut, len(k.Prefixes))
	}
	for i := range 100 {
		for _, method := range []string{"GET", "PUT"} {
			r := request(t, method, fmt.Sprintf("/%d/", i), fmt.Sprintf("h%d.test", i))
			want, _ := table.Match(0, r)
			if got := k.Lookup(0, r); got.Upcall || int(got.Pool) != want.Pool {
				t.Errorf("%s for host h%d: Lookup = %+v, Match = %d", method, i, got, want.Pool)
			}
		}
	}
}

// TestKernelLeavesOutWhatDoesNotFit: what does not fit becomes upcalls, not wrong results; it is reported, and other
// VIPs keep theirs.
func TestKernelLeavesOutWhatDoesNotFit(t *testing.T) {
	cfg := hostRoutes(200, true)
	one := []config.Route{{Match: config.Match{Host: "x.test"}, Pool: "1"}, {Pool: "1"}}
	cfg.VIPs = append(cfg.VIPs, config.VIP{Mode: config.Handoff, Routes: one})
	table := compileConfig(t, cfg)
	for _, tt := range []struct {
		room Room
		want string // warnings
	}{
		{Room{Hosts: 200, Prefixes: 1000}, ""},
		{Room{Hosts: 150, Prefixes: 1000}, "vips[0].routes: requests to 50 hosts, and to hosts that no route names, are decided in user space: " +
			"the kernel's tables hold 150 hosts, 65534 with different routes at a VIP, and 1000 prefixes (`baton router cleanup` before the next start, for a larger table)"},
		{Room{Hosts: MaxHosts, Prefixes: 200}, "vips[0].routes: requests to 42 hosts are decided in user space: " +
			"the kernel's tables hold 1048576 hosts, 65534 with different routes at a VIP, and 200 prefixes (several VIPs or routers)"},
		{Room{Hosts: 200, Prefixes: 0}, "vips[0].routes: requests to 200 hosts, and to hosts that no route names, are decided in user space: "},
	} {
		k := table.Kernel(tt.room)
		if got := strings.Join(k.Warnings(cfg), "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.room, got, tt.want)
		}
		if pool, ok := k.OnePool(1); !ok || pool != 1 {
			t.Errorf("%+v: the second VIP has one pool: %d, %v", tt.room, pool, ok)
		}
		for i := range 200 {
			for _, path := range []string{"/", fmt.Sprintf("/%d/", i)} {
				r := request(t, "GET", path, fmt.Sprintf("h%d.test", i))
				want, _ := table.Match(0, r)
				switch got := k.Lookup(0, r); {
				case !got.Upcall && int(got.Pool) != want.Pool:
					t.Errorf("%+v: host h%d: Lookup = pool %d, Match = %d", tt.room, i, got.Pool, want.Pool)
				case got.Upcall && (tt.want == "" || !strings.Contains(got.Why, "kernel's tables have no room")):
					t.Errorf("%+v: host h%d: an upcall because %q", tt.room, i, got.Why)
				}
			}
		}
	}
}

// TestNamesThatDoNotFit is TestKernelLeavesOutWhatDoesNotFit for hellos: a wildcard stands for no name that has its
// own route.
func TestNamesThatDoNotFit(t *testing.T) {
	cfg := &config.Config{
		Pools: []config.Pool{{Name: "0"}, {Name: "1"}}, VIPs: []config.VIP{{Mode: config.Handoff, Protocol: config.TLS}},
	}
	for _, name := range []string{"*.a.net", "*.b.net", "x.a.net", "y.a.net", ""} {
		r := config.Route{Match: config.Match{SNI: name}, Pool: fmt.Sprint(len(name) % 2)}
		cfg.VIPs[0].Routes = append(cfg.VIPs[0].Routes, r)
	}
	routes := cfg.VIPs[0].Routes
	routes[0], routes[2] = routes[2], routes[0] // exact names first
	table := compileConfig(t, cfg)
	for hosts := range 6 {
		k := table.Kernel(Room{Hosts: hosts, Prefixes: 1000})
		for _, name := range []string{"x.a.net", "y.a.net", "z.a.net", "x.b.net", "c.net"} {
			h := &hello.Hello{ServerName: name}
			want, _ := table.MatchHello(0, h)
			got := k.LookupHello(0, h)
			if !got.Upcall && int(got.Pool) != want.Pool || got.Upcall && (hosts >= 4 || !strings.Contains(got.Why, "no room")) {
				t.Errorf("room for %d, name %s: %+v, want pool %d", hosts, name, got, want.Pool)
			}
		}
	}
}

func TestHostRoom(t *testing.T) {
	for hosts, want := range map[int]int{
		0: LeastHosts, 1000: LeastHosts, LeastHosts / 2: LeastHosts, LeastHosts/2 + 1: 2 * LeastHosts, 100000: 4 * LeastHosts,
		1 << 30: MaxHosts,
	} {
		if got := hostRoom(hosts); got != want {
			t.Errorf("room for %d hosts: %d, want %d", hosts, got, want)
		}
	}
}

// BenchmarkKernel compiles routes of different hosts: the time for each must not grow with their number.
func BenchmarkKernel(b *testing.B) {
	for _, various := range []bool{false, true} {
		for _, n := range []int{1000, 10000, 100000} {
			b.Run(fmt.Sprintf("various=%v/%d", various, n), func(b *testing.B) {
				cfg := hostRoutes(n, various)
				for b.Loop() {
					compileConfig(b, cfg).Kernel(RoomFor(cfg))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/host")
			})
		}
	}
}

// BenchmarkMatch looks for the route of one of many hosts, in user space and in the model of the kernel.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 100000} {
		cfg := hostRoutes(n, true)
		table := compileConfig(b, cfg)
		req := request(b, "GET", "/", fmt.Sprintf("h%d.test", n-1))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Match(0, req)
			}
		})
	}
}
