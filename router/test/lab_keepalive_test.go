package test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
	"baton/router/outcome"
)

// splitSessions are the connections of splitRequests to one VIP.
const splitSessions = 8

// TestKeepAlive sends everything that HTTP/1.1 allows on one connection, and verifies the server and each byte of each response.
// The pools have an nginx and our own origins.
func TestKeepAlive(t *testing.T) {
	n := newNetwork(t)
	static := n.site("static", lab.LinkOptions{})
	peers.Nginx(static.Host, peers.NginxOptions{Server: "gzip_types application/octet-stream; gzip_min_length 1; location = /ssi.html { ssi on; }"})
	page := `<p>head<!--#include virtual="/128" -->tail</p>`
	if err := os.WriteFile(filepath.Join(peers.Site(n.Lab), "ssi.html"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	a, b := n.site("a", lab.LinkOptions{}), n.site("b", lab.LinkOptions{})
	serve(t, a.Host, a.name)
	serve(t, b.Host, b.name)
	var vips, pools strings.Builder
	for _, v6 := range []bool{false, true} {
		address := vip4
		if v6 {
			address = vip6
		}
		fmt.Fprintf(&vips, `
  - address: %q
    interfaces: [%s]
    pipelining: pass
    routes:
      - {match: {host: static.test}, pool: static-%[3]v}
      - {match: {path_regex: '^/r[0-9]+/'}, pool: b-%[3]v}
      - {match: {headers: [{name: X-Device, value: phone}]}, pool: b-%[3]v}
      - {match: {headers: [{name: X-Version, regex: '^[2-9]'}]}, pool: b-%[3]v}
      - {match: {methods: [DELETE, PATCH]}, pool: b-%[3]v}
      - {match: {host: b.test}, pool: b-%[3]v}
      - {pool: a-%[3]v}`, address, n.front.Name, v6)
		for _, s := range []*site{static, a, b} {
			fmt.Fprintf(&pools, "\n  %[1]s-%[2]v: {legs: {min: 4, max: 100}, surrogates: [{name: %[1]s-%[2]v, address: %[3]q}]}", s.name, v6, s.address(v6))
		}
	}
	for _, end := range []*lab.Interface{n.front, static.back, a.back, b.back} {
		n.inOrder(end)
	}
	r := n.start("vips:" + vips.String() + "\npools:" + pools.String() + "\n")

	for _, v := range []struct{ name, vip string }{{"IPv4", vip4}, {"IPv6", vip6}} {
		for _, tt := range []struct {
			name string
			run  func(t *testing.T, vip string, n *network)
		}{
			{"alternating pools", alternatingPools},
			{"rules", rules},
			{"framings", framings},
			{"nginx in chunks", nginxChunks},
			{"no body", noBody},
			{"pipelining", pipelining},
			{"pipelining to another pool stays", pipeliningStays},
			{"100-continue", continues},
			{"uploads", uploads},
			{"large heads", largeHeads},
			{"split requests", splitRequests},
			{"HTTP/1.0", oldHTTP},
			{"half-close", halfClose},
			{"random requests", randomRequests},
		} {
			t.Run(v.name+"/"+tt.name, func(t *testing.T) {
				for try := 1; !attempt(func() { tt.run(t, v.vip, n) }); try++ {
					t.Logf("attempt %d met a retransmission", try)
					if try == 5 {
						t.Fatal("no attempt without a retransmission")
					}
				}
			})
		}
	}
	t.Run("nothing was proxied", func(t *testing.T) {
		for name, value := range r.metrics() {
			reason, isReason := strings.CutPrefix(name, `baton_router_proxied_connections_total{reason="`)
			switch {
			case value == 0, !isReason:
			case strings.HasPrefix(reason, string(outcome.Stalled)) && value <= splitSessions:
				t.Logf("%v sessions were proxied whose heads, in pieces, took longer than an idle machine needs", value)
			default:
				t.Errorf("%s %v", name, value)
			}
		}
	})
}

// inOrder processes all packets of an interface on one CPU, as a network card's queue does for a session. Otherwise packets of a
// veth are reordered between CPUs, and reordering within a message may cost its session the routing of later requests: the router
// does not guess where such a message ends.
func (n *network) inOrder(end *lab.Interface) {
	n.t.Helper()
	// ip-netns(8) mounts the namespace's /sys.
	_, err := end.Host.Exec(deadline(n.t), "ip", "netns", "exec", end.Host.Netns(), "sh", "-c",
		"echo 1 > /sys/class/net/"+end.Name+"/queues/rx-0/rps_cpus")
	if err != nil {
		n.t.Fatalf("one processor for %s: %v", end.Name, err)
	}
}

// retransmitted ends an attempt with retransmissions: on a machine too busy to acknowledge in time they have the same effect as
// reordering.
type retransmitted struct{}

// attempt reports whether f completed.
func attempt(f func()) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, ours := v.(retransmitted); !ours {
				panic(v)
			}
			whole = false
		}
	}()
	f()
	return true
}

// open dials the VIP from the client.
func (n *network) open(t *testing.T, vip string) *connection {
	t.Helper()
	c, err := dial(t.Context(), n.client, vip)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// expect fails the test unless the response is this server's, with this status and body.
func (a answer) expect(t *testing.T, err error, surrogate string, status int, body string) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatal(err)
	case a.surrogate != surrogate && a.repeats > 0:
		panic(retransmitted{})
	case a.surrogate != surrogate || a.StatusCode != status:
		t.Fatalf("%d from %q, want %d from %q: %.200q", a.StatusCode, a.surrogate, status, surrogate, a.body)
	case a.body != body:
		t.Fatalf("body of %d bytes, want %d: %.60q", len(a.body), len(body), a.body)
	}
}

func alternatingPools(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	for i := range 40 {
		for _, host := range []string{"a", "b"} {
			path := fmt.Sprintf("/%d/%s", i, strings.Repeat("x", i*20))
			got, err := c.get(host+".test", path)
			got.expect(t, err, host, 200, host+".test "+path)
			size := 1000 * i
			got, err = c.get(host+".test", fmt.Sprintf("/bytes/%d", size))
			got.expect(t, err, host, 200, patternText(size))
		}
		got, err := c.get("static.test", "/16k")
		got.expect(t, err, "static", 200, patternText(16<<10))
	}
}

func rules(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	for _, tt := range []struct{ name, method, target, fields, want string }{
		{"default", "GET", "/", "", "a"},
		{"regex", "GET", "/r12/x", "", "b"},
		{"regex that does not match", "GET", "/rx/x", "", "a"},
		{"regex on the path alone", "GET", "/x?p=/r12/", "", "a"},
		{"header", "GET", "/", "X-Device: phone\r\n", "b"},
		{"header in other letters", "GET", "/", "x-device: phone\r\n", "b"},
		{"another value", "GET", "/", "X-Device: phones\r\n", "a"},
		{"header by expression", "GET", "/", "X-Version: 3.1\r\n", "b"},
		{"header by expression, not", "GET", "/", "X-Version: 1.1\r\n", "a"},
		{"second of two lines", "GET", "/", "X-Version: 1\r\nX-Version: 2\r\n", "b"},
		{"method", "DELETE", "/", "", "b"},
		{"method that the kernel has no number for", "PATCH", "/", "Content-Length: 0\r\n", "b"},
		{"another method", "POST", "/", "Content-Length: 0\r\n", "a"},
		{"options", "OPTIONS", "/", "", "a"},
	} {
		got, err := c.ask(tt.method, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x.test\r\n%s\r\n", tt.method, tt.target, tt.fields))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got.surrogate != tt.want || got.StatusCode != 200 {
			t.Errorf("%s: %d from %s, want %s", tt.name, got.StatusCode, got.surrogate, tt.want)
		}
	}
}

func framings(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	for i, size := range []int{0, 1, 100, 1400, 5000, 70_000, 1 << 20} {
		for _, kind := range []string{"bytes", "chunked", "early"} {
			for _, host := range []string{"a", "b"} {
				if i%2 == 1 {
					host = map[string]string{"a": "b", "b": "a"}[host]
				}
				path := fmt.Sprintf("/%s/%d", kind, size)
				if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s.test\r\n\r\n", path, host); err != nil {
					t.Fatal(err)
				}
				got, err := c.read("GET")
				if kind == "early" {
					if err != nil || got.StatusCode != http.StatusEarlyHints {
						t.Fatalf("%s: %v %v, want 103 first", path, got.Response, err)
					}
					got, err = c.read("GET")
				}
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				got.expect(t, err, host, 200, patternText(size))
			}
		}
	}
	// Without a length the surrogate's close also ends the connection.
	got, err := c.get("a.test", "/close/100000")
	got.expect(t, err, "a", 200, patternText(100_000))
	if _, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("after a body that a close ends: %v, want the end", err)
	}
}

func nginxChunks(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	for range 3 {
		got, err := c.get("static.test", "/ssi.html")
		got.expect(t, err, "static", 200, "<p>head"+patternText(128)+"tail</p>")
		if len(got.TransferEncoding) != 1 {
			t.Fatalf("not in chunks: %v", got.Header)
		}
		got, err = c.get("b.test", "/bytes/10")
		got.expect(t, err, "b", 200, patternText(10))
	}
	for range 3 {
		got, err := c.get("a.test", "/bytes/10")
		got.expect(t, err, "a", 200, patternText(10))
		got, err = c.ask("GET", "GET /1m HTTP/1.1\r\nHost: static.test\r\nAccept-Encoding: gzip\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if got.surrogate != "static" || got.Header.Get("Content-Encoding") != "gzip" || len(got.TransferEncoding) != 1 {
			t.Fatalf("not compressed in chunks by nginx: %v", got.Header)
		}
		z, err := gzip.NewReader(strings.NewReader(got.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := peers.CheckPattern(z, 1<<20); err != nil {
			t.Error(err)
		}
	}
}

func noBody(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	for range 3 {
		for _, host := range []string{"a", "b"} {
			got, err := c.ask("HEAD", "HEAD /bytes/5000 HTTP/1.1\r\nHost: "+host+".test\r\n\r\n")
			got.expect(t, err, host, 200, "")
			if got.ContentLength != 5000 {
				t.Errorf("HEAD: length %d", got.ContentLength)
			}
			got, err = c.get(host+".test", "/204")
			got.expect(t, err, host, 204, "")
			got, err = c.get(host+".test", "/304")
			got.expect(t, err, host, 304, "")
		}
	}
}

// A session with overlapping requests stays on its surrogate, so each round uses a new connection.
func pipelining(t *testing.T, vip string, n *network) {
	const depth = 30
	for round := range 6 {
		c := n.open(t, vip)
		var all strings.Builder
		host := []string{"a", "b"}[round%2]
		for i := range depth {
			fmt.Fprintf(&all, "GET /bytes/%d HTTP/1.1\r\nHost: %s.test\r\n\r\n", i*300+round, host)
		}
		if _, err := io.WriteString(c, all.String()); err != nil {
			t.Fatal(err)
		}
		for i := range depth {
			got, err := c.read("GET")
			got.expect(t, err, host, 200, patternText(i*300+round))
		}
	}
}

// Pipelined requests stay on the surrogate of the one before, whatever their route: only so are responses in order. In one packet
// all belong to the first.
func pipeliningStays(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	if _, err := io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: b.test\r\n\r\nGET /3 HTTP/1.1\r\nHost: a.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a.test /1", "b.test /2", "a.test /3"} {
		got, err := c.read("GET")
		got.expect(t, err, "a", 200, want)
	}
}

func continues(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	for _, host := range []string{"a", "b", "a"} {
		const size = 300_000
		_, err := fmt.Fprintf(c, "PUT /sink HTTP/1.1\r\nHost: %s.test\r\nX-Length: %d\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", host, size, size)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.read("PUT")
		if err != nil || got.StatusCode != http.StatusContinue {
			t.Fatalf("%v %v, want 100 first", got.Response, err)
		}
		if _, err := io.Copy(c, &pattern{left: size}); err != nil {
			t.Fatal(err)
		}
		got, err = c.read("PUT")
		got.expect(t, err, host, 200, fmt.Sprintf("%d bytes", size))
	}
}

func uploads(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	for _, size := range []int64{0, 1, 1400, 10_000, 100_000, 4 << 20} {
		for _, host := range []string{"a", "b"} {
			if size > initialWindow {
				// Bytes beyond that are lost while the request is decided, and retransmissions cost the session
				// the routing of later requests.
				c = n.open(t, vip)
			}
			_, err := fmt.Fprintf(c, "POST /sink HTTP/1.1\r\nHost: %s.test\r\nX-Length: %d\r\nContent-Length: %d\r\n\r\n", host, size, size)
			if err == nil {
				_, err = io.Copy(c, &pattern{left: size})
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.read("POST")
			got.expect(t, err, host, 200, fmt.Sprintf("%d bytes", size))
			chunkedUpload(t, n.open(t, vip), host, size)
		}
	}
}

// initialWindow is about what a client may send before an ACK (RFC 6928), in bytes.
const initialWindow = 13_000

// chunkedUpload sends a body whose end the router does not look for: the session stays on its surrogate.
func chunkedUpload(t *testing.T, c *connection, host string, size int64) {
	t.Helper()
	for range 2 {
		_, err := fmt.Fprintf(c, "POST /sink HTTP/1.1\r\nHost: %s.test\r\nX-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n", host, size)
		source, buf := &pattern{left: size}, make([]byte, 7777)
		for err == nil && source.left > 0 {
			count, _ := source.Read(buf)
			_, err = fmt.Fprintf(c, "%x\r\n%s\r\n", count, buf[:count])
		}
		if err == nil {
			_, err = io.WriteString(c, "0\r\n\r\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.read("POST")
		got.expect(t, err, host, 200, fmt.Sprintf("%d bytes", size))
	}
}

// A head may fill the client's initial window: ten segments that nobody acknowledges before it is complete.
func largeHeads(t *testing.T, vip string, n *network) {
	for _, size := range []int{1000, 3000, 8000, 13_000} {
		for _, host := range []string{"a", "b"} {
			c := n.open(t, vip)
			request := fmt.Sprintf("GET /x HTTP/1.1\r\nX-Long: %s\r\nHost: %s.test\r\n\r\n", strings.Repeat("y", size), host)
			got, err := c.ask("GET", request)
			if err != nil {
				t.Fatalf("head of %d bytes: %v", len(request), err)
			}
			got.expect(t, err, host, 200, host+".test /x")
			other := map[string]string{"a": "b", "b": "a"}[host]
			got, err = c.ask("GET", strings.Replace(request, host+".test", other+".test", 1))
			if err != nil {
				t.Fatalf("second head of %d bytes: %v", len(request), err)
			}
			got.expect(t, err, other, 200, other+".test /x")
		}
	}
}

// A head written in pieces is sent in as many segments, as there is no unacknowledged data for Nagle's algorithm.
func splitRequests(t *testing.T, vip string, n *network) {
	for _, piece := range []int{1, 2, 7, 30} {
		for _, first := range []string{"a", "b"} {
			c := n.open(t, vip)
			for _, host := range []string{first, "a", "b"} {
				request := "GET /p HTTP/1.1\r\nHost: " + host + ".test\r\n\r\n"
				for at := 0; at < len(request); at += piece {
					if _, err := io.WriteString(c, request[at:min(at+piece, len(request))]); err != nil {
						t.Fatal(err)
					}
				}
				got, err := c.read("GET")
				if err != nil {
					t.Fatalf("pieces of %d: %v", piece, err)
				}
				got.expect(t, err, host, 200, host+".test /p")
			}
		}
	}
}

func oldHTTP(t *testing.T, vip string, n *network) {
	c := n.open(t, vip)
	got, err := c.ask("GET", "GET /bytes/3000 HTTP/1.0\r\nHost: b.test\r\n\r\n")
	got.expect(t, err, "b", 200, patternText(3000))
	if _, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("after an answer to HTTP/1.0: %v, want the end", err)
	}
	c = n.open(t, vip)
	for range 3 {
		for _, host := range []string{"a", "b"} {
			got, err = c.ask("GET", "GET /bytes/3000 HTTP/1.0\r\nHost: "+host+".test\r\nConnection: keep-alive\r\n\r\n")
			got.expect(t, err, host, 200, patternText(3000))
		}
	}
	c = n.open(t, vip)
	got, err = c.ask("GET", "GET /bytes/10 HTTP/1.0\r\n\r\n") // no Host
	got.expect(t, err, "a", 200, patternText(10))
}

func halfClose(t *testing.T, vip string, n *network) {
	for _, tt := range []struct {
		name, host, path string
		first            bool // we half-close before the response
	}{
		{"origin, after", "a", "/bytes/1048576", false},
		{"nginx, after", "static", "/1m", false},
		{"origin, before", "a", "/bytes/1048576", true}, // nginx gives up then
	} {
		c := n.open(t, vip)
		end := c.Conn.(interface{ CloseWrite() error }).CloseWrite
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s.test\r\n\r\n", tt.path, tt.host); err != nil {
			t.Fatal(err)
		}
		if tt.first {
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := c.read("GET")
		got.expect(t, err, tt.host, 200, patternText(1<<20))
		if !tt.first {
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.r.ReadByte(); err != io.EOF {
			t.Errorf("%s: after both ends: %v, want the end", tt.name, err)
		}
	}
}

// randomRequests mixes all of it.
func randomRequests(t *testing.T, vip string, n *network) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 30 {
		c, err := dial(ctx, n.client, vip)
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + random.IntN(15) {
			host := []string{"a", "b"}[random.IntN(2)]
			size := random.IntN(1 << (4 + random.IntN(15)))
			kind := []string{"bytes", "chunked", "early"}[random.IntN(3)]
			pad := strings.Repeat("z", random.IntN(1<<random.IntN(12)))
			request := fmt.Sprintf("GET /%s/%d HTTP/1.1\r\nX-Pad: %s\r\nHost: %s.test\r\n\r\n", kind, size, pad, host)
			for at := 0; at < len(request); {
				piece := len(request) - at
				if random.IntN(4) == 0 {
					piece = 1 + random.IntN(piece)
				}
				if _, err := io.WriteString(c, request[at:at+piece]); err != nil {
					t.Fatal(err)
				}
				at += piece
			}
			got, err := c.read("GET")
			if err == nil && kind == "early" {
				got, err = c.read("GET")
			}
			if err != nil {
				t.Fatalf("%s %d, pad %d: %v", kind, size, len(pad), err)
			}
			got.expect(t, err, host, 200, patternText(size))
		}
		c.Close()
	}
}
