package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func discovering(vips, pool string) string {
	return "vips:\n" + vips + "pools:\n  p: {" + pool + "}\n"
}

const (
	vipOf4 = "  - {address: \"10.9.9.9:80\", interfaces: [eth0], routes: [{pool: p}]}\n"
	vipOf6 = "  - {address: \"[fd09::9]:80\", interfaces: [eth0], routes: [{pool: p}]}\n"
)

func TestDiscover(t *testing.T) {
	for _, tt := range []struct{ name, vips, pool, want string }{
		{"defaults", vipOf4, "discover: {dns: Web.Example.net., port: 80}", "dns web.example.net:80 p/ 1 ipv4 [] 5s 5m0s 0s false"},
		{"family of the VIPs", vipOf4 + vipOf6, "discover: {dns: web.test, port: 80}", "dns web.test:80 p/ 1 both [] 5s 5m0s 0s false"},
		{"IPv6", vipOf6, "discover: {srv: _http._tcp.web.test}, policy: weighted", "srv _http._tcp.web.test p/ 1 ipv6 [] 5s 5m0s 0s false"},
		{"a proxy reaches both", strings.Replace(vipOf4, "interfaces: [eth0]", "mode: proxy", 1), "discover: {dns: web.test, port: 80}", "dns web.test:80 p/ 1 both [] 5s 5m0s 0s false"},
		{"all options", vipOf4, "discover: {dns: web.test, port: 8080, prefix: w-, weight: 3, family: ipv6, resolvers: [192.0.2.1, \"[2001:db8::1]:5353\"], min_ttl: 1s, max_ttl: 1m, hold: 10s, nxdomain: remove}",
			"dns web.test:8080 w- 3 ipv6 [192.0.2.1:53 [2001:db8::1]:5353] 1s 1m0s 10s true"},
		{"controller", vipOf4, "policy: nearest, discover: {controller: {url: [\"ws://10.0.0.9:1\", \"ws://10.0.0.8:1\"], name: rr}, prefix: near/}",
			"controller ws://10.0.0.9:1 ws://10.0.0.8:1 near/ 1  [] 5s 5m0s 0s false"},
		{"several", vipOf4, "discover: [{file: /etc/more.yaml}, {api: true}]", "file /etc/more.yaml  1  [] 5s 5m0s 0s false; api  1  [] 5s 5m0s 0s false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(discovering(tt.vips, tt.pool)))
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, s := range cfg.Pools[0].Discover {
				out = append(out, fmt.Sprint(s.String(), " ", s.Prefix, " ", s.Weight, " ", s.Family, " ", s.Resolvers, " ", s.MinTTL, " ", s.MaxTTL, " ", s.Hold, " ", s.RemoveAbsent))
			}
			if got := strings.Join(out, "; "); got != tt.want {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestDiscoverRefuses(t *testing.T) {
	for _, tt := range []struct{ pool, want string }{
		{"discover: {port: 80}", "has 0 sources (one of dns, srv, file, controller and api; several are a list)"},
		{"discover: {controller: {token_file: /t}}", "pools.p.discover.controller.url: is missing"},
		{"discover: {controller: {url: \"ws://a\", legs: 3}}", "legs"},
		{"discover: {controller: {url: \"ws://a\"}, hold: 1s}", "is not for a source controller"},
		{"discover: {dns: a.test, port: 80, file: /f}", "has 2 sources"},
		{"discover: {dns: a.test}", "pools.p.discover.port: is missing"},
		{"discover: {dns: 192.0.2.1, port: 80}", `"192.0.2.1" is an address (surrogates, with its address)`},
		{"discover: {dns: a..test, port: 80}", "is not a name of DNS"},
		{"discover: {srv: web.test}", "is not the name of a service (such as _http._tcp.example.net)"},
		{"discover: {srv: _http._tcp.a.test, port: 80}", "pools.p.discover.port: is not for a source srv"},
		{"discover: {file: f.yaml}", "pools.p.discover.file"},
		{"discover: {file: /f, hold: 1s}", "is not for a source file"},
		{"discover: {api: false}", "is false"},
		{"discover: []", "is an empty list"},
		{"discover: [{file: /f}, {file: /f}]", "file /f is there twice"},
		{"discover: {dns: a.test, port: 80, min_ttl: 2m, max_ttl: 1m}", "2m0s is above max_ttl, which is 1m0s"},
		{"discover: {dns: a.test, port: 80, min_ttl: 1ms}", "is out of range"},
		{"discover: {dns: a.test, port: 80, resolvers: [dns.test]}", "pools.p.discover.resolvers[0]"},
		{"discover: {dns: a.test, port: 80, prefix: \"a b\"}", "is not the start of a name"},
		{"discover: {dsn: a.test, port: 80}", "did you mean dns?"},
		{"policy: hash", "pools.p.surrogates: is missing (surrogates: [{name: ..., address: ...}])"},
	} {
		_, err := Parse("f", []byte(discovering(vipOf4, tt.pool)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.pool, err, tt.want)
		}
	}
	cfg, err := Parse("f", []byte(discovering(vipOf4, "discover: {srv: _http._tcp.a.test}")))
	if err != nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0], "does not use the records' weights") {
		t.Errorf("warnings %v, %v", cfg, err)
	}
	if _, err := Parse("f", []byte(strings.ReplaceAll(discovering(vipOf4, "discover: {dns: a.test, port: 80}"), "p: {discover", "\"a b\": {discover")+"  p: {surrogates: [{name: s, address: \"10.2.1.1:80\"}]}\n")); err == nil || !strings.Contains(err.Error(), "cannot begin with the pool's name") {
		t.Errorf("a pool's name with a blank: %v", err)
	}
}

// TestRefuses: a surrogate that is not from the file is held to what the file is held to.
func TestRefuses(t *testing.T) {
	quic := "  - {address: \"10.9.9.9:443\", protocol: quic, interfaces: [eth0], routes: [{pool: p}]}\n"
	for _, tt := range []struct{ name, vips, pool, surrogate, address, want string }{
		{"fits", vipOf4, "discover: {api: true}", "s1", "10.2.1.1:80", ""},
		{"another family is proxied", vipOf4, "discover: {api: true}", "s1", "[fd02::1]:80", ""},
		{"name", vipOf4, "discover: {api: true}", "s 1", "10.2.1.1:80", "its name"},
		{"flag as a name", vipOf4, "discover: {api: true}", "-w", "10.2.1.1:80", "its name"},
		{"long name", vipOf4, "discover: {api: true}", strings.Repeat("s", 129), "10.2.1.1:80", "its name"},
		{"unspecified", vipOf4, "discover: {api: true}", "s1", "0.0.0.0:80", "one host"},
		{"multicast", vipOf4, "discover: {api: true}", "s1", "[ff02::1]:80", "one host"},
		{"mapped", vipOf4, "discover: {api: true}", "s1", "[::ffff:10.2.1.1]:80", "one host"},
		{"VIP", vipOf4, "discover: {api: true}", "s1", "10.9.9.9:80", "the address of a VIP"},
		{"sources", vipOf4, "discover: {api: true}, legs: {sources: [10.2.1.9]}", "s1", "[fd02::1]:80", "legs.sources"},
		{"keep", vipOf4, "discover: {api: true}, source: keep", "s1", "[fd02::1]:80", "cannot serve VIP"},
		{"quic", quic, "discover: {api: true}", "s1", "[fd02::1]:80", "cannot serve VIP"},
		{"server ids", quic, "discover: {api: true}, server_id: {layout: quic-lb, rotation: 0, length: 2, map: {s1: \"0001\"}}", "s2", "10.2.1.1:80", "server_id.map lacks it"},
		{"server id", quic, "discover: {api: true}, server_id: {layout: quic-lb, rotation: 0, length: 2, map: {s1: \"0001\"}}", "s1", "10.2.1.1:80", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(discovering(tt.vips, tt.pool)))
			if err != nil {
				t.Fatal(err)
			}
			got := cfg.Refuses(&cfg.Pools[0], &Surrogate{Name: tt.surrogate, Address: netip.MustParseAddrPort(tt.address), Weight: 1})
			if got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestSavedByState: only the default state has a default folder for changes, as two routers of a host need two.
func TestSavedByState(t *testing.T) {
	for text, want := range map[string]string{"": defaultSaved, "state: /sys/fs/bpf/x\n": "", "state: /sys/fs/bpf/x\nsaved: /var/x\n": "/var/x"} {
		cfg, err := Parse("f", []byte(text+discovering(vipOf4, "discover: {api: true}")))
		if err != nil || cfg.Listen.Saved != want {
			t.Errorf("%q: %v, %v", text, cfg, err)
		}
	}
}
