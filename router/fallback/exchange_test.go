package fallback

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestExchange: what the router knows of a request when it is over, for its access log.
func TestExchange(t *testing.T) {
	const get = "GET /a?b HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n"
	short := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"
	hangs := func(_ *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = r.ReadByte() // until the proxy gives up
	}
	for _, tt := range []struct {
		name    string
		script  func(*net.TCPConn, *bufio.Reader)
		octets  string
		leaves  bool // the client, once the surrogate has the request
		want    Exchange
		request bool
	}{
		{"complete", says(okResponse), get, false, Exchange{Surrogate: "s", Status: 200, Sent: 2}, true},
		{"cut by the surrogate", saysAndCloses(short), get, false, Exchange{Surrogate: "s", Status: 200, Sent: 5, Broken: true}, true},
		{"no answer", resets, "POST" + get[3:], false, Exchange{Status: 502, Failed: true}, true},
		{"the client leaves", hangs, get, true, Exchange{Broken: true, Gone: true}, true},
		{"malformed", says(okResponse), "GET / HTTP/1.1\r\nHost : x\r\n\r\n", false, Exchange{Status: 400}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSurrogate(t, "s", tt.script)
			e := serve(t, Options{Decide: inOrder(s.decision())})
			before := time.Now()
			c := e.dial(t)
			if _, err := io.WriteString(c, tt.octets); err != nil {
				t.Fatal(err)
			}
			client := c.LocalAddr().(*net.TCPAddr).AddrPort()
			if tt.leaves {
				poll(t, "the surrogate has the request", func() bool { return s.got() != "" })
				c.Close()
			} else {
				_, _ = io.Copy(io.Discard, c)
			}
			var x Exchange
			poll(t, "the request is over", func() bool {
				e.mu.Lock()
				defer e.mu.Unlock()
				if len(e.exchanges) == 0 {
					return false
				}
				x = e.exchanges[0]
				return true
			})
			got := Exchange{Surrogate: x.Surrogate, Status: x.Status, Failed: x.Failed, Broken: x.Broken, Gone: x.Gone, Sent: x.Sent}
			if x.Surrogate == "" {
				got.Sent, tt.want.Gone = 0, tt.want.Gone || x.Gone // an answer of the router's own, whose length is no matter here
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if x.Client != client || x.Started.Before(before) || x.FirstByte < 0 || x.FirstByte > x.Duration || (x.FirstByte > 0) != (x.Status != 0) {
				t.Errorf("client %v of %v, started %v, first byte after %v of %v", x.Client, client, x.Started, x.FirstByte, x.Duration)
			}
			if want := (netip.AddrPort{}); x.Surrogate == "" && x.Address != want || x.Surrogate != "" && x.Address != s.addr {
				t.Errorf("address %v of surrogate %q", x.Address, x.Surrogate)
			}
			if (x.Request != nil) != tt.request || tt.request && (x.Request.RequestURI != "/a?b" || x.Request.Host != "x.test") {
				t.Errorf("request %+v", x.Request)
			}
		})
	}
}
