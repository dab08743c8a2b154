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

// listen opens an endpoint. A unix socket is its owner's alone.
func listen(e config.Endpoint) (net.Listener, error) {
	if e.Method == "unix" {
		return api.Listen(e.Address)
	}
	return net.Listen("tcp", e.Address)
}

// accept is the task that takes the connections of a listener, which it closes.
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
		if err != nil { // too many open files: others go on, and it may pass
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

// pending is a connection that another has opened, until it says hello.
type pending struct {
	rw      net.Conn
	source  netip.Prefix // that it comes from; none where connections have no addresses
	evicted bool         // it has lost its place
}

// source is the address of a host, or for IPv6 the network, of whose addresses a host may have any.
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
	p, _ := addr.Prefix(bits) // that many bits it has
	return p
}

// errEvicted ends a connection that another one has the place of.
var errEvicted = errors.New("no hello, and there is a new connection that wants the place")

// admit gives a connection a place at an endpoint, or returns nil: each endpoint has its own, so that a crowd at one leaves the others
// free. When all are taken, one that has not said hello gives way, and no channel does. The caller dismisses what it gets.
func (c *Controllers) admit(o *origin, rw net.Conn) *pending {
	p := &pending{rw: rw, source: source(rw.RemoteAddr())}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.connections >= c.cfg.Limits.Channels {
		o.counts.rejected.Add(1)
		if !o.crowded { // once, or a flood of connections would be one of messages
			o.crowded = true
			c.log.Warn("no more room: new connections take the places of those without a hello, if there are any", "endpoint", o.endpoint.String(),
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

// evict frees the place of a connection that has not said hello, and reports whether there was one: the oldest of the source that has the
// most of them, so that one host alone keeps nobody else out. The caller holds mu.
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
	p.rw.Close() // ends its task; an error of it has nobody to go to
	return true
}

// settle has a connection that says hello keep its place, and reports whether it still has one.
func (o *origin) settle(p *pending) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = slices.DeleteFunc(o.pending, func(other *pending) bool { return other == p })
	return !p.evicted
}

// dismiss frees the place of a connection that has ended, and reports whether it still had one.
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

// accepted serves the channel over a connection that another has opened.
func (c *Controllers) accepted(ctx context.Context, o *origin, p *pending) {
	err := c.answer(ctx, o, p)
	if !o.dismiss(p) {
		err = errEvicted
	}
	if ctx.Err() == nil {
		c.log.Debug("channel has ended", "endpoint", o.endpoint.String(), "peer", p.rw.RemoteAddr().String(), "error", err)
	}
}

// answer is accepted without the place. It returns why the channel ended, or did not begin.
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
