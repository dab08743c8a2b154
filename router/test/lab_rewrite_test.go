package test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/lab/peers"
)

// rewrites are routes whose surrogate gets another host or path.
var rewrites = fmt.Sprintf(`
      - {match: {host: plain.test, path_prefix: /a}, rewrite: {path_prefix: /b}, pool: p}
      - {match: {host: strip.test, path_prefix: /a/}, rewrite: {path_prefix: /}, pool: p}
      - {match: {host: long.test, path_prefix: /a/}, rewrite: {path_prefix: /%s/}, pool: p}
      - {match: {host: short.test, path_prefix: /%[1]s/}, rewrite: {path_prefix: /s/, host: s}, pool: p}
      - {match: {host: host.test}, rewrite: {host: "origin.test:8080"}, pool: p}
      - {match: {host: front.test}, rewrite: {host: origin.test, path_prefix: /front}, pool: p}
      - {match: {host: regex.test, path_prefix: /v/, path_regex: "[.]mp4$"}, rewrite: {path_prefix: /w/}, pool: p}
      - {match: {host: method.test, methods: [PUT], path_prefix: /a}, rewrite: {path_prefix: /put}, pool: p}
      - {match: {host: method.test, path_prefix: /a}, rewrite: {path_prefix: /get}, pool: p}
      - {pool: p}`, strings.Repeat("l", 100))

// rewritingCase is a request, and what the surrogate gets of it: host and target.
type rewritingCase struct {
	method, target, host, want string
	lines                      string // further ones, and the body
}

func (c *rewritingCase) request() string {
	end := "\r\n"
	if strings.HasPrefix(c.lines, "Content-Length") {
		end = "" // the body's
	}
	if c.host == "" {
		return fmt.Sprintf("%s %s HTTP/1.0\r\nA: b\r\nConnection: keep-alive\r\n%s%s", c.method, c.target, c.lines, end)
	}
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s%s", c.method, c.target, c.host, c.lines, end)
}

var (
	longPart = strings.Repeat("l", 100)
	// splicedRewrites are the kernel's, or user space decides them and the kernel rewrites.
	splicedRewrites = []rewritingCase{
		{"GET", "/a/x", "plain.test", "plain.test /b/x", ""},
		{"GET", "/a", "plain.test", "plain.test /b", ""},
		{"GET", "/a?q=/a", "plain.test", "plain.test /b?q=/a", ""},
		{"GET", "/a/", "plain.test", "plain.test /b/", ""},
		{"GET", "/ab", "PLAIN.test:80", "PLAIN.test:80 /bb", ""},
		{"GET", "/a/%2e%2E/{x}?%7a", "plain.test", "plain.test /b/%2e%2E/{x}?%7a", ""},
		{"GET", "/", "plain.test", "plain.test /", ""},
		{"GET", "/a/", "strip.test", "strip.test /", ""},
		{"GET", "/a/x?", "strip.test", "strip.test /x?", ""},
		{"GET", "/a//x", "strip.test", "strip.test //x", ""},
		{"GET", "/a", "strip.test", "strip.test /a", ""},
		{"DELETE", "/a/x", "long.test", "long.test /" + longPart + "/x", ""},
		{"GET", "/" + longPart + "/x", "short.test", "s /s/x", cookie(1200)},
		{"OPTIONS", "/x", "host.test", "origin.test:8080 /x", ""},
		{"GET", "/x", "host.test", "origin.test:8080 /x", "A: b\r\n"},
		{"GET", "/x?y", "front.test", "origin.test /front/x?y", ""},
		{"GET", "/v/a.mp4", "regex.test", "regex.test /w/a.mp4", ""},
		{"GET", "/v/a.mp3", "regex.test", "regex.test /v/a.mp3", ""},
		{"PUT", "/a/x", "method.test", "method.test /put/x", sized(3000)},
		{"POST", "/a/x", "method.test", "method.test /get/x", sized(5)},
	}
	// proxiedRewrites are the proxy's.
	proxiedRewrites = []rewritingCase{
		{"GET", "/a/x?%zz", "plain.test", "plain.test /b/x?%zz", ""}, // the kernel does not read it, and so cannot change it
		{"PATCH", "/a/x", "plain.test", "plain.test /b/x", ""},
		{"GET", "http://plain.test/a/x?y", "plain.test", "plain.test /b/x?y", ""},
		{"GET", "http://front.test?y", "front.test", "origin.test /front/?y", ""},
		{"GET", "http://plain.test/a", "", "plain.test /b", ""},
		{"POST", "/a/x", "front.test", "origin.test /front/a/x", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"},
		{"GET", "/x", "host.test", "origin.test:8080 /x", "Connection: x-a, keep-alive\r\n"},
		{"GET", "/x", "host.test", "origin.test:8080 /x", cookie(2500)},
	}
)

// TestRewriteAlike: nginx gets the same of a request that is spliced and of one that passes the proxy, over HTTP/1.1, TLS and HTTP/2; and the log
// has what the client sent.
func TestRewriteAlike(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	s := n.site("s", lab.LinkOptions{})
	peers.Nginx(s.Host, peers.NginxOptions{Requests: 100_000, Server: `merge_slashes off; location ~ ^ { return 200 "$http_host $request_uri"; }`})
	ca := peers.NewAuthority(n.Lab)
	certificate, key := ca.Sign("plain.test", "front.test")
	log := filepath.Join(t.TempDir(), "access.log")
	const proxied, spliced6, secure = "10.9.9.10:80", "[fd09::9]:80", "10.9.9.11:443"
	r := n.start(fmt.Sprintf(`log: {access: [{to: file, path: %[1]q}]}
vips:
  - address: %[2]q
    interfaces: [%[3]s]
    routes: &routes%[4]s
  - {address: %[5]q, mode: proxy, routes: *routes}
  - {address: %[6]q, mode: proxy, tls: {certificate: %[7]q, key: %[8]q}, routes: *routes}
  - address: %[9]q
    interfaces: [%[3]s]
    routes:%[10]s
pools:
  p: {surrogates: [{name: a, address: %[11]q}]}
  six: {surrogates: [{name: b, address: %[12]q}]}
`, log, vip4, n.front.Name, rewrites, proxied, secure, certificate, key, spliced6, strings.ReplaceAll(rewrites, "pool: p}", "pool: six}"), s.v4, s.v6))

	sent := make(map[string]int) // host and target
	ask := func(vip string, cases []rewritingCase, kept bool) {
		t.Helper()
		c := n.open(t, vip)
		for i := range cases {
			if !kept {
				c = n.open(t, vip)
			}
			_ = c.SetDeadline(time.Now().Add(answersWithin))
			got, err := c.ask(cases[i].method, cases[i].request())
			if err != nil || got.StatusCode != http.StatusOK || string(got.body) != cases[i].want {
				t.Errorf("%s: %.100q: the surrogate has got %q, want %q (%v)", vip, cases[i].request(), got.body, cases[i].want, err)
			}
			if cases[i].host != "" {
				sent[cases[i].host+" "+cases[i].target]++
			} else {
				sent["plain.test "+cases[i].target]++
			}
		}
	}
	for range 2 { // on a leg that was used before
		ask(vip4, splicedRewrites, true)
		ask(spliced6, splicedRewrites, true)
	}
	for _, vip := range []string{vip4, spliced6} {
		if v := r.fallbacks(vip); v != 0 {
			t.Errorf("%s: %v requests were proxied that should have been spliced", vip, v)
		}
	}
	ask(proxied, splicedRewrites, true)
	ask(proxied, proxiedRewrites, true)
	ask(vip4, proxiedRewrites, false)
	ask(spliced6, proxiedRewrites, false)
	for _, vip := range []string{vip4, spliced6} {
		if v := r.fallbacks(vip); int(v) != len(proxiedRewrites) {
			t.Errorf("%s: %v requests were proxied, want %d", vip, v, len(proxiedRewrites))
		}
	}
	for _, h2 := range []bool{false, true} {
		for url, want := range map[string]string{"https://plain.test/a/x?q": "plain.test /b/x?q", "https://front.test/": "origin.test /front/"} {
			host, target, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
			client, _ := n.secureClient(ca, secure, host, h2)
			got, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(got.Body)
			got.Body.Close()
			if string(body) != want || (got.ProtoMajor == 2) != h2 {
				t.Errorf("%s over %s: the surrogate has got %q, want %q (%v)", url, got.Proto, body, want, err)
			}
			sent[host+" /"+target]++
		}
	}
	all := 0
	for _, count := range sent {
		all += count
	}
	for _, e := range logEntries(t, log, all) {
		sent[e.Host+" "+e.Path]--
	}
	for what, left := range sent {
		if left != 0 {
			t.Errorf("%s is logged %d times too few", what, left)
		}
	}
}

// TestRewriteReloads: while reloads change, remove and bring back a rewrite, each request of kept connections gets one of them as a whole, and one
// that begins after a reload the new one.
func TestRewriteReloads(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	s := n.site("s", lab.LinkOptions{})
	peers.Nginx(s.Host, peers.NginxOptions{Requests: 1_000_000, Server: `location ~ ^ { return 200 "$http_host $request_uri"; }`})
	steps := []struct{ route, host, path string }{ // and what the surrogate gets
		{"", "h.test", "/a/"},
		{"rewrite: {path_prefix: /a/much/longer/prefix/}, ", "h.test", "/a/much/longer/prefix/"},
		{"rewrite: {path_prefix: /, host: o.test}, ", "o.test", "/"},
		{"rewrite: {host: x}, ", "x", "/a/"},
		{"", "h.test", "/a/"},
		{"rewrite: {path_prefix: /b/, host: other.test}, ", "other.test", "/b/"},
	}
	config := func(step int) string {
		return fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{match: {path_prefix: /a/}, %spool: s}]}]\npools: {s: {surrogates: [{name: s, address: %q}]}}\n",
			vip4, n.front.Name, steps[step].route, s.v4)
	}
	r := n.start(config(0))
	var done, inForce, next atomic.Int32 // steps, of which the first is in force for certain and the last may be
	var work errgroup.Group
	for client := range 4 {
		c := n.open(t, vip4)
		work.Go(func() error {
			for i := 0; done.Load() == 0; i++ {
				from := inForce.Load()
				_ = c.SetDeadline(time.Now().Add(answersWithin))
				number := fmt.Sprintf("%d-%d", client, i)
				got, err := c.ask("POST", fmt.Sprintf("POST /a/%s HTTP/1.1\r\nHost: h.test\r\nContent-Length: 5\r\n\r\nhello", number))
				if err != nil {
					return err
				}
				found := false
				for step := from; step <= next.Load(); step++ {
					found = found || string(got.body) == steps[step].host+" "+steps[step].path+number
				}
				if !found {
					return fmt.Errorf("request %s: the surrogate has got %q, between steps %d and %d", number, got.body, from, next.Load())
				}
			}
			return nil
		})
	}
	for step := 1; step < len(steps); step++ {
		time.Sleep(100 * time.Millisecond)
		next.Store(int32(step))
		if said := r.hangup(t, config(step)); !strings.Contains(said, "msg=reloaded") {
			t.Errorf("step %d: %s", step, said)
		}
		inForce.Store(int32(step))
	}
	time.Sleep(100 * time.Millisecond)
	done.Store(1)
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	if left := r.fallbacks(vip4); left != 0 {
		t.Errorf("%v requests were proxied", left)
	}
}
