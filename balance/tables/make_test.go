package tables

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/links"
	"baton/openflow"
)

var update = flag.Bool("update", false, "write the golden files anew")

// uplink is a link of two IP versions, by its place.
func uplink(place byte, weight uint16, tier int) Link {
	return Link{Usable: true, Weight: weight, Tier: tier, Link: links.Link{
		Name: string(rune('a' + place)), Index: int(place) + 1, MAC: links.MAC{2, 0, 0, 0, place, 1}, MTU: 1500, Carrier: true,
		V4: links.Family{Address: netip.AddrFrom4([4]byte{10, place, 0, 2}), Gateway: netip.AddrFrom4([4]byte{10, place, 0, 1}),
			GatewayMAC: links.MAC{2, 0, 0, 0, place, 4}},
		V6: links.Family{Address: netip.MustParseAddr("2001:db8::2").Next(), Gateway: netip.MustParseAddr("fe80::1"),
			GatewayMAC: links.MAC{2, 0, 0, 0, place, 6}},
	}}
}

// small is two links alike, IPv4 alone and one rule.
func small(d config.Datapath, method config.Method) State {
	s := State{
		Datapath: d,
		Internal: Internal{MAC: links.MAC{2, 0, 0, 1, 0, 1}, MTU: 1500, IPv4: netip.MustParseAddr("192.0.0.2"),
			Gateways: []Gateway{{IPv4: netip.MustParseAddr("192.0.0.1")}}},
		Links: []Link{uplink(0, 1, 0), uplink(1, 2, 0)},
		Rules: []Rule{{Otherwise: config.Any, Method: method}},
	}
	for i := range s.Links {
		s.Links[i].V6 = links.Family{}
	}
	return s
}

// large has all that there is.
func large(d config.Datapath) State {
	s := small(d, config.RoundRobin)
	s.Internal.IPv6 = netip.MustParseAddr("64:ff9b:1::2")
	s.Internal.Gateways = []Gateway{
		{netip.MustParseAddr("192.0.0.1"), netip.MustParseAddr("64:ff9b:1::1")},
		{netip.MustParseAddr("192.0.0.3"), netip.MustParseAddr("64:ff9b:1::3")},
	}
	s.Links = []Link{uplink(0, 10, 0), uplink(1, 20, 0), uplink(2, 5, 1), uplink(3, 7, 0)}
	for i := range s.Links {
		s.Links[i].V6.Address = netip.MustParseAddr("2001:db8:" + string(rune('a'+i)) + "::2")
	}
	s.Links[1].V6 = links.Family{} // a link without IPv6
	s.Links[2].MTU = 1420
	s.Links[3].Usable = false
	s.Links[0].Resolvers = []netip.Addr{netip.MustParseAddr("198.51.100.53"), netip.MustParseAddr("198.51.100.54")}
	s.Links[1].Resolvers = []netip.Addr{netip.MustParseAddr("198.51.100.54")}
	s.Links[2].Resolvers = []netip.Addr{netip.MustParseAddr("2001:db8:c::53"), netip.MustParseAddr("fe80::53")}
	s.Rules = []Rule{
		{To: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:77::/48")}, Links: []int{1},
			Otherwise: config.Drop, Method: config.Fastest},
		{Services: []config.Service{{Protocol: 17, First: 5060, Last: 5061}, {Protocol: 6, First: 5061, Last: 5061}}, Links: []int{0},
			Otherwise: config.Any, Method: config.Controller, Affinity: time.Minute},
		{Class: 1, Links: []int{3}, Otherwise: config.Drop, Method: config.Least},
		{Services: []config.Service{{Protocol: 17, First: 1, Last: 65535}}, Links: []int{3}, Otherwise: config.Any, Method: config.Hash},
		{Otherwise: config.Any, Method: config.RoundRobin, Affinity: 1500 * time.Millisecond},
	}
	return s
}

func TestMake(t *testing.T) {
	tests := []struct {
		name  string
		state State
	}{
		{"small-baton", small(config.Baton, config.RoundRobin)},
		{"small-ovs", small(config.OpenVSwitch, config.Hash)},
		{"small-ovs-controller", small(config.OpenVSwitch, config.Controller)},
		{"large-baton", large(config.Baton)},
		{"large-ovs", large(config.OpenVSwitch)},
		{"nothing", State{Datapath: config.Baton}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Make(tt.state)
			file := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			for _, m := range messages(got) {
				if err := openflow.Check(m); err != nil {
					t.Errorf("%s: %v", Text(m), err)
				}
				if d, ok := m.(*openflow.FlowMod); ok && tt.state.Datapath == config.OpenVSwitch && strings.Contains(Text(d), "bind") {
					t.Errorf("Open vSwitch has no %s", Text(m))
				}
			}
		})
	}
}

// messages are those that make tables of nothing.
func messages(t Tables) []openflow.Message { return Change(Tables{}, t) }

func TestOptions(t *testing.T) {
	s := large(config.Baton)
	all := s.Set(Rule{Otherwise: config.Any})
	tests := []struct {
		name   string
		change func(*State)
		set    Set
		v6     bool
		want   []Option
	}{
		{"tiers", nil, all, false, []Option{{0, 10}, {1, 20}, {2, 0}}},
		{"a link without IPv6", nil, all, true, []Option{{0, 10}, {2, 0}}},
		{"the lowest tier has gone", func(s *State) { s.Links[0].Usable, s.Links[1].Usable = false, false }, all, false, []Option{{2, 5}}},
		{"others stand by", nil, Set{Links: 1 << 1}, false, []Option{{1, 20}, {0, 0}, {2, 0}}},
		{"no others", nil, Set{Links: 1 << 1, Only: true}, false, []Option{{1, 20}}},
		{"a set whose links have gone", nil, Set{Links: 1 << 3}, false, []Option{{0, 10}, {1, 20}, {2, 0}}},
		{"and no others", nil, Set{Links: 1 << 3, Only: true}, false, nil},
		{"weight 0 would be standby", func(s *State) { s.Links[0].Weight = 0 }, all, false, []Option{{0, 1}, {1, 20}, {2, 0}}},
		{"a gateway that is not resolved", func(s *State) { s.Links[0].V4.GatewayMAC = links.MAC{} }, all, false, []Option{{1, 20}, {2, 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := large(config.Baton)
			if tt.change != nil {
				tt.change(&s)
			}
			if got := s.Options(tt.set, tt.v6); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// String formats the tables, one line for each group and entry.
func (t Tables) String() string {
	var b strings.Builder
	for _, g := range t.Groups {
		fmt.Fprintln(&b, Text(g))
	}
	for _, e := range t.Entries {
		fmt.Fprintln(&b, Text(e))
	}
	return b.String()
}
