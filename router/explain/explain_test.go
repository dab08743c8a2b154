package explain

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/router/choose"
	"baton/router/config"

	"github.com/google/go-cmp/cmp"
)

const file = `vips:
  - address: "10.9.9.9:80"
    interfaces: [eth0]
    routes:
      - {match: {host: cdn.example.net, path_prefix: /video/, methods: [GET]}, pool: video}
      - {match: {headers: [{name: X-Beta, value: "1"}]}, pool: least}
      - {match: {host: cdn.example.net, path_prefix: /near/}, pool: near}
      - {match: {host: cdn.example.net}, pool: heavy}
      - {match: {host: loop.net}, pool: loop}
  - address: "[2001:db8::9]:8080"
    mode: redirect
    routes: [{pool: loop}]
pools:
  video: {policy: hash, surrogates: [{name: v1, address: "10.2.1.1:80"}, {name: v2, address: "10.2.1.2:80"}]}
  least: {policy: least-sessions, surrogates: [{name: l1, address: "10.2.2.1:80"}, {name: l2, address: "10.2.2.2:80"}, {name: l3, address: "10.2.2.3:80"}]}
  near:
    policy: nearest
    nearest: [{prefix: 192.0.2.0/24, surrogates: [n2, n1]}]
    surrogates: [{name: n1, address: "10.2.3.1:80"}, {name: n2, address: "10.2.3.2:80"}]
  heavy: {policy: weighted, surrogates: [{name: h1, address: "10.2.4.1:80", weight: 3}, {name: h2, address: "10.2.4.2:80"}, {name: h3, address: "10.2.4.3:80", weight: 0}]}
  loop: {surrogates: [{name: o1, address: "127.0.0.1:80", public: "http://o1.example.net"}]}
`

func parse(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// explained compiles a configuration and explains a request.
func explained(t *testing.T, cfg *config.Config, q Question, health func(string) Health) (*Explanation, error) {
	t.Helper()
	rules, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rules.Explain(q, health)
}

func TestExplain(t *testing.T) {
	health := map[string]Health{
		"l1": {Up: true, Sessions: 4}, "l2": {Up: true, Sessions: 2}, "l3": {Up: true, Sessions: 2},
		"n2": {Up: false, Why: "connection refused", Sessions: 0},
	}
	known := func(name string) Health {
		if h, ok := health[name]; ok {
			return h
		}
		return AllUp(name)
	}
	tests := []struct {
		name     string
		question Question
		want     string
	}{
		{"a header, in user space, fewest sessions", Question{URL: "http://x.net/", Headers: []string{"X-Beta: 1"}}, `
request    GET /, host x.net
vip        10.9.9.9:80, mode handoff, pipelining hold
           not the route on line 5: no match on host
route      line 6: header X-Beta = 1
pool       least, policy least-sessions, reuse always
           l1 (10.2.2.1:80) is not chosen, 4 sessions
           l2 (10.2.2.2:80) gets 50 %, 2 sessions
           l3 (10.2.2.3:80) gets 50 %, 2 sessions
chosen     in turn l2, l3, spliced
decided    in user space: the route on line 6 matches headers
`},
		{"nearest, the best is down", Question{URL: "cdn.example.net/near/x", Client: netip.MustParseAddr("192.0.2.7")}, `
request    GET /near/x, host cdn.example.net
client     192.0.2.7
vip        10.9.9.9:80, mode handoff, pipelining hold
           not the route on line 5: no match on path_prefix
           not the route on line 6: no match on headers
route      line 7: host cdn.example.net, path_prefix /near/
pool       near, policy nearest, zone 192.0.2.0/24, reuse always
           n1 (10.2.3.1:80) gets 100 %
           n2 (10.2.3.2:80) cannot be chosen: down: connection refused
chosen     n1, spliced
decided    in user space: the route on line 6 matches headers
`},
		{"weighted", Question{Method: "PUT", URL: "http://10.9.9.9/video/x", Headers: []string{"Host: cdn.example.net"}}, `
request    PUT /video/x, host cdn.example.net
vip        10.9.9.9:80, mode handoff, pipelining hold
           not the route on line 5: no match on methods
           not the route on line 6: no match on headers
           not the route on line 7: no match on path_prefix
route      line 8: host cdn.example.net
pool       heavy, policy weighted, reuse always
           h1 (10.2.4.1:80) gets 75 %
           h2 (10.2.4.2:80) gets 25 %
           h3 (10.2.4.3:80) cannot be chosen: weight 0
chosen     in turn h1, h2, spliced
decided    in user space: the route on line 6 matches headers
`},
		{"loopback", Question{URL: "http://loop.net"}, `
chosen     o1, proxied: the surrogate is on loopback
decided    in user space: the route on line 6 matches headers
`},
		{"redirect, by the VIP's address", Question{URL: "http://[2001:db8::9]:8080/a"}, `
request    GET /a, host [2001:db8::9]
vip        [2001:db8::9]:8080, mode redirect
route      line 12: every request
pool       loop, policy round-robin
           o1 (127.0.0.1:80) gets 100 %
chosen     o1, redirected to http://o1.example.net
decided    in user space: mode redirect reads requests from a socket
`},
		{"no route", Question{URL: "http://other.net/"}, `
answer     404: no route matches
decided    in user space: no route matches
`},
		{"two expectations", Question{URL: "http://a/", Headers: []string{"Expect: 100-continue, x"}}, `
answer     417: expectation is not 100-continue
decided    in user space: the request is refused before it is routed
`},
		{"a host and something else", Question{URL: "http://10.9.9.9/", Headers: []string{"Host: cdn.example.net:80@evil"}}, `
answer     400: Host is not a host and port
decided    in user space: the request is refused before it is routed
`},
		{"refused", Question{URL: "http://a/b%4"}, `
request    GET http://a/b%4
vip        10.9.9.9:80, mode handoff, pipelining hold
answer     400: path has a % that begins no escape
decided    in user space: the request is refused before it is routed
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := explained(t, parse(t), tt.question, known)
			if err != nil {
				t.Fatal(err)
			}
			text := "\n" + e.String()
			if !strings.HasSuffix(text, tt.want) {
				t.Errorf("explanation (-want +got):\n%s", cmp.Diff(tt.want, text))
			}
		})
	}
}

func TestExplainInTheKernel(t *testing.T) {
	e, err := explained(t, parse(t), Question{URL: "http://CDN.example.net:80/video/a.mp4?t=1#x"}, AllUp)
	if err != nil {
		t.Fatal(err)
	}
	want := &Explanation{
		Request: "GET /video/a.mp4?t=1, host cdn.example.net", VIP: "10.9.9.9:80", Mode: config.Handoff, Pipelining: config.PipeliningHold,
		Route: &Route{Line: 5, Match: "host cdn.example.net, path_prefix /video/, methods GET"},
		Pool:  "video", Policy: config.Hash, Reuse: config.ReuseAlways,
		Key:    fmt.Sprintf("hash %016x of the path", choose.HashPath([]byte("/video/a.mp4"))),
		Action: "spliced", Decides: "kernel", Because: `host and path are in its tables, by prefix "/video/"`,
		Candidates: []Candidate{
			{Name: "v1", Address: "10.2.1.1:80", Weight: 1, Sessions: -1, Share: 0},
			{Name: "v2", Address: "10.2.1.2:80", Weight: 1, Sessions: -1, Share: 0},
		},
	}
	table := choose.Table(config.Hash, choose.Candidates(&parse(t).Pools[0], func(string) (bool, bool) { return true, false }))
	i, _ := choose.Slot(table, choose.HashPath([]byte("/video/a.mp4")))
	want.Candidates[i].Share, want.Chosen = 1, []string{want.Candidates[i].Name}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("Explain (-want +got):\n%s", diff)
	}
}

// TestExplainHosts: case, port and one dot at the end do not count; what the kernel does not read is decided in
// user space.
func TestExplainHosts(t *testing.T) {
	for host, because := range map[string]string{
		"cdn.example.net": "in its tables", "CDN.Example.net.:80": "in its tables",
		"cdn.example.net.": "in its tables", "cdn.example.net:000080": "its Host is more than",
	} {
		e, err := explained(t, parse(t), Question{URL: "http://10.9.9.9/video/a.mp4", Headers: []string{"Host: " + host}}, AllUp)
		if err != nil {
			t.Fatal(err)
		}
		if e.Pool != "video" || !strings.Contains(e.Because, because) {
			t.Errorf("%s: pool %q, because %q; want video, because %q", host, e.Pool, e.Because, because)
		}
	}
}

// TestExplainWhoIsProxied: a pool with an unspliceable surrogate is decided in user space, and only that surrogate is proxied.
func TestExplainWhoIsProxied(t *testing.T) {
	const file = `vips:
  - {address: "10.9.9.9:80", interfaces: [eth0], routes: [{match: {host: a}, pool: both}, {match: {host: b}, pool: own}, {match: {host: c}, pool: turns}, {pool: far}]}
  - {address: "[2001:db8::9]:80", interfaces: [eth0], routes: [{pool: far}]}
  - {address: "127.0.0.1:81", interfaces: [lo], routes: [{pool: far}]}
pools:
  far: {surrogates: [{name: f1, address: "10.2.1.1:80"}]}
  both: {surrogates: [{name: b1, address: "10.2.1.1:80"}, {name: b2, address: "[2001:db8::1]:80"}]}
  own: {surrogates: [{name: o1, address: "10.2.1.9:80"}]}
  turns: {surrogates: [{name: t1, address: "10.2.1.9:80"}, {name: t2, address: "10.2.1.1:80"}]}
`
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	health := func(name string) Health { return Health{Up: true, Local: name == "o1" || name == "t1", Sessions: -1} }
	for _, tt := range []struct{ url, decides, because, action string }{
		{"http://x/", inKernel, "in its tables", "spliced"},
		{"http://a/", userSpace, "b2 of pool both can only be proxied: the surrogate is of another address family", "spliced or proxied, by the surrogate"},
		{"http://b/", userSpace, "o1 of pool own can only be proxied: it is on this host", "proxied: the surrogate is on this host"},
		{"http://c/", userSpace, "t1 of pool turns can only be proxied: it is on this host", "spliced or proxied, by the surrogate"},
		{"http://[2001:db8::9]/", userSpace, "f1 of pool far can only be proxied", "proxied: the surrogate is of another address family than the VIP"},
		{"http://127.0.0.1:81/", userSpace, "the VIP is on loopback", "proxied: the VIP is on loopback"},
	} {
		e, err := explained(t, cfg, Question{URL: tt.url}, health)
		if err != nil {
			t.Fatal(err)
		}
		if e.Decides != tt.decides || !strings.Contains(e.Because, tt.because) || e.Action != tt.action {
			t.Errorf("%s: %q because %q: %q, want %q because %q: %q", tt.url, e.Decides, e.Because, e.Action, tt.decides, tt.because, tt.action)
		}
	}
}

func TestExplainAllDown(t *testing.T) {
	e, err := explained(t, parse(t), Question{URL: "http://cdn.example.net/video/a"}, func(string) Health { return Health{Why: "timeout"} })
	if err != nil {
		t.Fatal(err)
	}
	if e.Status != 503 || len(e.Chosen) != 0 || len(e.Candidates) != 2 || e.Candidates[0].Excluded != "down: timeout" {
		t.Errorf("explanation:\n%s", e)
	}
}

// TestExplainHashIsTheRoutersChoice: explain names the table's choice, so losing it names another.
func TestExplainHashIsTheRoutersChoice(t *testing.T) {
	chosen := make(map[string]int)
	for _, path := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"} {
		q := Question{URL: "http://cdn.example.net/video/" + path}
		e, err := explained(t, parse(t), q, AllUp)
		if err != nil {
			t.Fatal(err)
		}
		lost := e.Chosen[0]
		chosen[lost]++
		after, err := explained(t, parse(t), q, func(name string) Health { return Health{Up: name != lost} })
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(after.Chosen, lost) || len(after.Chosen) != 1 {
			t.Errorf("%s is down and %v is chosen", lost, after.Chosen)
		}
	}
	if len(chosen) != 2 {
		t.Errorf("16 paths went to %v, want both surrogates", chosen)
	}
}

func TestExplainRefusesTheQuestion(t *testing.T) {
	tests := []struct {
		name     string
		question Question
		want     string
	}{
		{"ftp", Question{URL: "ftp://a/"}, "neither an http nor an https URL"},
		{"https", Question{URL: "https://a/"}, "no VIP is at port 443 for https (there is 10.9.9.9:80, [2001:db8::9]:8080)"},
		{"no host", Question{URL: "/a"}, "has no host"},
		{"no such VIP", Question{URL: "http://10.9.9.8/"}, "no VIP is at 10.9.9.8:80 (there is 10.9.9.9:80, [2001:db8::9]:8080)"},
		{"no such port", Question{URL: "http://a:81/"}, "no VIP is at port 81"},
		{"bad port", Question{URL: "http://a:x/"}, "has no valid port"},
		{"header without colon", Question{URL: "http://a/", Headers: []string{"X"}}, "not Name: value"},
		{"line break", Question{URL: "http://a/", Headers: []string{"X: a\r\nY: b"}}, "line break"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := explained(t, parse(t), tt.question, AllUp)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Explain = %v, %v, want an error with %q", e, err, tt.want)
			}
		})
	}
}

func TestExplanationAsJSON(t *testing.T) {
	e, err := explained(t, parse(t), Question{URL: "http://cdn.example.net/near/x", Client: netip.MustParseAddr("192.0.2.7")}, AllUp)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back Explanation
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, &back); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
	for _, key := range []string{`"vip":"10.9.9.9:80"`, `"line":7`, `"chosen":["n2"]`, `"decides":"user space"`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("no %s in %s", key, text)
		}
	}
}

// TestExplainKeep: sessions that keep their clients' addresses are decided in user space, and never proxied.
func TestExplainKeep(t *testing.T) {
	cfg, err := config.Parse("f", []byte(`vips: [{address: "10.9.9.9:80", interfaces: [eth0], routes: [{pool: p}]}]
pools: {p: {source: keep, surrogates: [{name: s, address: "10.2.1.2:80"}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for local, want := range map[bool]string{
		false: "spliced, from the client's address and port",
		true:  "refused: the surrogate is on this host, and cannot be reached from the client's address",
	} {
		got, err := explained(t, cfg, Question{URL: "http://10.9.9.9/"}, func(string) Health { return Health{Up: true, Local: local} })
		if err != nil {
			t.Fatal(err)
		}
		if got.Action != want || got.Decides != userSpace || got.Because != "pool p keeps clients' addresses: a leg is opened for each client" {
			t.Errorf("local %t: %+v", local, got)
		}
	}
}
