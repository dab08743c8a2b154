package choice

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/relay/trunkproto"
)

func TestDestinations(t *testing.T) {
	at := netip.MustParseAddrPort
	for _, tt := range []struct{ server, of, exactly string }{
		{"198.51.100.5:443", "198.51.100.0/24:443", "198.51.100.5:443"},
		{"[::ffff:198.51.100.5]:443", "198.51.100.0/24:443", "198.51.100.5:443"},
		{"[2001:db8:1:2::3]:80", "2001:db8:1::/48:80", "[2001:db8:1:2::3]:80"},
	} {
		if of, exactly := Of(at(tt.server)).String(), Exactly(at(tt.server)).String(); of != tt.of || exactly != tt.exactly {
			t.Errorf("%s: %s and %s, want %s and %s", tt.server, of, exactly, tt.of, tt.exactly)
		}
	}
}

func routesText(ways []trunkproto.Names) string {
	var out []string
	for _, w := range ways {
		out = append(out, Route(w).String())
	}
	return strings.Join(out, "; ")
}

func TestTable(t *testing.T) {
	w, fixed := far(t)
	w.c.Track(w.now, serverAt(2))
	w.set("self", serverAt(2).Addr().String(), 1)
	first, fresh := w.c.Table()
	if _, again := w.c.Table(); !fresh || again {
		t.Errorf("fresh %v, and then %v", fresh, again)
	}
	check := func(table *Table, name string, at netip.AddrPort, exactly bool, want string, wantKnown bool) {
		t.Helper()
		find := table.Find
		if exactly {
			find = table.Exact
		}
		if ways, known := find(at, w.now); routesText(ways) != want || known != wantKnown || ways == nil && want != "" {
			t.Errorf("%s: %q, known %v; want %q, %v", name, routesText(ways), known, want, wantKnown)
		}
	}
	check(first, "not measured yet", fixed, true, "", true)
	check(first, "never heard of", serverAt(9), false, "", false)
	w.run(20 * time.Second)
	table, _ := w.c.Table()
	check(table, "fixed", fixed, true, "via b; via c; directly", true)
	check(table, "fixed, asked for by a client", fixed, false, "directly", false) // of its neighbour
	check(table, "another port", netip.AddrPortFrom(fixed.Addr(), 80), true, "", false)
	check(table, "learnt", serverAt(2), false, "directly", true)
	check(table, "beside", netip.MustParseAddrPort("198.51.2.77:443"), false, "directly", true)
	check(table, "near", netip.MustParseAddrPort("198.51.200.1:443"), false, "directly", false)
	check(table, "far away", netip.MustParseAddrPort("203.0.113.1:443"), false, "", false)
	check(table, "another family", netip.MustParseAddrPort("[2001:db8::1]:443"), false, "", false)
	if got, want := routesText(table.Fallback()), "directly; via b; via c"; got != want {
		t.Errorf("fallback %q, want %q", got, want)
	}
	w.c.Reach(w.now, "b", false)
	w.set("self", "c", 1)
	table, _ = w.c.Table()
	if got, want := routesText(table.Fallback()), "directly; via c; via b"; got != want {
		t.Errorf("fallback %q, want %q", got, want)
	}
}

// TestNeighbour: by bisection as by looking at all.
func TestNeighbour(t *testing.T) {
	random := seeded(t)
	server := func() netip.AddrPort {
		a := netip.AddrFrom4([4]byte{10, byte(random.IntN(3)), byte(random.IntN(256)), 1})
		if random.IntN(2) == 0 {
			a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8 + byte(random.IntN(2)), byte(random.IntN(256)), byte(random.IntN(3)), 15: 1})
		}
		return netip.AddrPortFrom(a, uint16(80+random.IntN(2)))
	}
	found := 0
	for range 300 {
		table := &Table{known: make(map[Destination]*answer)}
		for range random.IntN(20) {
			d := Of(server())
			if !slices.ContainsFunc(table.near, func(n neighbour) bool { return n.of == d }) {
				table.near = append(table.near, neighbour{d, []trunkproto.Names{trunkproto.Names(d.String())}})
			}
		}
		slices.SortFunc(table.near, func(a, b neighbour) int { return a.of.compare(b.of) })
		for range 20 {
			s := server()
			least, most := alike6, 0
			if s.Addr().Is4() {
				least = alike4
			}
			for _, n := range table.near {
				if n.of.Prefix.Addr().Is4() == s.Addr().Is4() {
					most = max(most, common(n.of.Prefix.Addr(), Of(s).Prefix.Addr()))
				}
			}
			ways, _ := table.Find(s, start)
			if (ways != nil) != (most >= least) {
				t.Fatalf("%v: %q, the best has %d bits in common", s, routesText(ways), most)
			}
			if ways == nil {
				continue
			}
			found++
			i := slices.IndexFunc(table.near, func(n neighbour) bool { return &n.routes[0] == &ways[0] })
			if got := common(table.near[i].of.Prefix.Addr(), Of(s).Prefix.Addr()); got != most {
				t.Fatalf("%v: %v has %d bits in common, the best %d", s, table.near[i].of, got, most)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d had a neighbour", found)
	}
}

// TestFindIsCheap: a flow's way costs nothing that is left behind.
func TestFindIsCheap(t *testing.T) {
	w, fixed := far(t)
	w.c.Track(w.now, serverAt(2))
	w.run(20 * time.Second)
	table, _ := w.c.Table()
	now := w.now
	for name, f := range map[string]func(){
		"known":   func() { table.Find(serverAt2, now) },
		"unknown": func() { table.Find(unknown, now) },
		"fixed":   func() { table.Exact(fixed, now) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

var serverAt2, unknown = serverAt(2), serverAt(200)

func BenchmarkFind(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	c := New(random.Float64)
	c.Configure(start, Options{Self: "self", Learn: true, Allowed: func(netip.AddrPort) bool { return true }, Refresh: time.Minute})
	var servers []netip.AddrPort
	for i := range mostDestinations {
		s := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 80)
		servers = append(servers, s)
		c.Track(start, s)
	}
	table, _ := c.Table()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		table.Find(servers[i%len(servers)], start)
	}
}
