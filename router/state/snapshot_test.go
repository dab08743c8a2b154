package state

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/router/choose"
	"baton/router/config"
	"baton/router/head"
	"baton/router/health"
)

const threePools = `vips: [{address: "10.9.9.1:80", interfaces: [eth0], routes: [{match: {host: r}, pool: r}, {match: {host: h}, pool: h}, {match: {host: l}, pool: l}, {pool: n}]}]
pools:
  r: {policy: weighted, surrogates: [{name: r1, address: "10.0.0.1:80", weight: 2}, {name: r2, address: "10.0.0.2:80"}, {name: r3, address: "10.0.0.3:80", weight: 0}]}
  h: {policy: hash, surrogates: [{name: h1, address: "10.0.1.1:80"}, {name: h2, address: "10.0.1.2:80"}]}
  l: {policy: least-sessions, surrogates: [{name: l1, address: "10.0.2.1:80"}, {name: l2, address: "10.0.2.2:80"}]}
  n: {policy: nearest, nearest: [{prefix: 192.0.2.0/24, surrogates: [n2]}], surrogates: [{name: n1, address: "10.0.3.1:80"}, {name: n2, address: "10.0.3.2:80"}]}
`

// healthOf is a snapshot's source: surrogates in down are down, those in draining drain.
func healthOf(down, draining string) func(string) health.State {
	return func(name string) health.State {
		return health.State{Up: !strings.Contains(down, name), Draining: strings.Contains(draining, name)}
	}
}

// picks are the surrogates that a pool chooses one after the other.
func picks(s *Snapshot, pool, n int, q *Question, exclude []string, sessions func(uint16) uint64) (out []string) {
	for range n {
		c, ok := s.Pools[pool].Pick(q, exclude, sessions)
		if !ok {
			out = append(out, "none")
			continue
		}
		out = append(out, s.Pools[pool].Config.Surrogates[c.At].Name)
	}
	return out
}

// TestPick: each policy chooses among the surrogates that are up, do not drain, and have not been tried.
func TestPick(t *testing.T) {
	near := &Question{Client: netip.MustParseAddr("192.0.2.7")}
	far := &Question{Client: netip.MustParseAddr("198.51.100.7")}
	for _, tt := range []struct {
		name           string
		pool           int
		down, draining string
		exclude        []string
		q              *Question
		want           string // sorted
	}{
		{"round robin by weight", 0, "", "", nil, far, "r1 r1 r1 r1 r2 r2"},
		{"one is down", 0, "r1", "", nil, far, "r2 r2 r2 r2 r2 r2"},
		{"one drains", 0, "", "r2", nil, far, "r1 r1 r1 r1 r1 r1"},
		{"one was tried", 0, "", "", []string{"r1"}, far, "r2 r2 r2 r2 r2 r2"},
		{"weight 0 gets none", 0, "r1", "", []string{"r2"}, far, "none none none none none none"},
		{"none is left", 0, "r1 r3", "", []string{"r2"}, far, "none none none none none none"},
		{"hash", 1, "", "", nil, &Question{Hash: 7}, ""},
		{"hash, one was tried", 1, "", "", []string{"h1"}, &Question{Hash: 7}, "h2 h2 h2 h2 h2 h2"},
		{"least sessions", 2, "", "", nil, far, "l2 l2 l2 l2 l2 l2"},
		{"least sessions, that one was tried", 2, "", "", []string{"l2"}, far, "l1 l1 l1 l1 l1 l1"},
		{"nearest", 3, "", "", nil, near, "n2 n2 n2 n2 n2 n2"},
		{"nearest is down", 3, "n2", "", nil, near, "n1 n1 n1 n1 n1 n1"},
		{"nearest was tried", 3, "", "", []string{"n2"}, near, "n1 n1 n1 n1 n1 n1"},
		{"of no zone", 3, "", "", nil, far, "n1 n1 n1 n2 n2 n2"},
	} {
		c := snapshotOf(t, threePools).Compiled
		s := c.Snapshot(healthOf(tt.down, tt.draining), nil)
		got := picks(s, tt.pool, 6, tt.q, tt.exclude, func(id uint16) uint64 {
			if id == c.IDs["l1"] {
				return 5
			}
			return 1
		})
		slices.Sort(got)
		if tt.want == "" { // any, but always the same
			tt.want = strings.Join(slices.Repeat(got[:1], 6), " ")
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

// TestTurnsGoOn: a change of health does not begin the turns again; another configuration does.
func TestTurnsGoOn(t *testing.T) {
	c := snapshotOf(t, strings.Replace(threePools, "weight: 2", "weight: 1", 1)).Compiled
	var got []string
	for range 4 {
		s := c.Snapshot(healthOf("", ""), nil)
		got = append(got, picks(s, 0, 1, &Question{}, nil, nil)...)
	}
	if got[0] == got[1] || got[0] != got[2] || got[1] != got[3] {
		t.Errorf("%v are not in turn", got)
	}
}

// TestFindUsable: a surrogate by name, if clients may go there.
func TestFindUsable(t *testing.T) {
	s := snapshotOf(t, threePools).Snapshot(healthOf("r1", "r2"), nil)
	for name, want := range map[string]bool{"r1": false, "r2": false, "h1": false, "": false} {
		if _, ok := s.Pools[0].FindUsable(name); ok != want {
			t.Errorf("%q is usable: %v", name, ok)
		}
	}
	if at, ok := s.Pools[1].FindUsable("h2"); !ok || at != 1 {
		t.Errorf("h2 is at %d, usable: %v", at, ok)
	}
}

// TestSameConfiguration: snapshots of one configuration differ from those of another, even of the same file.
func TestSameConfiguration(t *testing.T) {
	a, b := snapshotOf(t, threePools), snapshotOf(t, threePools)
	if !a.SameConfiguration(a.Snapshot(healthOf("r1", ""), nil)) || a.SameConfiguration(b) {
		t.Error("configurations are mixed up")
	}
}

// TestSnapshotsDoNotChange: what was made of a snapshot's health stays, whatever is made of the same configuration later.
func TestSnapshotsDoNotChange(t *testing.T) {
	c := snapshotOf(t, threePools).Compiled
	first := c.Snapshot(healthOf("", ""), nil)
	before := fmt.Sprint(tablesOf(first))
	c.Snapshot(healthOf("r1 h1 l1 n1", ""), nil)
	picks(first, 0, 3, &Question{}, []string{"r1"}, nil)
	if after := fmt.Sprint(tablesOf(first)); after != before {
		t.Errorf("tables changed:\n%s\n%s", before, after)
	}
}

// TestCompiled: what is asked of a configuration.
func TestCompiled(t *testing.T) {
	c := snapshotOf(t, `vips:
  - {address: "10.9.9.1:80", interfaces: [eth0], routes: [{pool: a}]}
  - {address: "10.9.9.2:80", mode: proxy, routes: [{pool: b}]}
  - {address: "10.9.9.3:443", interfaces: [eth0], protocol: quic, routes: [{match: {sni: c.test}, pool: q}]}
pools:
  a: {surrogates: [{name: a1, address: "10.0.0.1:80"}]}
  b: {surrogates: [{name: b1, address: "10.0.0.2:80"}]}
  q: {surrogates: [{name: q1, address: "10.0.0.3:443"}]}
`).Compiled
	at := netip.MustParseAddrPort
	if got := c.HandedOff(); !slices.Equal(got, []netip.AddrPort{at("10.9.9.1:80")}) {
		t.Errorf("handed off: %v", got)
	}
	if c.VIP(at("10.9.9.2:80")) == nil || c.VIP(at("10.9.9.3:443")) != nil || c.QUICs[at("10.9.9.3:443")] != 2 {
		t.Error("VIPs of TCP and QUIC are mixed up")
	}
	for name, want := range map[string]bool{"a": true, "b": false, "q": false} {
		p := c.Numbered[slices.IndexFunc(c.Numbered, func(p *NumberedPool) bool { return p.Config.Name == name })]
		if got := c.Splices(name, &p.Config.Surrogates[0]); got != want {
			t.Errorf("pool %s is spliced to: %v", name, got)
		}
	}
	if c.PoolOf("b1") != "b" || c.PoolOf("x") != "" || c.AddressOf("q1") != at("10.0.0.3:443") || c.AddressOf("x").IsValid() {
		t.Error("surrogates are not found")
	}
	var pools []string
	c.EachPool(1, func(p *NumberedPool) { pools = append(pools, p.Config.Name) })
	if !slices.Equal(pools, []string{"b"}) {
		t.Errorf("VIP 1 routes to %q", pools)
	}
}

// TestQuestions: policy hash asks by the path, or by a parameter of the query, and for a hello by client and name.
func TestQuestions(t *testing.T) {
	s := snapshotOf(t, threePools)
	req, _, err := head.Parse([]byte("GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddr("192.0.2.7")
	q := s.Pools[1].QuestionOf(&req, client)
	if want := choose.Hash(req.Path, req.Query, nil); q.Hash != want || q.Client != client {
		t.Errorf("question %+v, want hash %d", q, want)
	}
	if s.Pools[1].Config.Policy != config.Hash {
		t.Fatal("not the pool that hashes")
	}
}
