package state

import (
	"net/netip"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/config"
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
	c, err := Compile(cfg, &Numbers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := allUp(c)
	got := tablesOf(s)
	for i, want := range []kernel.Reuse{kernel.ReuseAlways, kernel.ReuseSafe, kernel.ReuseNever} {
		if p := got.Pools[s.Pools[i].ID]; p.Reuse != want || len(p.Table) == 0 {
			t.Errorf("pool %s: %+v, want reuse %d", cfg.Pools[i].Name, p, want)
		}
	}
	for address, hold := range map[string]bool{"10.9.9.1:80": false, "10.9.9.2:80": true, "10.9.9.3:80": false} {
		if v := got.VIPs[netip.MustParseAddrPort(address)]; v.Hold != hold {
			t.Errorf("%s holds requests: %v, want %v", address, v.Hold, hold)
		}
	}
}
