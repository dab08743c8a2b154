package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/document/documenttest"
)

// encrypted is a file with a VIP of protocol tls, whose routes are these.
func encrypted(routes ...string) string {
	return "vips:\n  - address: \"10.9.9.9:443\"\n    interfaces: [eth0]\n    protocol: tls\n    routes:\n      - " + strings.Join(routes, "\n      - ") + "\n" +
		"pools:\n  a: {surrogates: [{name: a1, address: \"10.2.1.2:443\"}]}\n  b: {surrogates: [{name: b1, address: \"10.2.1.3:443\"}]}\n"
}

func TestParseEncrypted(t *testing.T) {
	cfg, err := Parse("f", []byte(encrypted(
		"{match: {sni: CDN.example.net., alpn: [h2, http/1.1]}, pool: a}", `{match: {sni: "*.example.net"}, pool: b}`,
		"{match: {no_sni: true}, pool: b}", "{pool: a}")))
	if err != nil {
		t.Fatal(err)
	}
	v := cfg.VIPs[0]
	var got []Match
	for _, r := range v.Routes {
		got = append(got, r.Match)
	}
	want := []Match{{SNI: "cdn.example.net", ALPN: []string{"h2", "http/1.1"}}, {SNI: "*.example.net"}, {NoSNI: true}, {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("matches (-want +got):\n%s", diff)
	}
	if v.Protocol != TLS || v.Pipelining != "" {
		t.Errorf("protocol %q, pipelining %q", v.Protocol, v.Pipelining)
	}
	for _, p := range cfg.Pools {
		if !p.Encrypted || p.Reuse != ReuseNever {
			t.Errorf("pool %s: encrypted %v, reuse %s", p.Name, p.Encrypted, p.Reuse)
		}
	}
	if len(cfg.Warnings) != 0 {
		t.Errorf("warnings %q", cfg.Warnings)
	}
}

// TestPortOfHTTPS: a VIP without TLS on the port of HTTPS is worth a warning, one for TLS is not.
func TestPortOfHTTPS(t *testing.T) {
	plain := strings.Replace(encrypted("{pool: a}", "{match: {sni: x}, pool: b}"), "    protocol: tls\n", "", 1)
	plain = strings.Replace(plain, "      - {match: {sni: x}, pool: b}\n", "", 1)
	cfg, err := Parse("f", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	const want = "f:2:5: vips[0].address: 10.9.9.9:443 is the port of HTTPS, but the VIP is for HTTP without TLS: add protocol: tls, or TLS clients are refused"
	if len(cfg.Warnings) < 1 || cfg.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", cfg.Warnings, want)
	}
}

func TestRefuseEncrypted(t *testing.T) {
	replaced := func(old, now string) string {
		return strings.Replace(encrypted("{match: {sni: a.example.net}, pool: a}", "{pool: b}"), old, now, 1)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"a protocol that is none": {replaced("protocol: tls", "protocol: ftp"), `f:4:15: vips[0].protocol: "ftp" is not a protocol (did you mean http?)`},
		"sni without TLS": {replaced("protocol: tls", "protocol: http"),
			"f:6:23: vips[0].routes[0].match.sni: is for protocol tls: an HTTP request has no TLS hello (host, or protocol: tls for the VIP)"},
		"host with TLS": {replaced("sni:", "host:"), "f:6:24: vips[0].routes[0].match.host: is a part of the request, which TLS encrypts (sni or alpn)"},
		"redirect":      {replaced("protocol: tls", "protocol: tls\n    mode: redirect"), "f:5:11: vips[0].mode: redirect needs the request, which TLS encrypts (handoff or proxy)"},
		"pipelining": {replaced("protocol: tls", "protocol: tls\n    pipelining: hold"),
			"f:2:5: vips[0].pipelining: needs the requests, which TLS encrypts (no pipelining: all requests of a connection go to the same surrogate)"},
		"an address as a name": {replaced("a.example.net", "10.1.1.1"),
			`f:6:23: vips[0].routes[0].match.sni: "10.1.1.1" cannot be matched: clients send no addresses as names (RFC 6066, section 3) (such as cdn.example.net or *.example.net)`},
		"a name with a port": {replaced("a.example.net", "a.example.net:443"),
			`f:6:23: vips[0].routes[0].match.sni: "a.example.net:443" cannot be matched: a name has no port: the VIP has it (such as cdn.example.net or *.example.net)`},
		"sni and no_sni": {replaced("{sni: a.example.net}", "{sni: a.example.net, no_sni: true}"),
			"f:6:18: vips[0].routes[0].match: has both sni and no_sni (a route for each)"},
		"a route never reached": {encrypted("{pool: a}", "{match: {sni: a.example.net}, pool: b}"),
			"f:7:10: vips[0].routes[1]: is never reached: the route on line 6 matches all that this one does (the more special route first)"},
		"a name under a wildcard": {encrypted(`{match: {sni: "*.example.net"}, pool: a}`, "{match: {sni: a.example.net}, pool: b}"),
			"f:7:10: vips[0].routes[1]: is never reached: the route on line 6 matches all that this one does (the more special route first)"},
		"reuse": {replaced("a: {surrogates", "a: {reuse: safe, surrogates"),
			"f:9:14: pools.a.reuse: safe is for HTTP: a connection of TLS serves one client (never, or no reuse)"},
		"a hash of the path": {replaced("a: {surrogates", "a: {policy: hash, hash_query: [v], surrogates"),
			"f:9:33: pools.a.hash_query: is a part of the request, which TLS encrypts (no hash_query: the client's prefix and the name in its hello are hashed)"},
		"a pool of both": {strings.Replace(encrypted("{pool: a}"), "pools:", "  - {address: \"10.9.9.9:80\", interfaces: [eth0], routes: [{pool: a}]}\npools:", 1),
			`f:7:66: vips[1].routes[0].pool: "a" has protocol http here and tls at the VIP on line 2 (a pool for each)`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("f", []byte(tt.text)); !documenttest.Reported(err, tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

// TestReachedUnderWildcard: a wildcard stands for one label, and no other route is for hellos without a name.
func TestReachedUnderWildcard(t *testing.T) {
	text := encrypted(`{match: {sni: "*.example.net"}, pool: a}`, "{match: {sni: a.b.example.net}, pool: b}", "{pool: a}", "{match: {no_sni: true}, pool: b}")
	if _, err := Parse("f", []byte(text)); err != nil {
		t.Error(err)
	}
}

// TestEncryptedHealth: without a path, checks of an encrypted pool make handshakes alone.
func TestEncryptedHealth(t *testing.T) {
	for health, want := range map[string]string{"{}": "", "{host: www.example.net}": "", "{path: /}": "/", "{path: /healthz}": "/healthz"} {
		cfg, err := Parse("f", []byte(strings.Replace(encrypted("{match: {sni: x}, pool: a}", "{pool: b}"), "a: {", "a: {health: "+health+", ", 1)))
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Pools[0].Health.Path; got != want {
			t.Errorf("health: %s: path %q, want %q", health, got, want)
		}
	}
}

// TestPoolOfQUICAlone: what needs TCP is refused for a pool that only QUIC reaches.
func TestPoolOfQUICAlone(t *testing.T) {
	const vip = "  - {address: \"10.9.9.9:443\", interfaces: [eth0], protocol: %s, routes: [{pool: a}]}\n"
	file := func(pool string, protocols ...string) string {
		text := "vips:\n"
		for _, p := range protocols {
			text += strings.ReplaceAll(vip, "%s", p)
		}
		return text + "pools:\n  a: {" + pool + "surrogates: [{name: a1, address: \"10.2.1.2:443\"}]}\n"
	}
	for pool, want := range map[string]string{
		"health: {path: /}, ": "f:4:22: pools.a.health.path: is requested over TCP, and only VIPs of protocol quic have this pool (none, or a VIP of protocol tls with a route to the pool)",
		"health: {host: a}, ": "f:4:22: pools.a.health.host: is for requests over TCP, and only VIPs of protocol quic have this pool (none, or a VIP of protocol tls with a route to the pool)",
		"legs: {min: 1}, ":    "f:4:14: pools.a.legs: are connections of TCP, and only VIPs of protocol quic have this pool (none, or a VIP of protocol tls with a route to the pool)",
	} {
		if _, err := Parse("f", []byte(file(pool, "quic"))); !documenttest.Reported(err, want) {
			t.Errorf("%s: got\n%v\nwant\n%s", pool, err, want)
		}
		if _, err := Parse("f", []byte(file(pool, "quic", "tls"))); err != nil {
			t.Errorf("%s with TLS: %v", pool, err)
		}
	}
}
