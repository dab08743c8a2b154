package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/balance/links"
	"baton/sockdiag"
)

const sec = time.Second

// TestWatch: what is ended, and when, as links come and go.
func TestWatch(t *testing.T) {
	both := changed(good, func(l *links.Link) { l.V6 = mac6 })
	other := changed(good, func(l *links.Link) { l.V4.Address = netip.MustParseAddr("198.51.100.9") })
	down := changed(both, func(l *links.Link) { l.Carrier = false })
	without4 := changed(both, func(l *links.Link) { l.V4 = links.Family{} })
	without := changed(good, func(l *links.Link) { l.V4 = links.Family{} })
	unresolved := changed(good, func(l *links.Link) { l.V4.GatewayMAC = links.MAC{} })
	elsewhere := changed(good, func(l *links.Link) { l.V4.Address = netip.MustParseAddr("192.0.2.99") })
	elsewhereUnresolved := changed(elsewhere, func(l *links.Link) { l.V4.GatewayMAC = links.MAC{} })
	type step struct {
		at      time.Duration
		link    links.Link
		verdict Verdict
		other   bool // the other link can be used
		want    string
		again   time.Duration
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"carrier lost, once", []step{
			{0, both, Alive, true, "", 0}, {sec, down, Alive, true, "[{2 true false}]", 0},
			{2 * sec, down, Alive, true, "[]", 0},
		}},
		{"dead", []step{{0, good, Alive, true, "", 0}, {sec, good, Dead, true, "[{2 true false}]", 0}}},
		{"portal", []step{{0, good, Alive, true, "", 0}, {sec, good, Portal, true, "[{2 true false}]", 0}}},
		{"never there", []step{{0, down, Alive, true, "", 0}, {sec, down, Alive, true, "", 0}}},
		{"renewed with the same address", []step{
			{0, good, Alive, true, "", 0}, {sec, without, Alive, true, "", 4 * sec},
			{2 * sec, good, Alive, true, "", 0}, {9 * sec, good, Alive, true, "", 0},
		}},
		{"renewed too late", []step{
			{0, good, Alive, true, "", 0}, {sec, without, Alive, true, "", 4 * sec},
			{4 * sec, without, Alive, true, "[{2 true false}]", 0}, {5 * sec, good, Alive, true, "", 0},
		}},
		{"another address", []step{
			{0, good, Alive, true, "", 0}, {sec, elsewhere, Alive, true, "[{2 true false}]", 0},
			{2 * sec, elsewhere, Alive, true, "", 0},
		}},
		{"another address after a while", []step{
			{0, good, Alive, true, "", 0}, {sec, without, Alive, true, "", 4 * sec}, {2 * sec, elsewhereUnresolved, Alive, true, "[{2 true false}]", 0},
			{3 * sec, elsewhere, Alive, true, "", 0},
		}},
		{"the gateway for a moment", []step{
			{0, good, Alive, true, "", 0}, {sec, unresolved, Alive, true, "", 4 * sec},
			{2 * sec, good, Alive, true, "", 0},
		}},
		{"address, then carrier", []step{
			{0, good, Alive, true, "", 0}, {sec, without, Alive, true, "", 4 * sec},
			{2 * sec, down, Alive, true, "[{2 true false}]", 0},
		}},
		{"IPv4 alone is lost: the other link has it", []step{
			{0, both, Alive, true, "", 0}, {sec, without4, Alive, true, "", 4 * sec},
			{4 * sec, without4, Alive, true, "[{2 true false}]", 0},
		}},
		{"no other link, and back", []step{{0, good, Alive, false, "", 0}, {sec, down, Alive, false, "", 0}, {time.Hour, good, Alive, true, "", 0}}},
		{"no other link, until there is one", []step{
			{0, good, Alive, false, "", 0}, {sec, down, Alive, false, "", 0},
			{time.Hour, down, Alive, true, "[{2 true false}]", 0},
		}},
		{"no other link, and back with another address", []step{
			{0, good, Alive, false, "", 0}, {sec, down, Alive, false, "", 0},
			{2 * sec, elsewhere, Alive, false, "[{2 true false}]", 0},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := Watch{Grace: Grace}
			for _, s := range tt.steps {
				second := other
				second.Carrier = s.other
				ends, again := w.Step(s.at, Decide([]Input{{Link: s.link, Verdict: s.verdict}, {Link: second}}))
				if got := fmt.Sprint(ends); got != s.want && !(s.want == "" && len(ends) == 0) || again != s.again {
					t.Errorf("at %v: %v, again at %v; want %v, %v", s.at, got, again, s.want, s.again)
				}
			}
		})
	}
}

// TestWatchLast: two links go one after the other: the connections of the second wait, as there is no other.
func TestWatchLast(t *testing.T) {
	w := Watch{Grace: Grace}
	down := changed(good, func(l *links.Link) { l.Carrier = false })
	at := func(s time.Duration, a, b links.Link) []End {
		ends, _ := w.Step(s, Decide([]Input{{Link: a}, {Link: b}}))
		return ends
	}
	at(0, good, good)
	if got := at(1, down, good); !slices.Equal(got, []End{{Port: 2, V4: true}}) {
		t.Errorf("the first: %v", got)
	}
	if got := at(2, down, down); len(got) > 0 {
		t.Errorf("the second: %v", got)
	}
	if got := at(3, good, down); !slices.Equal(got, []End{{Port: 3, V4: true}}) {
		t.Errorf("the first is back: %v", got)
	}
}

func TestSelect(t *testing.T) {
	at := netip.MustParseAddrPort
	flows := []Flow{
		{Protocol: 6, Internal: at("192.0.0.2:1"), Remote: at("192.0.2.1:443"), Port: 2},
		{Protocol: 6, Internal: at("192.0.0.2:2"), Remote: at("192.0.2.1:443"), Port: 3},
		{Protocol: 17, Internal: at("192.0.0.2:3"), Remote: at("192.0.2.1:443"), Port: 2},
		{Protocol: 6, Internal: at("192.0.0.2:4"), Remote: at("192.0.2.1:443"), Port: 2, Closing: true},
		{Protocol: 6, Internal: at("[64:ff9b:1::2]:5"), Remote: at("[2001:db8::1]:443"), Port: 2},
		{Protocol: 6, Internal: at("[64:ff9b:1::2]:6"), Remote: at("[2001:db8::1]:443"), Port: 4},
	}
	ports := func(ends ...End) (got []uint16) {
		for _, s := range Select(ends, slices.Values(flows)) {
			if s.Cookie != sockdiag.AnyCookie || s.Remote.Port() != 443 {
				t.Errorf("%+v", s)
			}
			got = append(got, s.Local.Port())
		}
		return got
	}
	if got := ports(End{Port: 2, V4: true}); !slices.Equal(got, []uint16{1}) {
		t.Errorf("IPv4: %v", got)
	}
	if got := ports(End{Port: 2, V4: true, V6: true}, End{Port: 4, V6: true}); !slices.Equal(got, []uint16{1, 5, 6}) {
		t.Errorf("both: %v", got)
	}
	if got := ports(); got != nil {
		t.Errorf("none: %v", got)
	}
}
