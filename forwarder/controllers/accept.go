package controllers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"baton/api"
	"baton/forwarder/config"
)

// listen opens an endpoint. A unix socket is accessible to its owner only.
func listen(e config.Endpoint) (net.Listener, error) {
	if e.Method == "unix" {
		return api.Listen(e.Address)
	}
	return net.Listen("tcp", e.Address)
}

// accept is the goroutine that accepts connections of a listener, which it closes at the end.
func (c *Controllers) accept(ctx context.Context, o *origin, l net.Listener) {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		rw, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				rw.Close()
			}
			return
		}
		if err != nil { // too many open files: transient
			o.fail(fmt.Errorf("accept: %w", err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(c.cfg.Retry.Least):
			}
			continue
		}
		p := c.admit(o, rw)
		if p == nil {
			rw.Close()
			continue
		}
		c.tasks.Go(func() { c.accepted(ctx, o, p) })
	}
}

// pending is an accepted connection before its hello.
type pending struct {
	rw      net.Conn
	source  netip.Prefix // source of the connection; none for unix sockets
	evicted bool         // has lost its slot
}

// source is a host's IPv4 address, or its IPv6 /64, within which a host may use any address.
func source(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // cannot fail with that many bits
	return p
}

// errEvicted ends a connection that lost its slot to another.
var errEvicted = errors.New("evicted by a new connection before its hello")

// admit reserves a slot for a connection, or returns nil. Slots are per endpoint, so that a flood at one does not affect others. If all are
// taken, a connection without hello is evicted, but never a channel. The caller must call dismiss.
func (c *Controllers) admit(o *origin, rw net.Conn) *pending {
	p := &pending{rw: rw, source: source(rw.RemoteAddr())}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.connections >= c.cfg.Limits.Channels {
		o.counts.rejected.Add(1)
		if !o.crowded { // log once, not for every connection of a flood
			o.crowded = true
			c.log.Warn("connection limit reached: new connections evict those without a hello", "endpoint", o.endpoint.String(),
				"limits.channels", c.cfg.Limits.Channels, "without_hello", len(o.pending))
		}
		if !o.evict() {
			return nil
		}
	}
	o.connections++
	o.pending = append(o.pending, p)
	return p
}

// evict frees the slot of a connection without hello, and reports whether there was one: the oldest of the source with the most of them, so
// that a single host cannot lock out others. The caller holds mu.
func (o *origin) evict() bool {
	if len(o.pending) == 0 {
		return false
	}
	count, most := make(map[netip.Prefix]int), 0
	for _, p := range o.pending {
		count[p.source]++
		most = max(most, count[p.source])
	}
	i := slices.IndexFunc(o.pending, func(p *pending) bool { return count[p.source] == most })
	p := o.pending[i]
	o.pending = slices.Delete(o.pending, i, i+1)
	o.connections--
	p.evicted = true
	p.rw.Close() // ends its goroutine; the error does not matter
	return true
}

// settle makes the slot of a connection permanent after its hello, and reports whether it still has one.
func (o *origin) settle(p *pending) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = slices.DeleteFunc(o.pending, func(other *pending) bool { return other == p })
	return !p.evicted
}

// dismiss frees the slot of a connection that has ended, and reports whether it still had one.
func (o *origin) dismiss(p *pending) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.evicted {
		return false
	}
	o.pending = slices.DeleteFunc(o.pending, func(other *pending) bool { return other == p })
	o.connections--
	o.crowded = false
	return true
}

// accepted serves the channel over an accepted connection.
func (c *Controllers) accepted(ctx context.Context, o *origin, p *pending) {
	err := c.answer(ctx, o, p)
	if !o.dismiss(p) {
		err = errEvicted
	}
	if ctx.Err() == nil {
		c.log.Debug("channel has ended", "endpoint", o.endpoint.String(), "peer", p.rw.RemoteAddr().String(), "error", err)
	}
}

// answer is accepted without the slot. It returns why the channel ended, or did not start.
func (c *Controllers) answer(ctx context.Context, o *origin, p *pending) error {
	rw := p.rw
	if o.endpoint.Method == "tls" {
		secured, err := secureServer(ctx, c.cfg.TLS, rw)
		if err != nil {
			rw.Close()
			if o.settle(p) {
				o.fail(err)
			}
			return err
		}
		rw = secured
	}
	_, err := c.serve(ctx, o, rw, p.rw.RemoteAddr().String(), func() bool { return o.settle(p) })
	return err
}
