package links

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/balance/config"
)

var sameAddr = []cmp.Option{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func TestDerive(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	own, gw := MAC{2, 0, 0, 0, 0, 1}, MAC{2, 0, 0, 0, 0, 2}
	eth := Interface{Index: 5, Name: "eth0", MAC: own, MTU: 1500, Live: true}
	has := func(prefixes ...string) (out []Address) {
		for _, p := range prefixes {
			out = append(out, Address{Index: 5, Prefix: prefix(p), Global: true})
		}
		return out
	}
	but := func(a Address, change func(*Address)) Address { change(&a); return a }
	via := func(gateway string, metric, table, protocol int) Route {
		return Route{Index: 5, Gateway: addr(gateway), Metric: metric, Table: table, Protocol: protocol}
	}
	knows := func(a string, state Reach) []Neighbour { return []Neighbour{{5, addr(a), gw, state}} }
	link := config.Link{Name: "a", Interface: "eth0"}

	tests := []struct {
		name   string
		kernel Kernel
		config config.Link
		last   Link
		v4, v6 Family
		why    string
	}{
		{name: "no interface", config: link, why: "no interface"},
		{name: "no carrier", config: link, kernel: Kernel{Interfaces: []Interface{{Index: 5, Name: "eth0"}}}, why: "no carrier"},
		{name: "no address", config: link, kernel: Kernel{Interfaces: []Interface{eth}}, why: "no address"},
		{name: "usual", config: link,
			kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"), []Route{via("10.0.0.1", 100, 254, 16)}, knows("10.0.0.1", Known)},
			v4:     Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), gw}},
		{name: "no gateway, as of ppp", config: link, kernel: Kernel{Interfaces: []Interface{eth}, Addresses: has("10.0.0.5/32"),
			Routes: []Route{{Index: 5, Table: 254}}}, v4: Family{Address: addr("10.0.0.5"), Prefix: prefix("10.0.0.5/32")}, why: "no gateway"},
		{name: "of other interfaces", config: link, kernel: Kernel{[]Interface{eth}, []Address{{Index: 6, Prefix: prefix("10.0.0.5/24"), Global: true}},
			[]Route{{Index: 6, Gateway: addr("10.0.0.1")}}, nil}, why: "no address"},
		{name: "lowest metric", config: link, kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"),
			[]Route{via("10.0.0.3", 200, 254, 4), via("10.0.0.1", 100, 254, 16), via("10.0.0.2", 1, 1000, 4)}, knows("10.0.0.1", Known)},
			v4: Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), gw}},
		{name: "another table", config: link, kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"),
			[]Route{via("10.0.0.9", 0, 30001, Protocol), via("10.0.0.2", 5, 1000, 4)}, knows("10.0.0.2", Fixed)},
			v4: Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.2"), gw}},
		{name: "configured", config: config.Link{Interface: "eth0", Gateways: []netip.Addr{addr("fe80::9"), addr("10.0.0.9")}},
			kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"), []Route{via("10.0.0.1", 0, 254, 4)}, knows("10.0.0.9", Known)},
			v4:     Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.9"), gw}, v6: Family{Gateway: addr("fe80::9")}},
		{name: "the route's source", config: link, kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24", "10.0.0.6/24"),
			[]Route{{Index: 5, Gateway: addr("10.0.0.1"), Source: addr("10.0.0.6")}}, knows("10.0.0.1", Known)},
			v4: Family{addr("10.0.0.6"), prefix("10.0.0.0/24"), addr("10.0.0.1"), gw}},
		{name: "in the gateway's network", config: link, kernel: Kernel{[]Interface{eth}, has("192.0.2.5/24", "10.0.0.5/24"),
			[]Route{via("10.0.0.1", 0, 254, 4)}, knows("10.0.0.1", Known)},
			v4: Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), gw}},
		{name: "the primary", config: link, kernel: Kernel{[]Interface{eth}, []Address{
			but(has("10.0.0.6/24")[0], func(a *Address) { a.Temporary = true }), has("10.0.0.5/24")[0],
		}, []Route{via("10.0.0.1", 0, 254, 4)}, knows("10.0.0.1", Known)},
			v4: Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), gw}},
		{name: "IPv6 as advertised", config: link, kernel: Kernel{[]Interface{eth}, []Address{
			but(has("fe80::5/64")[0], func(a *Address) { a.Global = false }),
			but(has("2001:db8::a/64")[0], func(a *Address) { a.Tentative = true }),
			but(has("2001:db8::b/64")[0], func(a *Address) { a.Deprecated = true }),
			has("fd00::5/64")[0],
			but(has("2001:db8::c/64")[0], func(a *Address) { a.Temporary = true }),
			has("2001:db8::5/64")[0],
		}, []Route{via("fe80::1", 1024, 254, 9)}, knows("fe80::1", Known)},
			v6: Family{addr("2001:db8::5"), prefix("2001:db8::/64"), addr("fe80::1"), gw}},
		{name: "deprecated, but all that there is", config: link, kernel: Kernel{[]Interface{eth}, []Address{
			but(has("2001:db8::b/64")[0], func(a *Address) { a.Deprecated = true }),
		}, []Route{via("fe80::1", 1024, 254, 9)}, knows("fe80::1", Known)},
			v6: Family{addr("2001:db8::b"), prefix("2001:db8::/64"), addr("fe80::1"), gw}},
		{name: "a conflict", config: link, kernel: Kernel{[]Interface{eth}, []Address{
			but(has("2001:db8::b/64")[0], func(a *Address) { a.Tentative = true }),
		}, []Route{via("fe80::1", 1024, 254, 9)}, knows("fe80::1", Known)}, v6: Family{Gateway: addr("fe80::1"), GatewayMAC: gw}, why: "no address"},
		{name: "IPv4 without DHCP", config: link, kernel: Kernel{Interfaces: []Interface{eth}, Addresses: has("169.254.3.4/16")}, why: "no address"},
		{name: "failed", config: link, last: Link{Index: 5, Carrier: true, V4: Family{Gateway: addr("10.0.0.1"), GatewayMAC: gw}},
			kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"), []Route{via("10.0.0.1", 0, 254, 4)}, knows("10.0.0.1", Failed)},
			v4:     Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), MAC{}}, why: "no gateway"},
		{name: "asked again", config: link, last: Link{Index: 5, Carrier: true, V4: Family{Gateway: addr("10.0.0.1"), GatewayMAC: gw}},
			kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"), []Route{via("10.0.0.1", 0, 254, 4)}, nil},
			v4:     Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), gw}},
		{name: "asked again for another one", config: link, last: Link{Index: 5, Carrier: true, V4: Family{Gateway: addr("10.0.0.2"), GatewayMAC: gw}},
			kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"), []Route{via("10.0.0.1", 0, 254, 4)}, nil},
			v4:     Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), MAC{}}, why: "no gateway"},
		{name: "plugged in elsewhere", config: link, last: Link{Index: 5, V4: Family{Gateway: addr("10.0.0.1"), GatewayMAC: gw}},
			kernel: Kernel{[]Interface{eth}, has("10.0.0.5/24"), []Route{via("10.0.0.1", 0, 254, 4)}, nil},
			v4:     Family{addr("10.0.0.5"), prefix("10.0.0.0/24"), addr("10.0.0.1"), MAC{}}, why: "no gateway"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Derive(tt.config, tt.kernel, nil, tt.last)
			if diff := cmp.Diff([2]Family{tt.v4, tt.v6}, [2]Family{got.V4, got.V6}, sameAddr...); diff != "" {
				t.Errorf("families (-want +got):\n%s", diff)
			}
			if got.Why() != tt.why || (tt.why == "") != got.Usable() {
				t.Errorf("%q, usable %v, want %q", got.Why(), got.Usable(), tt.why)
			}
		})
	}
}

func TestResolversOfLink(t *testing.T) {
	k := Kernel{Interfaces: []Interface{{Index: 5, Name: "eth0"}}}
	own, reported := []netip.Addr{netip.MustParseAddr("192.0.2.1")}, []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	for _, tt := range []struct{ config, want []netip.Addr }{{own, own}, {nil, reported}} {
		got := Derive(config.Link{Interface: "eth0", Resolvers: tt.config}, k, reported, Link{}).Resolvers
		if diff := cmp.Diff(tt.want, got, sameAddr...); diff != "" {
			t.Errorf("resolvers (-want +got):\n%s", diff)
		}
	}
}

func TestAsking(t *testing.T) {
	for _, tt := range []struct {
		state Reach
		now   bool
		want  ask
	}{{Unresolved, false, use}, {Unresolved, true, use}, {Known, false, use}, {Known, true, probe}, {Failed, true, use}, {Fixed, false, leave}, {Fixed, true, leave}} {
		if got := asking(tt.state, tt.now); got != tt.want {
			t.Errorf("asking(%v, %v) = %v, want %v", tt.state, tt.now, got, tt.want)
		}
	}
}
