package controllers

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"baton/forwarder/config"
	"baton/openflow"
	"baton/openflow/channel"
)

// listener is an endpoint that many connect to.
type listener struct {
	*stage
	t    *testing.T
	l    net.Listener
	mine *origin
}

func newListener(t *testing.T, places int) *listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &listener{stage: newStage(t, func(c *config.Config) { c.Limits.Channels = places }), t: t, l: l}
	c.mine = &origin{endpoint: config.Endpoint{Method: "tcp", Address: l.Addr().String()}, listens: true, peers: peers()}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c.mu.Lock()
	c.origins = append(c.origins, c.mine)
	c.mu.Unlock()
	c.tasks.Go(func() { c.accept(ctx, c.mine, l) })
	return c
}

// dial connects from an address.
func (c *listener) dial(from string) net.Conn {
	c.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	rw, err := d.DialContext(within(c.t), "tcp", c.l.Addr().String())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { rw.Close() })
	return rw
}

// silent is a connection that has been served, and says nothing.
func (c *listener) silent(from string) net.Conn {
	c.t.Helper()
	rw := c.dial(from)
	if _, ok := read(c.t, rw).(*openflow.Hello); !ok {
		c.t.Fatal("no hello")
	}
	return rw
}

// says says hello over a connection and returns the channel. That is to be far sooner than a silent one is given up.
func (c *listener) says(rw net.Conn) *channel.Conn {
	c.t.Helper()
	ch := channel.Start(rw, channel.Options{Idle: long, Dead: 2 * long})
	c.t.Cleanup(func() { ch.Close() })
	ctx, cancel := context.WithTimeout(c.t.Context(), peers().Dead/4)
	defer cancel()
	if _, err := ch.Request(ctx, &openflow.BarrierRequest{}); err != nil {
		c.t.Fatalf("a controller among those that say nothing: %v", err)
	}
	return ch
}

// TestSilentGiveWay: connections that do not say hello keep nobody out who does, and no channel is lost for a new connection.
func TestSilentGiveWay(t *testing.T) {
	const places = 64 // by default
	c := newListener(t, places)
	first := c.says(c.dial("127.0.0.1"))
	var silent []net.Conn
	for range places + 30 {
		silent = append(silent, c.silent("127.0.0.1"))
	}
	second := c.says(c.dial("127.0.0.1"))
	for _, ch := range []*channel.Conn{first, second} {
		ask(t, ch, &openflow.BarrierRequest{})
	}
	// Those that came first have gone first, as many as there is no place for.
	gone := 2 + len(silent) - places
	equal(t, "turned away", c.Status()[0].Rejected, uint64(gone))
	for i, rw := range silent {
		_ = rw.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if i < gone {
			_ = rw.SetReadDeadline(time.Now().Add(long))
		}
		_, err := rw.Read(make([]byte, 1))
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() != (i >= gone) {
			t.Errorf("connection %d: %v, want the first %d closed", i, err, gone)
		}
	}
	c.mine.mu.Lock()
	defer c.mine.mu.Unlock()
	equal(t, "places taken", c.mine.connections, places)
	equal(t, "without a hello", len(c.mine.pending), places-2)
}

// TestSilentShare: of the addresses that connections without a hello come from, the one with the most gives way.
func TestSilentShare(t *testing.T) {
	const places = 8
	c := newListener(t, places)
	slow := c.silent("127.0.0.3")
	for range 3 * places {
		c.silent("127.0.0.2")
	}
	go func() { _, _ = io.Copy(io.Discard, slow) }()
	write(t, slow, encode(t, 1, openflow.NewHello()))
	eventually(t, "the one that took its time is served", func() bool { return len(*c.channels.Load()) == 1 })
	c.says(c.dial("127.0.0.3"))
}

// TestChannelsStay: when channels have all places, one more connection is turned away.
func TestChannelsStay(t *testing.T) {
	c := newListener(t, 3)
	var all []*channel.Conn
	for range 3 {
		all = append(all, c.says(c.dial("127.0.0.1")))
	}
	if _, err := c.dial("127.0.0.1").Read(make([]byte, 1)); err == nil {
		t.Error("a connection beyond the limit is served")
	}
	for _, ch := range all {
		ask(t, ch, &openflow.BarrierRequest{})
	}
	equal(t, "turned away", c.Status()[0].Rejected, 1)
	all[0].Close()
	eventually(t, "its place is free", func() bool { return len(*c.channels.Load()) == 2 })
	c.says(c.dial("127.0.0.1"))
}

// TestSource: what counts as one source.
func TestSource(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.7:1":           "192.0.2.7/32",
		"[::ffff:192.0.2.7]:1":  "192.0.2.7/32",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":      "fe80::/64",
	} {
		equal(t, addr, source(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))).String(), want)
	}
	equal(t, "a unix socket", source(&net.UnixAddr{Name: "@", Net: "unix"}).IsValid(), false)
}
