package route

import (
	"fmt"
	"strings"
	"testing"

	"baton/router/config"
	"baton/router/head"

	"github.com/google/go-cmp/cmp"
)

// pools that every test's file has.
const pools = `
pools:
  a: {surrogates: [{name: a1, address: "10.2.1.1:80"}]}
  b: {surrogates: [{name: b1, address: "10.2.1.2:80"}]}
  c: {surrogates: [{name: c1, address: "10.2.1.3:80"}]}
  query: {policy: hash, hash_query: [id], surrogates: [{name: q1, address: "10.2.1.4:80"}]}
  loop: {surrogates: [{name: l1, address: "127.0.0.1:80"}]}
  six: {surrogates: [{name: x1, address: "[2001:db8::1]:80"}]}
`

func compile(t *testing.T, vips string) *Table {
	t.Helper()
	cfg, err := config.Parse("f", []byte("vips:\n"+vips+pools))
	if err != nil {
		t.Fatalf("%v in:\n%.2000s", err, vips)
	}
	table, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func vipOf(routes ...string) string {
	return `  - {address: "10.9.9.9:80", interfaces: [eth0], routes: [` + strings.Join(routes, ", ") + "]}\n"
}

func request(t testing.TB, method, target, host string, headers ...string) *head.Request {
	t.Helper()
	in := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, target, host, strings.Join(append(headers, ""), "\r\n"))
	r, _, err := head.Parse([]byte(in))
	if err != nil {
		t.Fatalf("%v: %q", err, in)
	}
	return &r
}

func TestMatchConditions(t *testing.T) {
	tests := []struct {
		name, match          string
		method, target, host string
		headers              []string
		want                 bool
	}{
		{"host", "host: a.net", "GET", "/", "A.net:80", nil, true},
		{"other host", "host: a.net", "GET", "/", "b.a.net", nil, false},
		{"name below", "host: '*.a.net'", "GET", "/", "x.y.a.net", nil, true},
		{"not the name itself", "host: '*.a.net'", "GET", "/", "a.net", nil, false},
		{"not an empty name below", "host: '*.a.net'", "GET", "/", ".a.net", nil, false},
		{"not the end of another name", "host: '*.a.net'", "GET", "/", "xa.net", nil, false},
		{"prefix", "path_prefix: /v/", "GET", "/v/x", "a", nil, true},
		{"prefix is the whole path", "path_prefix: /v/", "GET", "/v/", "a", nil, true},
		{"path shorter than the prefix", "path_prefix: /v/", "GET", "/v", "a", nil, false},
		{"prefix does not reach into the query", "path_prefix: /v/", "GET", "/v?/", "a", nil, false},
		{"prefix before a query", "path_prefix: /v", "GET", "/v?x", "a", nil, true},
		{"prefix is raw", "path_prefix: /v", "GET", "/%76", "a", nil, false},
		{"prefix has case", "path_prefix: /v", "GET", "/V", "a", nil, false},
		{"prefix of an absolute target", "path_prefix: /v", "GET", "http://a/v", "a", nil, true},
		{"host of an absolute target", "host: b", "GET", "http://b/", "a", nil, true},
		{"no path of an asterisk", "path_prefix: /", "OPTIONS", "*", "a", nil, false},
		{"regex anywhere", `path_regex: 'b\.mp4'`, "GET", "/a/b.mp4x", "a", nil, true},
		{"regex not on the query", `path_regex: 'b$'`, "GET", "/a?b", "a", nil, false},
		{"method", "methods: [GET, HEAD]", "HEAD", "/", "a", nil, true},
		{"other method", "methods: [GET, HEAD]", "PUT", "/", "a", nil, false},
		{"header", "headers: [{name: X-Device, value: tv}]", "GET", "/", "a", []string{"x-device:  tv "}, true},
		{"header on its second line", "headers: [{name: x, value: tv}]", "GET", "/", "a", []string{"X: a", "X: tv"}, true},
		{"value has case", "headers: [{name: x, value: tv}]", "GET", "/", "a", []string{"X: TV"}, false},
		{"header is there", "headers: [{name: x}]", "GET", "/", "a", []string{"X:"}, true},
		{"header is not", "headers: [{name: x}]", "GET", "/", "a", nil, false},
		{"header regex", "headers: [{name: cookie, regex: 'beta=1'}]", "GET", "/", "a", []string{"Cookie: a=b; beta=1"}, true},
		{"header regex, not", "headers: [{name: cookie, regex: '^beta=1'}]", "GET", "/", "a", []string{"Cookie: a=b; beta=1"}, false},
		{"two headers, one fails", "headers: [{name: x}, {name: y}]", "GET", "/", "a", []string{"X: 1"}, false},
		{"all at once", "host: a, path_prefix: /v, path_regex: 4, methods: [PUT], headers: [{name: x}]", "PUT", "/v4", "a", []string{"X: 1"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := compile(t, vipOf("{match: {"+tt.match+"}, pool: a}"))
			_, got := table.Match(0, request(t, tt.method, tt.target, tt.host, tt.headers...))
			if got != tt.want {
				t.Errorf("Match = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMatchFirstWins(t *testing.T) {
	table := compile(t, vipOf(
		"{match: {host: a.net, path_prefix: /v}, pool: b}", "{match: {path_prefix: /v}, pool: c}", "{match: {methods: [GET]}, pool: a}"))
	got, ok := table.Match(0, request(t, "GET", "/v/1", "b.net"))
	want := Result{Route: 1, Line: 2, Pool: 2, PoolName: "c", Reason: "path_prefix /v"}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("Match = %v (-want +got):\n%s", ok, diff)
	}
	misses, count := table.Misses(0, request(t, "GET", "/v/1", "b.net"), 10)
	if diff := cmp.Diff([]Miss{{Route: 0, Line: 2, Why: "no match on host"}}, misses); diff != "" || count != 1 {
		t.Errorf("%d misses (-want +got):\n%s", count, diff)
	}
	if got, ok := table.Match(0, request(t, "PUT", "/x", "b.net")); ok {
		t.Errorf("Match = %+v, want none", got)
	}
	if first, count := table.Misses(0, request(t, "PUT", "/x", "b.net"), 2); count != 3 || len(first) != 2 {
		t.Errorf("%d misses, %+v first, want 3 and 2", count, first)
	}
}

func TestCompileRefusesUnknownPool(t *testing.T) {
	_, err := Compile(&config.Config{File: "f", VIPs: []config.VIP{{Routes: []config.Route{{Pool: "x", Line: 3}}}}})
	if err == nil || !strings.Contains(err.Error(), `f:3: no pool "x"`) {
		t.Errorf("Compile = %v, want no pool", err)
	}
}

// TestKernelUpcalls tests each reason for an upcall, and that there are no others.
func TestKernelUpcalls(t *testing.T) {
	long := "/" + strings.Repeat("x", MaxKernelPrefix)
	longHost := strings.Repeat("h", MaxKernelHost) + ".net"
	catchAll := "{pool: c}"
	tests := []struct {
		name         string
		routes       []string
		target, host string
		want         string // reason, "" for a decision
	}{
		{"static", []string{"{match: {host: a, path_prefix: /v}, pool: b}", catchAll}, "/v", "a", ""},
		{"headers", []string{"{match: {headers: [{name: x}]}, pool: b}", catchAll}, "/", "a", "matches headers"},
		{"headers behind a route that matches", []string{"{match: {path_prefix: /v}, pool: a}", "{match: {headers: [{name: x}]}, pool: b}", catchAll}, "/v", "a", ""},
		{"headers below a prefix", []string{"{match: {path_prefix: /v, headers: [{name: x}]}, pool: b}", catchAll}, "/v/", "a", "matches headers"},
		{"headers beside the prefix", []string{"{match: {path_prefix: /v, headers: [{name: x}]}, pool: b}", catchAll}, "/w", "a", ""},
		{"regex", []string{"{match: {path_regex: '4$'}, pool: b}", catchAll}, "/", "a", "matches by path_regex"},
		{"anchored regex", []string{"{match: {path_regex: '^/v/.*4$'}, pool: b}", catchAll}, "/v/x", "a", "matches by path_regex"},
		{"beside an anchored regex", []string{"{match: {path_regex: '^/v/.*4$'}, pool: b}", catchAll}, "/w/4", "a", ""},
		{"anchored regex without case", []string{"{match: {path_regex: '(?i)^/v/'}, pool: b}", catchAll}, "/V/", "a", "matches by path_regex"},
		{"alternatives are not anchored", []string{"{match: {path_regex: '^/v/|w'}, pool: b}", catchAll}, "/w", "a", "matches by path_regex"},
		{"regex that never goes with its prefix", []string{"{match: {path_prefix: /a, path_regex: '^/b'}, pool: b}", catchAll}, "/a", "a", ""},
		{"wildcard host", []string{"{match: {host: '*.net'}, pool: b}", catchAll}, "/", "x.net", "matches host *.net"},
		{"wildcard that a known host matches", []string{"{match: {host: '*.net', path_prefix: /v}, pool: b}", "{match: {host: x.net}, pool: a}", catchAll}, "/v", "x.net", ""},
		{"host longer than the kernel looks up", []string{"{match: {host: " + longHost + "}, pool: b}", catchAll}, "/", longHost, "matches host"},
		{"prefix longer than the kernel looks at", []string{"{match: {path_prefix: " + long + "}, pool: b}", catchAll}, long, "a", "more than 128 bytes"},
		{"prefix of just what the kernel looks at", []string{"{match: {path_prefix: " + long[:MaxKernelPrefix] + "}, pool: b}", catchAll}, long, "a", ""},
		{"no route", []string{"{match: {path_prefix: /v}, pool: b}"}, "/w", "a", "no route matches for certain"},
		{"query hash", []string{"{pool: query}"}, "/", "a", "hashes query parameters"},
		{"loopback surrogate", []string{"{pool: loop}"}, "/", "a", "on loopback"},
		{"surrogate of another family", []string{"{pool: six}"}, "/", "a", "another address family"},
		{"absolute target", []string{catchAll}, "http://a/", "a", "not a path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := compile(t, vipOf(tt.routes...))
			k := table.Kernel(RoomOf(MaxHosts))
			r := request(t, "GET", tt.target, tt.host)
			got := k.Lookup(0, r)
			if got.Upcall != (tt.want != "") || !strings.Contains(got.Why, tt.want) {
				t.Fatalf("Lookup = %+v, want Upcall because %q", got, tt.want)
			}
			if want, ok := table.Match(0, r); !got.Upcall && (!ok || int(got.Pool) != want.Pool) {
				t.Errorf("Lookup = pool %d, Match = %+v, %v", got.Pool, want, ok)
			}
		})
	}
}

func TestKernelKnowsFiveMethods(t *testing.T) {
	table := compile(t, vipOf("{match: {methods: [POST, PATCH]}, pool: a}", "{pool: b}"))
	k := table.Kernel(RoomOf(MaxHosts))
	for method, want := range map[string]struct {
		id     uint8
		pool   uint16
		upcall bool
	}{
		"GET": {1, 1, false}, "HEAD": {2, 1, false}, "POST": {3, 0, false}, "PUT": {4, 1, false}, "DELETE": {5, 1, false},
		"PATCH": {0, 0, true}, "OPTIONS": {0, 0, true}, "get": {0, 0, true},
	} {
		if got := MethodID([]byte(method)); got != want.id {
			t.Errorf("MethodID(%s) = %d, want %d", method, got, want.id)
		}
		got := k.Lookup(0, request(t, method, "/", "a"))
		if got.Upcall != want.upcall || got.Pool != want.pool {
			t.Errorf("Lookup(%s) = %+v, want pool %d, upcall %v", method, got, want.pool, want.upcall)
		}
	}
}
