package topology

import (
	"net/netip"
	"testing"
)

// TestHostsScript has the cases of learning and moving hosts in the order in which they build on each other.
func TestHostsScript(t *testing.T) {
	g := line(t, 3)
	none := netip.Addr{}
	steps := []struct {
		name   string
		ms     int
		mac    byte
		ip     netip.Addr
		at     Point
		want   Verdict
		probes bool
	}{
		{"new host", 0, 1, ip(1), point(1, 3), Learnt, false},
		{"again", 1, 1, ip(1), point(1, 3), Known, false},
		{"another address", 2, 1, ip(2), point(1, 3), Learnt, false},
		{"behind a link", 3, 2, ip(9), point(2, 1), Refused, false},
		{"another host, no address", 4, 2, none, point(2, 3), Learnt, false},
		{"its address", 5, 2, ip(3), point(2, 3), Learnt, false},
		{"the first host's place claimed", 10, 1, ip(1), point(3, 3), Probing, true},
		{"once more: no second probe", 11, 1, ip(1), point(3, 3), Probing, false},
		{"it answers at its place", 12, 1, ip(1), point(1, 3), Known, false},
		{"claimed again", 20, 1, ip(1), point(3, 3), Probing, true},
		{"its address claimed by the second", 30, 2, ip(2), point(2, 3), Probing, true},
	}
	for _, s := range steps {
		_, v, p := g.SeeHost(at(s.ms), mac(s.mac), s.ip, s.at)
		if v != s.want || (p.MAC != mac(0) && p.Address.IsValid()) != s.probes {
			t.Fatalf("%s: %v, %+v; want %v, probe %v", s.name, v, p, s.want, s.probes)
		}
	}
	if g.counts.MovesRefused != 1 {
		t.Errorf("%d moves were refused", g.counts.MovesRefused)
	}
	// Nobody answers: after 500 ms both claims are true.
	if c := g.Tick(at(400)); c.Any() {
		t.Errorf("too early: %v", c)
	}
	g.Tick(at(600))
	if h, _ := g.Locate(ip(1)); h.At != point(3, 3) || h.MAC != mac(1) {
		t.Errorf("the host has not moved: %+v", h)
	}
	if h, _ := g.Locate(ip(2)); h.MAC != mac(2) {
		t.Errorf("the address has not moved: %+v", h)
	}
	if g.counts.Moves != 1 || g.counts.Claims != 1 {
		t.Errorf("%+v", g.counts)
	}
	// The old port is down: no question.
	g.PortChanged(at(700), 3, Port{Number: 3})
	if _, v, _ := g.SeeHost(at(701), mac(1), ip(1), point(1, 4)); v != Learnt {
		t.Errorf("a move from a port that is down: %v", v)
	}
	if c := g.Tick(at(700_000)); len(c.Gone) != 2 {
		t.Errorf("hosts that say nothing: %v", c)
	}
	if len(g.owners)+len(g.hosts)+len(g.probes) != 0 {
		t.Error("something is remembered")
	}
	for id, n := range g.nodes {
		for no, p := range n.ports {
			if p.hosts != 0 {
				t.Errorf("%d hosts at %d:%d", p.hosts, id, no)
			}
		}
	}
}

// TestPresumed: of a host that an earlier controller knew, the place may be known before the addresses.
func TestPresumed(t *testing.T) {
	g := line(t, 2)
	g.SeeHost(at(0), mac(3), ip(3), point(1, 4))
	if c := g.Presume(at(1), mac(1), point(1, 3)); len(c.Hosts) != 1 || len(c.Hosts[0].Addresses) != 0 {
		t.Errorf("its place: %+v", c)
	}
	if c := g.Presume(at(2), mac(1), point(2, 3), ip(1)); len(c.Hosts) != 0 {
		t.Errorf("another place: %+v", c)
	}
	if c := g.Presume(at(3), mac(1), point(1, 3), ip(1), ip(3)); len(c.Hosts) != 1 || len(c.Hosts[0].Addresses) != 1 {
		t.Errorf("its address, and one that another host has: %+v", c)
	}
	if h, ok := g.Locate(ip(1)); !ok || h.MAC != mac(1) || !h.Presumed {
		t.Errorf("%+v", h)
	}
	g.SeeHost(at(4), mac(1), ip(2), point(1, 3))
	if c := g.Presume(at(5), mac(1), point(1, 3), ip(4)); len(c.Hosts) != 0 {
		t.Errorf("a host that was seen: %+v", c)
	}
}

// TestClaimAnswered: the owner of an address answers, so that the claim is refused.
func TestClaimAnswered(t *testing.T) {
	g := line(t, 2)
	g.SeeHost(at(0), mac(1), ip(1), point(1, 3))
	if _, v, p := g.SeeHost(at(1), mac(2), ip(1), point(2, 3)); v != Probing || p.MAC != mac(1) || p.At != point(1, 3) || p.Address != ip(1) {
		t.Fatalf("%v, %+v", v, p)
	}
	g.SeeHost(at(2), mac(1), ip(1), point(1, 3))
	g.Tick(at(1000))
	if h, _ := g.Locate(ip(1)); h.MAC != mac(1) || g.counts.ClaimsRefused != 1 || g.counts.Claims != 0 {
		t.Errorf("%+v, %+v", h, g.counts)
	}
}

func TestHostsRefused(t *testing.T) {
	g := New(Rules{Hosts: 3, PortHosts: 2})
	add(g, at(0), 1, 3)
	tests := []struct {
		name  string
		ms    int
		mac   byte
		at    Point
		want  Verdict
		count *uint64
	}{
		{"a port that has come up just then", 100, 1, point(1, 1), Refused, &g.counts.HostTooEarly},
		{"no such port", 1000, 1, point(1, 9), Refused, &g.counts.HostUnknown},
		{"first", 1000, 1, point(1, 1), Learnt, nil},
		{"second", 1000, 2, point(1, 1), Learnt, nil},
		{"third at a port for two", 1000, 3, point(1, 1), Refused, &g.counts.HostFull},
		{"third elsewhere", 1000, 3, point(1, 2), Learnt, nil},
		{"fourth of three", 1000, 4, point(1, 3), Refused, &g.counts.HostFull},
	}
	for _, tt := range tests {
		before := uint64(0)
		if tt.count != nil {
			before = *tt.count
		}
		if _, v, _ := g.SeeHost(at(tt.ms), mac(tt.mac), ip(tt.mac), tt.at); v != tt.want || tt.count != nil && *tt.count != before+1 {
			t.Errorf("%s: %v", tt.name, v)
		}
	}
	group := mac(1)
	group[0] |= 1
	if _, v, _ := g.SeeHost(at(1000), group, ip(1), point(1, 1)); v != Refused {
		t.Errorf("a group address: %v", v)
	}
}
