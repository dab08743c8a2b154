package test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"baton/lab"
)

// TestHeldRequests: where routes differ, pipelined requests are each answered by the pool of their route, in order, and none that
// routes answer with 404 reaches a surrogate, however the client splits them into packets.
func TestHeldRequests(t *testing.T) {
	n := newNetwork(t)
	a, b := n.site("a", lab.LinkOptions{}), n.site("b", lab.LinkOptions{})
	serve(t, a.Host, a.name)
	serve(t, b.Host, b.name)
	r := n.start(fmt.Sprintf(`vips:
  - address: %q
    interfaces: [%s]
    routes:
      - {match: {host: a.test}, pool: a}
      - {match: {host: b.test}, pool: b}
pools:
  a: {surrogates: [{name: a, address: %q}]}
  b: {surrogates: [{name: b, address: %q}]}
`, vip4, n.front.Name, a.v4, b.v4))
	const depth = 30
	for _, size := range []int{1 << 20, 100, 7} { // of what is written at once
		for _, behind := range []bool{false, true} { // another request on the same connection
			t.Run(fmt.Sprintf("%d bytes, behind another %t", size, behind), func(t *testing.T) {
				c := n.open(t, vip4)
				if behind {
					got, err := c.ask("GET", "GET /first HTTP/1.1\r\nHost: b.test\r\n\r\n")
					got.expect(t, err, "b", 200, "b.test /first")
				}
				var all strings.Builder
				for i := range depth {
					fmt.Fprintf(&all, "GET /%d HTTP/1.1\r\nHost: %s.test\r\n\r\n", i, hostOf(i))
				}
				for rest := all.String(); rest != ""; rest = rest[min(size, len(rest)):] {
					if _, err := io.WriteString(c, rest[:min(size, len(rest))]); err != nil {
						t.Fatal(err)
					}
				}
				for i := range depth {
					got, err := c.read("GET")
					if hostOf(i) == "c" {
						if err != nil || got.StatusCode != 404 {
							t.Fatalf("request %d: %v, %v, want 404", i, got.Response, err)
						}
						return // the router closes after it
					}
					got.expect(t, err, hostOf(i), 200, fmt.Sprintf("%s.test /%d", hostOf(i), i))
				}
			})
		}
	}
	t.Run("malformed chunks", func(t *testing.T) {
		c := n.open(t, vip4)
		for _, piece := range []string{"POST /sink HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", "2 xyz\r\n"} {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond) // the session is spliced, and the next piece is a separate packet
		}
		if got, err := c.read("POST"); err != nil || got.StatusCode != 400 || got.Header.Get("Server") != "baton" {
			t.Errorf("%v, %v, want 400 from the router", got.Response, err)
		}
		if r.verdicts()["drop_malformed"] == 0 {
			t.Error("the session was not ended in the kernel")
		}
	})
	if r.verdicts()["drop_early"]+r.verdicts()["assigned"] == 0 {
		t.Error("nothing was held")
	}
}

// hostOf is the request's host: alternately a and b, finally one without a route.
func hostOf(i int) string {
	if i == 29 {
		return "c"
	}
	return []string{"a", "b", "b"}[i%3]
}
