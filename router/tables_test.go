package router

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/health"
	"baton/router/legs"
)

// TestTablesSayHowRequestsAreServed: keys that the kernel applies arrive in its tables.
func TestTablesSayHowRequestsAreServed(t *testing.T) {
	cfg, err := config.Parse("f", []byte(`vips:
  - {address: "10.9.9.1:80", interfaces: [eth0], routes: [{pool: a}]}
  - {address: "10.9.9.2:80", interfaces: [eth0], routes: [{match: {host: a.net}, pool: a}, {pool: b}]}
  - {address: "10.9.9.3:80", interfaces: [eth0], pipelining: pass, routes: [{match: {host: a.net}, pool: a}, {pool: c}]}
pools:
  a: {surrogates: [{name: a, address: "10.0.0.1:80"}]}
  b: {reuse: safe, surrogates: [{name: b, address: "10.0.0.2:80"}]}
  c: {reuse: never, surrogates: [{name: c, address: "10.0.0.3:80"}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newState(cfg, &numbers{})
	if err != nil {
		t.Fatal(err)
	}
	s.choose(func(string) health.State { return health.State{Up: true} }, nil)
	got := s.tables(1500, func(uint16) legs.Facts { return legs.Facts{} }, func(string) bool { return false })
	for i, want := range []kernel.Reuse{kernel.ReuseAlways, kernel.ReuseSafe, kernel.ReuseNever} {
		if p := got.Pools[s.pools[i].id]; p.Reuse != want || len(p.Table) == 0 {
			t.Errorf("pool %s: %+v, want reuse %d", cfg.Pools[i].Name, p, want)
		}
	}
	for address, hold := range map[string]bool{"10.9.9.1:80": false, "10.9.9.2:80": true, "10.9.9.3:80": false} {
		if v := got.VIPs[netip.MustParseAddrPort(address)]; v.Hold != hold {
			t.Errorf("%s holds requests: %v, want %v", address, v.Hold, hold)
		}
	}
}

// TestLeastMTU: on the smallest interface that is accepted, no segment size is more than what fits.
func TestLeastMTU(t *testing.T) {
	for mtu := -1; mtu < 1500; mtu++ {
		if tooSmall(mtu) == "" && (mtu <= ipv6Headers || slices.ContainsFunc(mssClasses(mtu), func(mss uint16) bool { return mss > 1460 })) {
			t.Errorf("an MTU of %d is accepted, with leg classes of %v", mtu, mssClasses(mtu))
		}
	}
	if tooSmall(68) != "" || tooSmall(67) == "" {
		t.Error("the least MTU is not 68")
	}
}

// TestNeedsPorts: a host without ports for legs serves what has none.
func TestNeedsPorts(t *testing.T) {
	none := errors.New("no ports")
	for _, tt := range []struct {
		vip   config.VIP
		needs bool
	}{
		{config.VIP{Mode: config.Proxy}, false}, {config.VIP{Mode: config.Redirect}, false}, {config.VIP{Mode: config.Reactive}, false},
		{config.VIP{Mode: config.Handoff}, true}, {config.VIP{Mode: config.Handoff, Protocol: config.TLS}, true},
		{config.VIP{Mode: config.Handoff, Protocol: config.QUIC}, true},
	} {
		cfg := &config.Config{VIPs: []config.VIP{{Mode: config.Proxy}, tt.vip}}
		if err := needsPorts(cfg, none); (err != nil) != tt.needs {
			t.Errorf("%s %s: %v", tt.vip.Mode, tt.vip.Protocol, err)
		}
		if err := needsPorts(cfg, nil); err != nil {
			t.Errorf("%s %s with ports: %v", tt.vip.Mode, tt.vip.Protocol, err)
		}
	}
}
