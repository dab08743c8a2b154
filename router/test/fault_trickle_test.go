package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
)

// handshake is timeouts.handshake in these tests; their own timeouts are longer.
const handshake = time.Second

// slowClient is a client that delays its request, on its own connection.
type slowClient struct {
	*connection
	ctx context.Context
	l   *ledger
	h   *lab.Host
}

// TestSlowClients: clients send incomplete requests, or too slowly.
func TestSlowClients(t *testing.T) {
	t.Parallel() // mostly waits
	n := newNetwork(t)
	l := &ledger{t: t}
	s := n.site("a", lab.LinkOptions{})
	l.recorder(t, s.Host, "a")
	plain, front := n.clientHost("plain", lab.LinkOptions{})
	plain.Sysctl("net.ipv4.tcp_timestamps", "0") // the router keeps such a client's options for a while
	r := n.start(fmt.Sprintf("timeouts: {handshake: %v, closing: 2s}\nvips: [{address: %q, interfaces: [%s, %s], routes: [{pool: a}]}]\n"+
		"pools: {a: {legs: {min: 2, max: 200}, surrogates: [{name: a, address: %q}]}}\n", handshake, vip4, n.front.Name, front.Name, s.v4))

	half := getHead("x")[:20]
	var work errgroup.Group
	for _, tt := range []struct {
		name string
		run  func(c *slowClient) error
	}{
		{"trickles", func(c *slowClient) error { return c.trickle(half) }},
		{"trickles on", func(c *slowClient) error { return c.goodThen(func() error { return c.trickle(half) }) }},
		{"half a head", func(c *slowClient) error { return c.half(half, http.StatusRequestTimeout) }},
		{"half a head, on", func(c *slowClient) error {
			return c.goodThen(func() error { return c.half(half, http.StatusRequestTimeout) })
		}},
		{"a byte", func(c *slowClient) error { return c.half("G", http.StatusRequestTimeout) }},
		{"more than a client may send unacknowledged", func(c *slowClient) error {
			return c.half(getHead(strings.Repeat("y", 40_000)), http.StatusRequestTimeout, http.StatusRequestURITooLong)
		}},
		{"half a head, then the end", func(c *slowClient) error {
			if _, err := io.WriteString(c, half); err != nil {
				return err
			}
			if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				return err
			}
			return c.half("", http.StatusBadRequest)
		}},
		{"half a head, then a reset", func(c *slowClient) error {
			if _, err := io.WriteString(c, half); err != nil {
				return err
			}
			return c.Conn.(interface{ SetLinger(int) error }).SetLinger(0)
		}},
		{"nothing, then the end", func(c *slowClient) error {
			if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				return err
			}
			return c.ends()
		}},
		{"nothing for long, then a request", func(c *slowClient) error {
			time.Sleep(4 * handshake)
			return c.good()
		}},
		{"a request, nothing for long, a request", func(c *slowClient) error {
			return c.goodThen(func() error { time.Sleep(4 * handshake); return c.good() })
		}},
		{"a body that takes long", (*slowClient).slowBody},
		{"half a body, then the end", func(c *slowClient) error { return c.halfBody(false) }},
		{"half a body, then a reset", func(c *slowClient) error { return c.halfBody(true) }},
	} {
		for _, h := range []*lab.Host{n.client, plain} {
			work.Go(func() error {
				c := &slowClient{l: l, h: h, ctx: t.Context()}
				var err error
				if c.connection, err = dial(c.ctx, h, vip4); err == nil {
					err = tt.run(c)
					c.Close()
				}
				if err != nil {
					t.Errorf("%s of %s: %v", tt.name, h.Name(), err)
				}
				for range 3 {
					next := &slowClient{l: l, h: h, ctx: t.Context()}
					if next.connection, err = dial(c.ctx, h, vip4); err == nil {
						err = next.good()
						next.Close()
					}
					if err != nil {
						t.Errorf("after %s of %s: %v", tt.name, h.Name(), err)
					}
				}
				return nil
			})
		}
	}
	_ = work.Wait()
	l.audit()
	if got := r.metrics()[fmt.Sprintf("baton_router_fallback_connections{vip=%q}", vip4)]; got > 0 {
		lab.Eventually(t, answersWithin, func() error {
			if got := r.metrics()[fmt.Sprintf("baton_router_fallback_connections{vip=%q}", vip4)]; got > 0 {
				return fmt.Errorf("%v connections are left in user space", got)
			}
			return nil
		})
	}
}

func getHead(id string) string { return "GET /" + id + " HTTP/1.1\r\n" + hostA + "\r\n" }

// good makes a request that is answered with its target.
func (c *slowClient) good() error {
	m := message{id: c.l.draw(), must: true}
	m.text = getHead(m.id)
	c.l.enter(m)
	got, err := c.ask("GET", m.text)
	if err == nil && (got.StatusCode != http.StatusOK || got.body != "/"+m.id) {
		err = fmt.Errorf("%s from %q: %.100q, want /%s", got.Status, got.surrogate, got.body, m.id)
	}
	return err
}

func (c *slowClient) goodThen(f func() error) error {
	if err := c.good(); err != nil {
		return err
	}
	return f()
}

// trickle sends the text byte by byte until it is refused.
func (c *slowClient) trickle(text string) error {
	ctx, cancel := context.WithCancel(c.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range text {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
			select {
			case <-time.After(handshake / 8):
			case <-ctx.Done():
				return
			}
		}
	}()
	err := c.half("", http.StatusRequestTimeout)
	cancel()
	<-ended
	return err
}

// half sends an invalid request, and is refused.
func (c *slowClient) half(text string, want ...int) error {
	sent := make(chan struct{})
	go func() { _, _ = io.WriteString(c, text); close(sent) }()
	defer func() { c.Close(); <-sent }()
	got, err := c.final()
	if err != nil {
		return err
	}
	for _, status := range want {
		if got.StatusCode == status && got.Header.Get("Server") == "baton" {
			return c.ends()
		}
	}
	return fmt.Errorf("%s from %q: %.100q, want %v", got.Status, got.surrogate, got.body, want)
}

// slowBody sends a body more slowly than allowed for a head.
func (c *slowClient) slowBody() error {
	m := message{id: c.l.draw(), must: true}
	m.text = "POST /" + m.id + " HTTP/1.1\r\n" + hostA + "Content-Length: 10\r\n\r\n0123456789"
	c.l.enter(m)
	for at := range 11 {
		piece := m.text[:len(m.text)-10]
		if at > 0 {
			piece = m.text[len(m.text)-11+at:][:1]
		}
		if _, err := io.WriteString(c, piece); err != nil {
			return err
		}
		time.Sleep(handshake / 4)
	}
	got, err := c.read("POST")
	if err == nil && (got.StatusCode != http.StatusOK || got.body != "/"+m.id) {
		err = fmt.Errorf("%s: %.100q", got.Status, got.body)
	}
	return err
}

// halfBody gives up in the middle of a body.
func (c *slowClient) halfBody(reset bool) error {
	m := message{id: c.l.draw(), partial: true}
	m.text = "POST /" + m.id + " HTTP/1.1\r\n" + hostA + "Content-Length: 1000\r\n\r\n" + strings.Repeat("z", 1000)
	c.l.enter(m)
	if _, err := io.WriteString(c, m.text[:len(m.text)-300]); err != nil {
		return err
	}
	if reset {
		return c.Conn.(interface{ SetLinger(int) error }).SetLinger(0)
	}
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// TestLongHead sends a head longer than the client's initial window.
func TestLongHead(t *testing.T) {
	n := newNetwork(t)
	s := n.site("a", lab.LinkOptions{})
	serve(t, s.Host, "a")
	n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: a}]}]\npools: {a: {surrogates: [{name: a, address: %q}]}}\n", vip4, n.front.Name, s.v4))
	c, err := dial(t.Context(), n.client, vip4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	long := strings.Repeat("Cookie: "+strings.Repeat("x", 5000)+"\r\n", 5)
	for range 2 {
		got, err := c.ask("GET", "GET /x HTTP/1.1\r\nHost: h\r\n"+long+"\r\n")
		got.expect(t, err, "a", http.StatusOK, "h /x")
	}
}
