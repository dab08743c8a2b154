package test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// lines is a TLS server that sends lines back, and remembers where its connections come from.
type lines struct {
	net.Listener
	patience time.Duration // until the first byte; 0: for ever

	mu    sync.Mutex
	seen  []netip.AddrPort
	tired int // connections closed without a byte
}

// serveLines runs the server on port 443 with a certificate for the name.
func serveLines(t *testing.T, ca *peers.Authority, s *site, name string, patience time.Duration) *lines {
	t.Helper()
	certificate, key := ca.Sign(name)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := s.Listen("tcp", ":443")
	if err != nil {
		t.Fatal(err)
	}
	l := &lines{Listener: plain, patience: patience}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.serve(c, &tls.Config{Certificates: []tls.Certificate{pair}}) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l
}

func (l *lines) serve(plain net.Conn, config *tls.Config) {
	defer plain.Close()
	from, _ := netip.ParseAddrPort(plain.RemoteAddr().String())
	l.mu.Lock()
	l.seen = append(l.seen, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
	l.mu.Unlock()
	if l.patience > 0 {
		_ = plain.SetReadDeadline(time.Now().Add(l.patience))
	}
	c := tls.Server(plain, config)
	if err := c.Handshake(); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.tired++
		}
		return
	}
	_ = plain.SetReadDeadline(time.Time{})
	_, _ = io.Copy(c, c)
}

// from counts the connections since the n-th by address.
func (l *lines) from(n int) (total int, by map[netip.Addr]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by = make(map[netip.Addr]int)
	for _, a := range l.seen[n:] {
		by[a.Addr()]++
	}
	return len(l.seen), by
}

func (l *lines) closed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tired
}

// lineClient is a TLS connection to a server of lines.
type lineClient struct {
	net.Conn
	r *bufio.Reader
}

func (n *network) dialLines(ca *peers.Authority, name, vip string) (*lineClient, error) {
	plain, err := n.client.Dial(deadline(n.t), "tcp", vip)
	if err != nil {
		return nil, err
	}
	c := tls.Client(plain, &tls.Config{ServerName: name, RootCAs: ca.Pool})
	_ = c.SetDeadline(time.Now().Add(answersWithin))
	if err := c.HandshakeContext(deadline(n.t)); err != nil {
		c.Close()
		return nil, err
	}
	return &lineClient{c, bufio.NewReader(c)}, nil
}

func (c *lineClient) ask() error {
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return err
	}
	if got, err := c.r.ReadString('\n'); err != nil || got != "hello\n" {
		return fmt.Errorf("%q, %w", got, err)
	}
	return nil
}

// sessions opens so many sessions at once, which stay open until the test's end.
func (n *network) sessions(ca *peers.Authority, name, vip string, count int) []*lineClient {
	n.t.Helper()
	all, failed := make([]*lineClient, count), make([]error, count)
	var opening sync.WaitGroup
	for i := range all {
		opening.Go(func() {
			if all[i], failed[i] = n.dialLines(ca, name, vip); failed[i] == nil {
				failed[i] = all[i].ask()
			}
		})
	}
	opening.Wait()
	n.t.Cleanup(func() {
		for _, c := range all {
			if c != nil {
				c.Close()
			}
		}
	})
	if err := errors.Join(failed...); err != nil {
		n.t.Fatal(err)
	}
	return all
}

const tlsVIP = "10.9.9.9:443"

func linesConfig(n *network, s *site, legs string) string {
	return fmt.Sprintf("vips: [{address: %q, interfaces: [%s], protocol: tls, routes: [{match: {sni: a.test}, pool: p}]}]\n"+
		"pools: {p: {legs: %s, surrogates: [{name: a, address: %q}]}}\n", tlsVIP, n.front.Name, legs, secure(s, false))
}

// TestSources: legs start from the addresses that the configuration names, as a reload changes it.
func TestSources(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	s := n.site("a", lab.LinkOptions{})
	server := serveLines(t, ca, s, "a.test", 0)
	first, second, primary := netip.MustParseAddr("10.2.1.101"), netip.MustParseAddr("10.2.1.102"), netip.MustParseAddr("10.2.1.1")
	for _, a := range []netip.Addr{first, second} {
		if _, err := n.router.Exec(deadline(t), "ip", "addr", "add", a.String()+"/24", "dev", s.back.Name); err != nil {
			t.Fatal(err)
		}
	}
	r := n.start(linesConfig(n, s, "{min: 4, sources: [10.2.1.101, 10.2.1.102]}"))
	kept := n.sessions(ca, "a.test", tlsVIP, 20)
	total, by := server.from(0)
	if by[primary] > 0 || by[first] < total/2-1 || by[second] < total/2-1 {
		t.Errorf("connections from %v, want half from each source", by)
	}
	if got := r.status().Pools[0].Sources; len(got) != 2 || got[0] != first {
		t.Errorf("status has sources %v", got)
	}

	if said := r.hangup(t, linesConfig(n, s, "{min: 4, sources: [10.2.1.101, 10.2.1.103]}")); !strings.Contains(said, "10.2.1.103 is not an address of this host") {
		t.Errorf("a source that is not the host's: %s", said)
	}
	r.hangup(t, linesConfig(n, s, "{min: 4, sources: [10.2.1.102]}"))
	err := lab.Poll(answersWithin, func() error {
		gone := r.metrics()[`baton_router_leg_events_total{event="retired",surrogate="a"}`]
		if a := r.surrogate("a"); gone < 2 || a.IdleLegs < 4 {
			return fmt.Errorf("%v legs retired, %d idle", gone, a.IdleLegs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := server.from(0)
	n.sessions(ca, "a.test", tlsVIP, 20)
	if total, by := server.from(before); by[second] != total-before {
		t.Errorf("after the reload, connections from %v, want all from %v", by, second)
	}
	for _, c := range kept {
		if err := c.ask(); err != nil {
			t.Errorf("a session of before: %v", err)
		}
		c.Close()
	}
	if got := r.passed(tlsVIP); got > 0 {
		t.Errorf("%v sessions were passed on by sockets", got)
	}
}

// TestOnDemand: a server that closes silent connections after a second gets none.
func TestOnDemand(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	s := n.site("a", lab.LinkOptions{})
	server := serveLines(t, ca, s, "a.test", time.Second)
	r := n.start(linesConfig(n, s, "{mode: on-demand}"))
	const rounds, each = 3, 20
	for i := range rounds {
		for _, c := range n.sessions(ca, "a.test", tlsVIP, each) {
			c.Close()
		}
		if total, _ := server.from(0); total != (i+1)*each {
			t.Errorf("%d connections for %d sessions", total, (i+1)*each)
		}
		time.Sleep(600 * time.Millisecond)
	}
	if server.closed() > 0 {
		t.Errorf("the server closed %d silent connections", server.closed())
	}
	if got := r.passed(tlsVIP); got > 0 {
		t.Errorf("%v sessions were passed on by sockets", got)
	}
}

// TestOnDemandIsLearnt: the pool finds out by itself that a server closes silent connections after a second.
func TestOnDemandIsLearnt(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	s := n.site("a", lab.LinkOptions{})
	server := serveLines(t, ca, s, "a.test", time.Second)
	r := n.start(linesConfig(n, s, "{min: 4}"))
	err := lab.Poll(answersWithin, func() error {
		if a := r.surrogate("a"); a.LegsMode != "on-demand" || !strings.HasPrefix(a.LegsReason, "it closes unused connections after 1") || a.IdleLegs > 0 {
			return fmt.Errorf("mode %q: %s; %d idle legs", a.LegsMode, a.LegsReason, a.IdleLegs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(r.Log(), "legs are opened on demand"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
	had := server.closed()
	for _, c := range n.sessions(ca, "a.test", tlsVIP, 20) {
		c.Close()
	}
	time.Sleep(2 * time.Second)
	if got := server.closed(); got != had {
		t.Errorf("the server closed %d silent connections more", got-had)
	}
}
