package config

import (
	"strings"
	"testing"

	"baton/document/documenttest"
)

// keeping is a file with a pool that keeps its clients' addresses.
const keeping = `vips:
  - address: "10.9.9.9:80"
    interfaces: [eth0]
    routes: [{pool: a}]
  - address: "10.9.9.9:443"
    interfaces: [eth0]
    protocol: tls
    routes: [{pool: b}]
pools:
  a: {source: keep, surrogates: [{name: a1, address: "10.2.1.2:80"}]}
  b: {source: keep, surrogates: [{name: b1, address: "10.2.1.2:443"}]}
`

func TestParseKeep(t *testing.T) {
	cfg, err := Parse("f", []byte(keeping))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range cfg.Pools {
		if !p.Keeps() || p.Reuse != ReuseNever || p.Legs.Mode != LegsOnDemand || p.Legs.Min != 0 {
			t.Errorf("pool %+v", p)
		}
	}
	cfg, err = Parse("f", []byte(strings.Replace(both, "a: {", "a: {client_address: proxy-v2, source: keep, ", 1)))
	if err != nil || cfg.Pools[0].Keeps() || cfg.Pools[0].Source != SourceKeep || cfg.Pools[1].Keeps() {
		t.Errorf("sessions of TCP are told the address, or there are none: %+v, %v", cfg.Pools, err)
	}
	cfg, err = Parse("f", []byte(strings.Replace(both, "a: {", "a: {source: keep, ", 1)))
	if err != nil || !cfg.Pools[0].Keeps() {
		t.Errorf("TCP and QUIC: %+v, %v", cfg.Pools, err)
	}
}

func TestRefuseKeep(t *testing.T) {
	const legs = "is for legs that start from the router, and with source: keep each starts from its client's address"
	for name, tt := range map[string]struct{ old, now, want string }{
		"a leg for others":  {"source: keep", "source: keep, reuse: safe", "f:10:28: pools.a.reuse: " + legs + " (never, or no reuse)"},
		"legs ready":        {"source: keep", "source: keep, legs: {mode: ready}", "f:10:34: pools.a.legs.mode: " + legs + " (on-demand, or no mode)"},
		"idle legs":         {"source: keep", "source: keep, legs: {min: 4}", "f:10:33: pools.a.legs.min: " + legs + " (no min)"},
		"another source":    {"source: keep", "source: keep, legs: {sources: [10.2.1.1]}", "f:10:37: pools.a.legs.sources: " + legs + " (no sources)"},
		"a header as well":  {"source: keep", "source: keep, client_address: proxy-v1", "f:10:37: pools.a.client_address: tells surrogates what source: keep shows them (one of them)"},
		"a proxy":           {"interfaces: [eth0]", "mode: proxy", `f:4:21: vips[0].routes[0].pool: "a" has source: keep, and connections of mode proxy start elsewhere (mode: handoff, or a pool with source: router)`},
		"another family":    {"10.2.1.2:80", "[fd02::2]:80", `f:4:21: vips[0].routes[0].pool: "a" has source: keep, and sessions with [fd02::2]:80 cannot be spliced: the surrogate is of another address family than the VIP (a pool with source: router)`},
		"no source":         {"source: keep", "source: client", `f:10:15: pools.a.source: "client" is not a source (router or keep)`},
		"a VIP on loopback": {"10.9.9.9:80", "127.0.0.1:80", `f:4:21: vips[0].routes[0].pool: "a" has source: keep, and sessions with 10.2.1.2:80 cannot be spliced: the VIP is on loopback (a pool with source: router)`},
	} {
		if _, err := Parse("f", []byte(strings.Replace(keeping, tt.old, tt.now, 1))); !documenttest.Reported(err, tt.want) {
			t.Errorf("%s:\n%v, want\n%s", name, err, tt.want)
		}
	}
}
