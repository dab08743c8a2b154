package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
)

// addresses adds that many addresses to a client's host, and returns them. number is its link's.
func addresses(t *testing.T, h *lab.Host, number, count int) (out []netip.Addr) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answersWithin)
	defer cancel()
	for i := range count {
		a := netip.AddrFrom4([4]byte{10, 1, byte(number), byte(100 + i)})
		if text, err := h.Exec(ctx, "ip", "address", "add", a.String()+"/24", "dev", "eth0"); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		out = append(out, a)
	}
	return out
}

// dialFrom is dial from one of the host's addresses.
func dialFrom(h *lab.Host, from netip.Addr, address string) (*connection, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: answersWithin}
	d.SetMultipathTCP(false)
	var c net.Conn
	err := h.Do(func() (err error) {
		c, err = d.Dial("tcp", address)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &connection{c, bufio.NewReaderSize(c, 64<<10)}, c.SetDeadline(time.Now().Add(answersWithin))
}

// TestHalfHeadsFromManyAddresses: many sources start more requests than fit, and complete none. A client with an upcall does not
// wait for them, and the process stays small.
func TestHalfHeadsFromManyAddresses(t *testing.T) {
	t.Parallel() // mostly waits
	const pending, sources, each = 1000, 60, 40
	n := newNetwork(t)
	s := n.site("a", lab.LinkOptions{})
	serve(t, s.Host, "a")
	evil, front := n.clientHost("evil", lab.LinkOptions{})
	r := n.start(fmt.Sprintf("limits: {pending: %d}\ntimeouts: {handshake: 1m}\nvips:\n  - address: %q\n    interfaces: [%s, %s]\n"+
		"    routes: [{match: {path_regex: '^/upcall$'}, pool: a}, {match: {host: a.test}, pool: a}]\npools: {a: {legs: {min: 8, max: 2000}, surrogates: [{name: a, address: %q}]}}\n",
		pending, vip4, n.front.Name, front.Name, s.v4))
	memory := r.memory(t)
	from := addresses(t, evil, 1, sources)
	var work errgroup.Group
	work.SetLimit(8)
	for i := range sources {
		work.Go(func() error {
			for range each {
				c, err := dialFrom(evil, from[i], vip4)
				if err != nil {
					return err
				}
				t.Cleanup(func() { c.Close() })
				if _, err := io.WriteString(c, "GET /upcall HTTP/1.1\r\nHo"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, answersWithin, func() error {
		if v := r.verdicts(); v["drop_source_full"]+v["drop_pending_full"] < 100 {
			return fmt.Errorf("%v", v)
		}
		return nil
	})
	for range 20 {
		began := time.Now()
		c := n.open(t, vip4)
		got, err := c.get("b.test", "/upcall")
		got.expect(t, err, "a", http.StatusOK, "b.test /upcall")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("an honest client was answered after %v", took)
		}
		c.Close()
	}
	if full := r.verdicts()["drop_pending_full"]; full > 0 {
		t.Errorf("the table was full for %v packets", full)
	}
	if more := r.memory(t) - memory; more > moreMemory {
		t.Errorf("the router holds %d bytes more", more)
	}
}
