package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// servePoisoned runs a surrogate that closes the connection on /close, sends something else than HTTP on /garbage, and whose
// firewall resets requests for /poison.
func servePoisoned(t *testing.T, s *site) {
	t.Helper()
	s.Lab().Need("nft")
	// after a TCP header with timestamps
	rule := fmt.Sprintf("table inet poison { chain in { type filter hook input priority 0; tcp dport 80 @th,256,88 0x%x reject with tcp reset; }; }", "GET /poison")
	ctx, cancel := context.WithTimeout(t.Context(), answersWithin)
	defer cancel()
	if out, err := s.Exec(ctx, "nft", rule); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	handle(t, s.Host, 80, func(c *net.TCPConn) {
		r := bufio.NewReader(c)
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			switch path := strings.Fields(string(head))[1]; path {
			case "/close":
				return
			case "/garbage":
				_, _ = io.WriteString(c, "no answer of HTTP\r\n\r\n")
				return
			default:
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s: %s\r\nContent-Length: 2\r\n\r\nok", peers.Header, s.name)
			}
		}
	})
}

// TestClientsTakeNothingDown repeats requests that surrogates end without a response: that must not take them down.
func TestClientsTakeNothingDown(t *testing.T) {
	n := newNetwork(t)
	a, b := n.site("a", lab.LinkOptions{}), n.site("b", lab.LinkOptions{})
	servePoisoned(t, a)
	servePoisoned(t, b)
	const proxied = "10.9.9.11:80"
	r := n.start(fmt.Sprintf(`vips:
  - {address: %q, interfaces: [%s], routes: [{match: {host: checked.test}, pool: checked}, {pool: unchecked}]}
  - {address: %q, mode: proxy, routes: [{match: {host: checked.test}, pool: checked}, {pool: unchecked}]}
pools:
  checked: {health: {path: /, interval: 500ms, timeout: 400ms}, surrogates: [{name: a-checked, address: %q}, {name: b-checked, address: %[5]q}]}
  unchecked: {surrogates: [{name: a, address: %[4]q}, {name: b, address: %q}]}
`, vip4, n.front.Name, proxied, a.v4, b.v4))
	for _, tt := range []struct{ name, vip, path string }{
		{"reset before it was read", vip4, "/poison"},
		{"closed, proxied", proxied, "/close"},
		{"garbage, proxied", proxied, "/garbage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, host := range []string{"checked.test", "a.test"} {
				for range 20 {
					c := n.open(t, tt.vip)
					if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", tt.path, host); err != nil {
						t.Fatal(err)
					}
					_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
					_, _ = io.ReadAll(c.r)
					c.Close()
				}
				for range 4 {
					got, err := n.open(t, vip4).get(host, "/")
					if err != nil || got.StatusCode != 200 || got.body != "ok" {
						t.Errorf("%s, others meanwhile: %+v %v", host, got.Response, err)
					}
				}
			}
		})
	}
	metrics := r.metrics()
	failed, down := 0.0, 0.0
	for name, value := range metrics {
		switch {
		case strings.Contains(name, "handoffs_failed_total"), strings.Contains(name, "fallback_surrogate_failures_total"):
			failed += value
		case strings.Contains(name, "transitions_total") && strings.Contains(name, `phase="down"`):
			down += value
		}
	}
	if failed < 40 {
		t.Errorf("%v failures were counted: the test does not test", failed)
	}
	if down > 0 {
		t.Errorf("surrogates were taken down %v times:\n%s", down, r.Log())
	}
}
