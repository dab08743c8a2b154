package test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"baton/api"
	"baton/lab"
	"baton/router/outcome"
)

// TestExplainIsWhatHappens explains a request, makes it, and compares. Surrogates are in all possible places: on the router's
// host, on loopback, of the other family, mixed in one pool.
func TestExplainIsWhatHappens(t *testing.T) {
	n := newNetwork(t)
	far := n.site("far", lab.LinkOptions{})
	serve(t, far.Host, far.name)
	n.router.Interface("lo").Address("10.5.0.7/32")
	n.router.Interface("lo").Address("fd05::7/128")
	for name, at := range map[string]string{
		"own": "10.5.0.7:8080", "own6": "[fd05::7]:8080", "side": "10.2.1.1:8080", "loop": "127.0.0.1:8080",
	} {
		l, err := n.router.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: &origin{name: name}}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
	}
	long := strings.Repeat("h", 58) + ".test" // as long as the kernel looks up
	r := n.start(fmt.Sprintf(`vips:
  - address: %q
    interfaces: [%[2]s]
    routes:
      - {match: {host: own.test}, pool: own}
      - {match: {host: side.test}, pool: side}
      - {match: {host: loop.test}, pool: loop}
      - {match: {host: six.test}, pool: six}
      - {match: {host: turns.test}, pool: turns}
      - {match: {host: both.test}, pool: both}
      - {match: {host: hash.test}, pool: hash}
      - {match: {host: query.test}, pool: query}
      - {match: {host: %[5]s}, pool: far}
      - {match: {path_prefix: /x, headers: [{name: X-Far}]}, pool: far}
      - {match: {path_prefix: /far}, pool: far}
  - {address: %[3]q, interfaces: [%[2]s], routes: [{match: {host: own.test}, pool: own6}, {pool: six-only}]}
  - {address: "10.9.9.10:80", interfaces: [%[2]s], routes: [{match: {host: x.test}, pool: far}, {pool: far}]}
pools:
  far: {surrogates: [{name: far, address: %[4]q}]}
  own: {surrogates: [{name: own, address: "10.5.0.7:8080"}]}
  own6: {surrogates: [{name: own6, address: "[fd05::7]:8080"}]}
  side: {surrogates: [{name: side, address: "10.2.1.1:8080"}]}
  loop: {surrogates: [{name: loop, address: "127.0.0.1:8080"}]}
  six: {surrogates: [{name: six, address: %[6]q}]}
  six-only: {surrogates: [{name: six-only, address: %[6]q}]}
  turns: {surrogates: [{name: turns-far, address: %[4]q}, {name: turns-own, address: "10.5.0.7:8080"}]}
  both: {surrogates: [{name: both-far, address: %[4]q}, {name: both-six, address: %[6]q}]}
  hash: {policy: hash, surrogates: [{name: hash, address: %[4]q}]}
  query: {policy: hash, hash_query: [id], surrogates: [{name: query, address: %[4]q}]}
`, vip4, n.front.Name, vip6, far.v4, long, far.v6))
	client := api.NewClient(r.socket)
	defer client.Close()

	for _, tt := range []struct {
		name, vip, method, host, path, headers string
		times                                  int
		kernel                                 bool
		want                                   string // of the sorted surrogates that answer
		spliced, proxied                       int
	}{
		{"in the kernel", vip4, "GET", "a.test", "/far", "", 3, true, "far", 3, 0},
		{"in the kernel, IPv6", vip6, "GET", "a.test", "/x", "", 3, true, "far", 3, 0},
		{"longest host", vip4, "GET", long, "/x", "", 1, true, "far", 1, 0},
		{"longer host", vip4, "GET", "h" + long, "/far", "", 1, false, "far", 1, 0},
		{"longer host where all are one", "10.9.9.10:80", "GET", "h" + long, "/x", "", 1, true, "far", 1, 0},
		{"address in brackets", vip4, "GET", "[fd09::9]", "/far", "", 1, false, "far", 1, 0},
		{"method", vip4, "OPTIONS", "a.test", "/far", "", 1, false, "far", 1, 0},
		{"header", vip4, "GET", "a.test", "/x", "X-Far: 1", 1, false, "far", 1, 0},
		{"options of the connection", vip4, "GET", "a.test", "/far", "Connection: TE", 1, false, "far", 1, 0},
		{"closing", vip4, "GET", "a.test", "/far", "Connection: close", 1, true, "far", 1, 0},
		{"long head", vip4, "GET", "a.test", "/far", "X: " + strings.Repeat("x", 2048), 1, false, "far", 1, 0},
		{"hashed path", vip4, "GET", "hash.test", "/" + strings.Repeat("x", 1022), "", 1, true, "far", 1, 0},
		{"path too long to hash", vip4, "GET", "hash.test", "/" + strings.Repeat("x", 1023), "", 1, false, "far", 1, 0},
		{"hashed query", vip4, "GET", "query.test", "/?id=1", "", 1, false, "far", 1, 0},
		{"surrogate on the router's own host", vip4, "GET", "own.test", "/x", "", 2, false, "own", 0, 2},
		{"surrogate on the router's own host, IPv6", vip6, "GET", "own.test", "/x", "", 2, false, "own6", 0, 2},
		{"surrogate on the router's interface", vip4, "GET", "side.test", "/x", "", 2, false, "side", 0, 2},
		{"surrogate on loopback", vip4, "GET", "loop.test", "/x", "", 2, false, "loop", 0, 2},
		{"surrogate of the other family", vip4, "GET", "six.test", "/x", "", 2, false, "far", 0, 2},
		{"one of two on the router's own host", vip4, "GET", "turns.test", "/x", "", 6, false, "far own", 3, 3},
		{"one of two of the other family", vip4, "GET", "both.test", "/x", "", 6, false, "far", 3, 3},
		{"no route", vip4, "GET", "a.test", "/x", "", 1, false, "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := api.RouterQuestion{URL: "http://" + tt.vip + tt.path, Method: tt.method, Headers: []api.RouterHeader{{Name: "Host", Value: tt.host}}}
			request := tt.method + " " + tt.path + " HTTP/1.1\r\nHost: " + tt.host + "\r\n"
			if name, value, ok := strings.Cut(tt.headers, ": "); ok {
				q.Headers = append(q.Headers, api.RouterHeader{Name: name, Value: value})
				request += tt.headers + "\r\n"
			}
			told, err := client.RouterExplain(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			what := strings.Join(told.Steps, "\n")
			if got := told.Where == "kernel"; got != tt.kernel {
				t.Errorf("explained as decided in the kernel: %v, want %v\n%s", got, tt.kernel, what)
			}
			if tt.spliced+tt.proxied > 0 {
				if got := strings.Contains(what, "spliced"); got != (tt.spliced > 0) {
					t.Errorf("explained as spliced: %v, want %d of %d\n%s", got, tt.spliced, tt.times, what)
				}
				if got := strings.Contains(what, " proxied"); got != (tt.proxied > 0) {
					t.Errorf("explained as proxied: %v, want %d of %d\n%s", got, tt.proxied, tt.times, what)
				}
			}
			before, after := n.outcomesOf(t, r, tt.vip, func() {
				answered := make(map[string]int)
				for range tt.times {
					got, err := n.open(t, tt.vip).ask(tt.method, request+"\r\n")
					if err != nil {
						t.Fatal(err)
					}
					answered[got.surrogate]++
				}
				for name := range strings.FieldsSeq(tt.want) {
					if share := tt.times / len(strings.Fields(tt.want)); answered[name] != share {
						t.Errorf("%v answered, want %d by %s", answered, share, name)
					}
				}
			}, map[bool]int{true: 0, false: tt.times}[tt.kernel])
			proxied := 0
			for what, n := range after {
				if outcome.Outcome(what).IsProxied() {
					proxied += n - before[what]
				}
			}
			if proxied != tt.proxied {
				t.Errorf("%d proxied, want %d", proxied, tt.proxied)
			}
			if got := after["spliced"] - before["spliced"]; !tt.kernel && got != tt.spliced {
				t.Errorf("%d spliced by user space, want %d", got, tt.spliced)
			}
		})
	}
	t.Run("bodies to and from the router's own host", func(t *testing.T) {
		for vip, name := range map[string]string{vip4: "own", vip6: "own6"} {
			got, err := n.open(t, vip).get("own.test", "/bytes/1000000")
			got.expect(t, err, name, 200, patternText(1_000_000))
		}
		chunkedUpload(t, n.open(t, vip4), "own", 100_000)
	})
	t.Run("said once at the start, and by status", func(t *testing.T) {
		for _, address := range []net.TCPAddr{{IP: net.IPv4(10, 5, 0, 7), Port: 8080}, {IP: net.IPv4(10, 2, 1, 1), Port: 8080}} {
			var said []string
			for line := range strings.Lines(r.Log()) {
				if strings.Contains(line, "is on this host") && strings.Contains(line, "address="+address.String()) {
					said = append(said, line)
				}
			}
			if want := map[bool]int{true: 2, false: 1}[address.IP.Equal(net.IPv4(10, 5, 0, 7))]; len(said) != want { // for each surrogate there
				t.Errorf("%v is said to be on this host %d times, want %d: %q", &address, len(said), want, said)
			}
		}
		for _, p := range r.status().Pools {
			for _, s := range p.Surrogates {
				local := s.Address.Port() == 8080
				if (s.Proxied != "") != local {
					t.Errorf("status of %s: proxied %q, want that it is said: %v", s.Name, s.Proxied, local)
				}
			}
		}
	})
}

// outcomes counts user space's decisions on a VIP's requests.
func (r *running) outcomes(vip string) map[string]int {
	r.n.t.Helper()
	out := make(map[string]int)
	for name, value := range r.metrics() {
		if strings.HasPrefix(name, "baton_router_decision_duration_seconds_count") && strings.Contains(name, fmt.Sprintf("vip=%q", vip)) {
			_, outcome, _ := strings.Cut(name, `outcome="`)
			outcome, _, _ = strings.Cut(outcome, `"`)
			out[outcome] = int(value)
		}
	}
	return out
}

// outcomesOf are the outcomes of user space's decisions before and after some requests, of which it should decide so many. Where that is none they may be asked
// for again: a surrogate is up a moment before the kernel's tables have it.
func (n *network) outcomesOf(t *testing.T, r *running, vip string, requests func(), want int) (before, after map[string]int) {
	t.Helper()
	err := lab.Poll(answersWithin, func() error {
		if after == nil || want == 0 {
			before = r.outcomes(vip)
			requests()
		}
		after = r.outcomes(vip) // a decision is counted a moment after it is carried out
		byRouter := 0
		for outcome := range after {
			byRouter += after[outcome] - before[outcome]
		}
		if byRouter != want {
			return fmt.Errorf("user space decided %d times, want %d: %v, before %v", byRouter, want, after, before)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return before, after
}
