package test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// serveDigests answers each request with the digest of its body, on one connection.
func serveDigests(t lab.T, h *lab.Host, port int, name string) {
	handle(t, h, port, func(c *net.TCPConn) {
		r := bufio.NewReader(c)
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			sum := sha256.New()
			if _, err := io.Copy(sum, request.Body); err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s: %s\r\nContent-Length: 64\r\n\r\n%x", peers.Header, name, sum.Sum(nil))
		}
	})
}

// upload sends the body in chunks, and requires its digest.
func (c *connection) upload(t *testing.T, body string) {
	t.Helper()
	fmt.Fprint(c, "POST /u HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	for rest := body; rest != ""; {
		n := min(10_000, len(rest))
		fmt.Fprintf(c, "%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	fmt.Fprint(c, "0\r\n\r\n")
	got, err := c.read("POST")
	got.expect(t, err, "s", http.StatusOK, fmt.Sprintf("%x", sha256.Sum256([]byte(body))))
}

// bothFamilies configures a VIP of each family, with one surrogate.
func (n *network) bothFamilies(s *site) string {
	return fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: a4}]},\n"+
		"  {address: %q, interfaces: [%[2]s], routes: [{pool: a6}]}]\n"+
		"pools: {a4: {surrogates: [{name: a4, address: %[4]q}]}, a6: {surrogates: [{name: a6, address: %[5]q}]}}\n",
		vip4, n.front.Name, vip6, s.v4, s.v6)
}

// TestNarrowWayToSurrogate: uploads get through after the MTU towards a surrogate has become smaller, on sessions and
// legs from before, and new ones; without and with a reload.
func TestNarrowWayToSurrogate(t *testing.T) {
	for _, offloads := range []bool{true, false} {
		t.Run(fmt.Sprintf("offloads %t", offloads), func(t *testing.T) {
			n := newNetwork(t)
			s := n.site("s", lab.LinkOptions{NoOffloads: !offloads})
			n.client.Interface("eth0").Offloads(offloads)
			serveDigests(t, s.Host, 80, "s")
			r := n.start(n.bothFamilies(s))
			body := strings.Repeat("a body that is longer than all windows, ", 50_000)
			var before []*connection
			for _, vip := range []string{vip4, vip6} {
				c := n.open(t, vip)
				c.upload(t, "short")
				before = append(before, c)
			}
			s.side.SetMTU(1280)
			s.back.SetMTU(1280)
			for range 2 {
				for i, vip := range []string{vip4, vip6} {
					before[i].upload(t, body)
					n.open(t, vip).upload(t, body)
				}
				r.reload(t)
			}
			if got := r.fallbacks(vip4) + r.fallbacks(vip6); got > 0 {
				t.Errorf("%v uploads were proxied", got)
			}
		})
	}
}

// TestNarrowWayToClient: the clients' interface has a smaller MTU than the clients and the surrogates, from the start,
// or from later on.
func TestNarrowWayToClient(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			n := newNetwork(t)
			s := n.site("s", lab.LinkOptions{NoOffloads: true})
			serveScript(t, s.Host, 80, "s")
			if !late {
				n.front.SetMTU(1400)
			}
			r := n.start(n.bothFamilies(s))
			n.front.SetMTU(1400)
			for _, vip := range []string{vip4, vip6} {
				c := n.open(t, vip)
				got, err := c.get("h", "/bytes/1000000")
				got.expect(t, err, "s", http.StatusOK, patternText(1_000_000))
			}
			told := r.metrics()[`baton_router_packets_total{verdict="drop_too_big"}`]
			if (told > 0) != late {
				t.Errorf("%v packets were too big", told)
			}
		})
	}
}
