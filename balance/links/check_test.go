package links

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/balance/config"
	"baton/document"
)

func TestCheck(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	c := &config.Config{Internal: config.Internal{Interface: "bal0", IPv4: prefix("192.0.0.2/29"), IPv6: prefix("64:ff9b:1::2/64")}}
	family := func(p, gateway string) Family {
		f := Family{Address: prefix(p).Addr(), Prefix: prefix(p).Masked()}
		if gateway != "" {
			f.Gateway = addr(gateway)
		}
		return f
	}
	link := func(name string, v4, v6 Family) Link {
		return Link{Name: name, Interface: name, Index: 1, MAC: MAC{2}, Carrier: true, V4: v4, V6: v6}
	}
	eth0 := link("eth0", family("10.0.0.5/24", "10.0.0.1"), family("2001:db8::5/64", "fe80::1"))
	wlan0 := link("wlan0", family("10.1.0.5/24", "10.1.0.1"), family("2001:db8:1::5/64", "fe80::1"))
	tests := []struct {
		name string
		host Host
		want []Finding
	}{
		{"all is well", Host{Links: []Link{eth0, wlan0}, Interfaces: []string{"eth0", "wlan0"},
			Networks: []Network{{"eth0", prefix("10.0.0.5/24")}, {"eth0", prefix("2001:db8::5/64")}}}, nil},
		{"unknown interface", Host{Links: []Link{eth0, {Interface: "wlan1"}}, Interfaces: []string{"eth0", "wlan0"}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[1]", "interface wlan1 does not exist (used once it appears; did you mean wlan0?)"}}},
		{"unknown interface, like none", Host{Links: []Link{eth0, {Interface: "usb7"}}, Interfaces: []string{"eth0", "wlan0"}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[1]", "interface usb7 does not exist (used once it appears; there are eth0, wlan0)"}}},
		{"no interface at all", Host{Links: []Link{{Interface: "a"}}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[0]", "interface a does not exist (used once it appears)"}, {Wrong, document.Place{Line: 1, Column: 1}, "links", "none of the interfaces exists"}}},
		{"no carrier", Host{Links: []Link{eth0, {Interface: "wlan0", Index: 2, MAC: MAC{2}}}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[1]", "wlan0 has no carrier: used once it has one"}}},
		{"no address", Host{Links: []Link{eth0, link("wlan0", Family{}, Family{})}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[1]", "wlan0 has no address: used once it has one"}}},
		{"no gateway, no IPv6", Host{Links: []Link{link("eth0", family("10.0.0.5/24", ""), Family{})}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[0]", "eth0 has no default route for IPv4 and no configured gateway: its flows use the other links"},
			{Info, document.Place{Line: 1, Column: 1}, "links[0]", "eth0 has no IPv6: its flows use the other links"}}},
		{"its own gateway", Host{Links: []Link{link("eth0", family("10.0.0.5/24", "10.0.0.5"), eth0.V6)}}, []Finding{
			{Wrong, document.Place{Line: 1, Column: 1}, "links[0]", "10.0.0.5 is the gateway of eth0 and its own address"}}},
		{"no link layer", Host{Links: []Link{{Interface: "ppp0", Index: 3, Carrier: true}}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[0]", "ppp0 has no link layer (ppp, tunnels, raw IP modems) and is not used: a balance needs gateways with MACs"}}},
		{"address conflict", Host{Links: []Link{eth0, link("wlan0", eth0.V4, wlan0.V6)}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[1]", "address conflict: wlan0 and eth0, which is links[0], both have 10.0.0.5. New flows are balanced; " +
				"a socket that is bound to the address leaves by eth0"}}},
		{"overlapping subnets", Host{Links: []Link{eth0, link("wlan0", family("10.0.0.6/16", "10.0.0.1"), wlan0.V6)}}, []Finding{
			{Warning, document.Place{Line: 1, Column: 1}, "links[1]", "10.0.0.0/16 of wlan0 and 10.0.0.0/24 of eth0, which is links[0], overlap. Flows by the gateways are balanced; hosts of " +
				"these networks are reached by one of the interfaces, as the main routing table says"}}},
		{"internal interface's name is taken", Host{Links: []Link{eth0}, Interfaces: []string{"eth0", "bal0p"}}, []Finding{
			{Wrong, document.Place{Line: 1, Column: 1}, "internal.interface", "bal0 or bal0p exists and is not ours: give the internal interface another name"}}},
		{"internal networks are taken", Host{Links: []Link{eth0},
			Networks: []Network{{"clat", prefix("192.0.0.4/32")}, {"nat64", prefix("64:ff9b:1::/48")}}}, []Finding{
			{Wrong, document.Place{Line: 1, Column: 1}, "internal.ipv4", "192.0.0.0/29 is used by clat, which has 192.0.0.4/32: give the internal interface another network"},
			{Wrong, document.Place{Line: 1, Column: 1}, "internal.ipv6", "64:ff9b:1::/64 is used by nat64, which has 64:ff9b:1::/48: give the internal interface another network"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Check(c, tt.host), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}
