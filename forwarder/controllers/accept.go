package controllers

import (
	"context"
	"fmt"
	"net"
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
		if !c.admit(o) {
			rw.Close()
			continue
		}
		c.tasks.Go(func() { c.accepted(ctx, o, rw) })
	}
}

// admit reports whether there is room for another connection at an endpoint: each has its own, so that a crowd at one leaves the
// others free. The caller dismisses it.
func (c *Controllers) admit(o *origin) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.connections < c.cfg.Limits.Channels {
		o.connections++
		return true
	}
	o.counts.rejected.Add(1)
	if !o.crowded { // once, or a flood of connections would be one of messages
		o.crowded = true
		c.log.Warn("no more connections", "endpoint", o.endpoint.String(), "limits.channels", c.cfg.Limits.Channels)
	}
	return false
}

func (o *origin) dismiss() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.connections--
	o.crowded = false
}

// accepted serves the channel over a connection that another has opened.
func (c *Controllers) accepted(ctx context.Context, o *origin, rw net.Conn) {
	defer o.dismiss()
	peer := rw.RemoteAddr().String()
	if o.endpoint.Method == "tls" {
		secured, err := secureServer(ctx, c.cfg.TLS, rw)
		if err != nil {
			rw.Close()
			o.fail(err)
			c.log.Debug("connection refused", "endpoint", o.endpoint.String(), "peer", peer, "error", err)
			return
		}
		rw = secured
	}
	_, err := c.serve(ctx, o, rw, peer)
	if ctx.Err() == nil {
		c.log.Debug("channel has ended", "endpoint", o.endpoint.String(), "peer", peer, "error", err)
	}
}
