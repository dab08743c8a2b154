package explain

import (
	"net/netip"
	"strings"
	"testing"

	"baton/router/config"
)

func TestExplainFields(t *testing.T) {
	const file = `vips:
  - {address: "10.9.9.9:80", interfaces: [eth0], routes: [{match: {host: a}, pool: web}, {match: {host: b}, pool: both}, {pool: plain}]}
  - {address: "10.9.9.9:81", mode: redirect, routes: [{pool: web}]}
  - {address: "10.9.9.9:82", mode: proxy, routes: [{pool: web}]}
pools:
  web: {client_address: x-forwarded-for, add_fields: [x-request-id], surrogates: [{name: w1, address: "10.2.1.1:80"}]}
  both: {client_address: forwarded, client_address_mode: append, surrogates: [{name: b1, address: "10.2.1.2:80"}, {name: b2, address: "[2001:db8::1]:80"}]}
  plain: {surrogates: [{name: p1, address: "10.2.1.3:80"}]}
`
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	const lines = "\nfields     X-Forwarded-For: 192.0.2.7\n           X-Request-Id: 32 hexadecimal digits\n"
	client := netip.MustParseAddr("192.0.2.7")
	for name, tt := range map[string]struct {
		question Question
		want     string // the end
	}{
		"in the kernel": {Question{URL: "http://a/", Client: client}, lines + "chosen     w1, spliced\ndecided    in the kernel: host and path are in its tables, by prefix \"\"\n"},
		"a client's own": {Question{URL: "http://a/", Client: client, Headers: []string{"X_Forwarded_For: 6.6.6.6"}},
			lines + "chosen     w1, proxied: the request has X_Forwarded_For, which the router sets\ndecided    in user space: the request has X_Forwarded_For, which the router sets\n"},
		"of another pool": {Question{URL: "http://b/", Headers: []string{"X-Request-Id: 1"}}, "\nfields     Forwarded: for=the client's address;proto=http (behind the client's own)\n" +
			"chosen     in turn b1, b2, proxied: the request has X-Request-Id, which the router sets\ndecided    in user space: the request has X-Request-Id, which the router sets\n"},
		"an upgrade": {Question{URL: "http://a/", Client: client, Headers: []string{"Connection: upgrade", "Upgrade: websocket"}},
			lines + "chosen     w1, proxied: it requests an upgrade\ndecided    in user space: it requests an upgrade\n"},
		"a pool without": {Question{URL: "http://c/", Client: client, Headers: []string{"X-Forwarded-For: 6.6.6.6"}},
			" gets 100 %\nchosen     p1, spliced\ndecided    in the kernel: host and path are in its tables, by prefix \"\"\n"},
		"redirected": {Question{URL: "http://a:81/", Client: client},
			" gets 100 %\nchosen     w1, redirected to http://10.2.1.1:80\ndecided    in user space: mode redirect reads requests from a socket\n"},
		"mode proxy": {Question{URL: "http://a:82/", Client: client}, lines + "chosen     w1, proxied\ndecided    in user space: mode proxy reads requests from a socket\n"},
	} {
		e, err := explained(t, cfg, tt.question, AllUp)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.String(); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s:\n%s\nwant at its end\n%s", name, got, tt.want)
		}
	}
}

func TestExplainRewrite(t *testing.T) {
	const file = `vips:
  - {address: "10.9.9.9:80", interfaces: [eth0], routes: [{match: {path_prefix: /a/}, rewrite: {path_prefix: /b/, host: o}, pool: web}, {rewrite: {path_prefix: /c}, pool: web}]}
  - {address: "10.9.9.9:81", mode: redirect, routes: [{match: {path_prefix: /a/}, rewrite: {path_prefix: /b/}, pool: web}]}
pools:
  web: {surrogates: [{name: w1, address: "10.2.1.1:80"}]}
`
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		question Question
		want     string // the end
	}{
		"in the kernel": {Question{URL: "http://h/a/x?q"}, "\nrewritten  /b/x?q, host o\nchosen     w1, spliced\ndecided    in the kernel: host and path are in its tables, by prefix \"/a/\"\n"},
		"in front":      {Question{URL: "http://h:80/x"}, "\nrewritten  /c/x, host h:80\nchosen     w1, spliced\ndecided    in the kernel: host and path are in its tables, by prefix \"\"\n"},
		"another method": {Question{URL: "http://h/x", Method: "PATCH"}, "\nrewritten  /c/x, host h\nchosen     w1, proxied: the kernel rewrites paths of GET, HEAD, POST, PUT and DELETE alone\n" +
			"decided    in user space: the kernel looks up GET, HEAD, POST, PUT and DELETE alone\n"},
		"redirected": {Question{URL: "http://h:81/a/x"}, "\nrewritten  /b/x, host h:81\nchosen     w1, redirected to http://10.2.1.1:80\ndecided    in user space: mode redirect reads requests from a socket\n"},
	} {
		e, err := explained(t, cfg, tt.question, AllUp)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.String(); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s:\n%s\nwant at its end\n%s", name, got, tt.want)
		}
	}
}
