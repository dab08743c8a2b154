package config

import (
	"fmt"
	"strings"
	"testing"

	"baton/document/documenttest"
)

// rewriting is a file with a route of these keys on line 5.
func rewriting(keys string) string {
	return `vips:
  - address: "10.9.9.9:80"
    interfaces: [eth0]
    routes:
      - {` + keys + `, pool: web}
  - address: "10.9.9.9:443"
    interfaces: [eth0]
    protocol: tls
    routes: [{match: {sni: a.test}, pool: secure}]
pools:
  web:
    surrogates: [{name: a, address: "10.2.1.2:80"}]
  secure:
    surrogates: [{name: c, address: "10.2.1.4:443"}]
`
}

func TestParseRewrite(t *testing.T) {
	for keys, want := range map[string]struct {
		rewrite  Rewrite
		from, to string // a target
	}{
		"rewrite: {host: origin.example.net}":                                 {Rewrite{Host: "origin.example.net"}, "/a?b", "/a?b"},
		`rewrite: {host: "Origin:8080"}`:                                      {Rewrite{Host: "Origin:8080"}, "/", "/"},
		`rewrite: {host: "[2001:db8::1]:81"}`:                                 {Rewrite{Host: "[2001:db8::1]:81"}, "*", "*"},
		"rewrite: {path_prefix: /b}":                                          {Rewrite{Prefix: "/b"}, "/a?b", "/b/a?b"},
		"match: {path_prefix: /a}, rewrite: {path_prefix: /b}":                {Rewrite{Prefix: "/b", Strip: 2}, "/a/x?a", "/b/x?a"},
		"match: {path_prefix: /a/}, rewrite: {path_prefix: /}":                {Rewrite{Prefix: "/", Strip: 3}, "/a/x", "/x"},
		"match: {path_prefix: /}, rewrite: {path_prefix: /b/c/, host: h}":     {Rewrite{Host: "h", Prefix: "/b/c/", Strip: 1}, "/?q", "/b/c/?q"},
		"match: {path_prefix: /a}, rewrite: {path_prefix: /...b/.c}":          {Rewrite{Prefix: "/...b/.c", Strip: 2}, "/a", "/...b/.c"},
		"match: {path_prefix: /a}, rewrite: {path_prefix: /a, host: h}":       {Rewrite{Host: "h", Prefix: "/a", Strip: 2}, "/a/x", "/a/x"},
		"match: {path_prefix: /a, host: h.net}, rewrite: {path_prefix: /%41}": {Rewrite{Prefix: "/%41", Strip: 2}, "/a", "/%41"},
	} {
		cfg, err := Parse("f", []byte(rewriting(keys)))
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		v := cfg.VIPs[0]
		if got := v.Routes[0].Rewrite; got != want.rewrite {
			t.Errorf("%s: %+v, want %+v", keys, got, want.rewrite)
		}
		if got := want.rewrite.Path(want.from); got != want.to {
			t.Errorf("%s: %s becomes %s, want %s", keys, want.from, got, want.to)
		}
		if v.Pipelining != PipeliningHold {
			t.Errorf("%s: pipelining %s", keys, v.Pipelining)
		}
	}
}

func TestRefuseRewrite(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"nothing", rewriting("rewrite: {}"), "f:5:19: vips[0].routes[0].rewrite: rewrites nothing (host, path_prefix or both)"},
		{"a URL", rewriting(`rewrite: {host: "http://a"}`), `f:5:26: vips[0].routes[0].rewrite.host: "http://a" is not a host (such as origin.example.net or origin.example.net:8080)`},
		{"a line", rewriting(`rewrite: {host: "a\r\nX: b"}`), `f:5:26: vips[0].routes[0].rewrite.host: "a\r\nX: b" holds a control character (printable text on one line)`},
		{"a port that is none", rewriting(`rewrite: {host: "a:b"}`), `f:5:26: vips[0].routes[0].rewrite.host: "a:b" is not a host (such as origin.example.net or origin.example.net:8080)`},
		{"a path that is none", rewriting("rewrite: {path_prefix: a}"), `f:5:33: vips[0].routes[0].rewrite.path_prefix: "a" does not begin with / (such as /video/)`},
		{"a query", rewriting("rewrite: {path_prefix: /a?b}"), `f:5:33: vips[0].routes[0].rewrite.path_prefix: "/a?b" holds '?', which is never part of a path (the path alone: a query is not matched)`},
		{"two //", rewriting("match: {path_prefix: /a/}, rewrite: {path_prefix: //b/}"), `f:5:60: vips[0].routes[0].rewrite.path_prefix: "//b/" holds //, which servers read in different ways (such as /video/)`},
		{"two // alone", rewriting("match: {path_prefix: /a/}, rewrite: {path_prefix: //}"), `f:5:60: vips[0].routes[0].rewrite.path_prefix: "//" holds //, which servers read in different ways (such as /video/)`},
		{"a way out", rewriting("match: {path_prefix: /a}, rewrite: {path_prefix: /b/..}"), `f:5:59: vips[0].routes[0].rewrite.path_prefix: "/b/.." holds ".." as a segment, which leads elsewhere (such as /video/)`},
		{"a dot", rewriting("match: {path_prefix: /a/}, rewrite: {path_prefix: /./b/}"), `f:5:60: vips[0].routes[0].rewrite.path_prefix: "/./b/" holds "." as a segment, which leads elsewhere (such as /video/)`},
		{"half an escape", rewriting("match: {path_prefix: /a/}, rewrite: {path_prefix: /%4/}"), `f:5:60: vips[0].routes[0].rewrite.path_prefix: "/%4/" holds % without two hexadecimal digits (such as /video/)`},
		{"/ in front", rewriting("rewrite: {path_prefix: /}"), `f:5:33: vips[0].routes[0].rewrite.path_prefix: "/" goes in front of whole paths, as the route has no match.path_prefix: /a would become //a (no path_prefix)`},
		{"the same", rewriting("match: {path_prefix: /a/}, rewrite: {path_prefix: /a/}"), `f:5:60: vips[0].routes[0].rewrite.path_prefix: "/a/" is match.path_prefix, so that no path changes (another one, or no rewrite)`},
		{"a / too many", rewriting("match: {path_prefix: /a}, rewrite: {path_prefix: /}"), `f:5:59: vips[0].routes[0].rewrite.path_prefix: "/" and match.path_prefix "/a" do not both end with /: /a/a would become //a (both with /, or both without)`},
		{"a / too few", rewriting("match: {path_prefix: /a/}, rewrite: {path_prefix: /b}"), `f:5:60: vips[0].routes[0].rewrite.path_prefix: "/b" and match.path_prefix "/a/" do not both end with /: /a/a would become /ba (both with /, or both without)`},
		{"in front, with /", rewriting("rewrite: {path_prefix: /b/}"), `f:5:33: vips[0].routes[0].rewrite.path_prefix: "/b/" goes in front of whole paths, as the route has no match.path_prefix: /a would become /b//a (/b)`},
		{"long", rewriting("rewrite: {path_prefix: /" + strings.Repeat("b", 128) + "}"), "f:5:33: vips[0].routes[0].rewrite.path_prefix: and match.path_prefix have at most 128 bytes (shorter ones)"},
		{"TLS", strings.Replace(rewriting("match: {host: a}"), "sni: a.test}", "sni: a.test}, rewrite: {host: b}", 1), "f:9:47: vips[1].routes[0].rewrite: is for requests of HTTP, and those of the VIP on line 6 are encrypted by protocol tls (no rewrite)"},
		{"pipelining: pass", strings.Replace(rewriting("rewrite: {host: b}"), "    routes:\n", "    pipelining: pass\n    routes:\n", 1), "f:4:17: vips[0].pipelining: pass lets requests follow unseen, without the rewrite of the route on line 6 (hold, or no pipelining)"},
		{"a PROXY header", strings.Replace(rewriting("rewrite: {host: b}"), "  web:\n", "  web:\n    client_address: proxy-v2\n", 1),
			`f:5:20: vips[0].routes[0].rewrite: cannot be combined with client_address: proxy-v2 of pool "web" on line 11: that is for connections, whose requests are not changed (client_address: x-forwarded-for)`},
		{"the host of a redirect", strings.Replace(rewriting("rewrite: {host: b}"), "    interfaces: [eth0]\n    routes:\n", "    mode: redirect\n    routes:\n", 1),
			"f:5:26: vips[0].routes[0].rewrite.host: is not for mode redirect, where clients are sent to the surrogate's own name (public of the surrogates)"},
		{"too many", strings.Replace(rewriting("match: {host: a}"), "    routes:\n", "    routes:\n"+many(101), 1), "f:2:3: vips: have routes with 101 different rewrites, and the kernel has room for 100 (fewer, or a VIP of mode proxy on another router)"},
	} {
		if _, err := Parse("f", []byte(tt.file)); !documenttest.Reported(err, tt.want) {
			t.Errorf("%s:\n%v\nwant\n%s", tt.name, err, tt.want)
		}
	}
}

// many are so many routes with different rewrites.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "      - {match: {host: h%d}, rewrite: {host: o%d}, pool: web}\n", i, i)
	}
	return b.String()
}
