package steer

import (
	"net/netip"
	"testing"

	"baton/anycast/assign"
	"baton/anycast/config"
	"baton/openflow"
)

// twoSites are behind ports 2 and 3 of forwarder 1, and 7 and 8 of forwarder 2.
func twoSites() *place {
	return &place{
		&config.Map{
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/64")}, Priority: 100, Table: 1,
			Ingresses: []config.Ingress{{Name: "west", Forwarder: 1, Port: 1}, {Name: "east", Forwarder: 2, Port: 1}, {Name: "north", Forwarder: 1, Port: 4}},
		},
		[]config.Served{
			{Name: "a", Ports: []config.Exit{{Forwarder: 1, Port: 2, MAC: [6]byte{2, 0, 0, 0, 0, 1}}, {Forwarder: 2, Port: 7}}},
			{Name: "b", Ports: []config.Exit{{Forwarder: 1, Port: 3}, {Forwarder: 2, Port: 8}}},
		},
	}
}

// stats are what a switch says of rules, each with some bytes.
func stats(t *testing.T, bytes uint64, messages ...[]openflow.Message) (out []openflow.FlowStats) {
	t.Helper()
	for _, m := range messages {
		for _, message := range m {
			// As a switch has it: encoded and decoded.
			raw, err := openflow.Append(nil, 1, message)
			if err != nil {
				t.Fatal(err)
			}
			_, decoded, err := openflow.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			f := decoded.(*openflow.FlowMod)
			out = append(out, openflow.FlowStats{Table: f.Table, Priority: f.Priority, Cookie: f.Cookie, Octets: bytes, Match: f.Match, Instructions: f.Instructions})
		}
	}
	return out
}

func TestReadBack(t *testing.T) {
	p := twoSites()
	west := p.rules(openflow.FlowAdd, 0, 1)
	north := p.rules(openflow.FlowAdd, 2, 0)
	all, stray := p.read(1, stats(t, 50, west, north))
	if len(stray) != 0 || len(all) != 2 || all[0] != (found{1, 100, 2}) || all[2] != (found{0, 100, 2}) {
		t.Errorf("read: %v, %d stray rules", all, len(stray))
	}
	// The same rules at the other forwarder are of no use: there is no ingress at port 4, and port 1 leads elsewhere.
	all, stray = p.read(2, stats(t, 1, north))
	if len(stray) != 2 || all[1].site != assign.Nowhere {
		t.Errorf("read at the other forwarder: %v, %d stray rules", all, len(stray))
	}
}

func TestReadHalf(t *testing.T) {
	p := twoSites()
	tests := []struct {
		name  string
		stats []openflow.FlowStats
		stray int
	}{
		{"nothing", nil, 0},
		{"one address of two", stats(t, 1, p.rules(openflow.FlowAdd, 0, 1)[:1]), 0},
		{"addresses that lead to two sites", stats(t, 1, p.rules(openflow.FlowAdd, 0, 1)[:1], p.rules(openflow.FlowAdd, 0, 0)[1:]), 0},
	}
	other := stats(t, 1, p.rules(openflow.FlowAdd, 0, 1))
	for i := range other {
		other[i].Priority++
	}
	tests = append(tests, struct {
		name  string
		stats []openflow.FlowStats
		stray int
	}{"another priority", other, 2})
	foreign := stats(t, 1, p.rules(openflow.FlowAdd, 0, 1))
	for i := range foreign {
		foreign[i].Cookie = 7
	}
	tests = append(tests, struct {
		name  string
		stats []openflow.FlowStats
		stray int
	}{"somebody else's", foreign, 0})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, stray := p.read(1, tt.stats)
			if all[0].site != assign.Nowhere || len(stray) != tt.stray {
				t.Errorf("west is at site %d, %d stray rules; want none, and %d", all[0].site, len(stray), tt.stray)
			}
			for _, m := range stray {
				if f := m.(*openflow.FlowMod); f.Command != openflow.FlowDeleteStrict || f.Cookie != cookie || f.CookieMask != ^uint64(0) {
					t.Errorf("a stray rule is taken away by %+v", f)
				}
			}
		})
	}
}
