package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"baton/forwarder/config"
)

// attempt is the timeout of an attempt to connect, including the TLS handshake.
const attempt = 10 * time.Second

// backoff is the delay before the next attempt: it doubles each time.
type backoff struct {
	config.Retry
	next time.Duration
}

// delay returns the delay after a failure, with a jitter of ±25 % so that many forwarders do not reconnect at once; random is from 0 to 1.
func (b *backoff) delay(random float64) time.Duration {
	b.next = max(b.next, b.Least)
	d := b.next
	b.next = min(2*d, b.Most)
	return time.Duration(float64(d) * (0.75 + random/2))
}

func (b *backoff) reset() { b.next = 0 }

// connect is the goroutine that maintains a channel to a controller.
func (c *Controllers) connect(ctx context.Context, o *origin) {
	b := backoff{Retry: c.cfg.Retry}
	for first := true; ; first = false {
		up, err := c.dialled(ctx, o)
		if ctx.Err() != nil {
			return
		}
		if up {
			b.reset()
		}
		o.fail(err)
		wait := b.delay(rand.Float64())
		level := slog.LevelDebug
		if up || first {
			level = slog.LevelWarn
		}
		c.log.Log(ctx, level, "no channel to the controller", "endpoint", o.endpoint.String(), "error", err, "again", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// dialled connects once, and serves the channel until it ends.
func (c *Controllers) dialled(ctx context.Context, o *origin) (up bool, err error) {
	rw, peer, err := c.dial(ctx, o)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	return c.serve(ctx, o, rw, peer, nil)
}

func (c *Controllers) dial(ctx context.Context, o *origin) (io.ReadWriteCloser, string, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	network := o.endpoint.Method
	if network == "tls" {
		network = "tcp"
	}
	rw, err := new(net.Dialer).DialContext(ctx, network, o.endpoint.Address)
	if err != nil {
		return nil, "", err
	}
	peer := rw.RemoteAddr().String()
	if o.endpoint.Method != "tls" {
		return rw, peer, nil
	}
	secured, err := secureClient(ctx, c.cfg.TLS, rw, o.name)
	if err != nil {
		return nil, "", errors.Join(err, rw.Close())
	}
	return secured, peer, nil
}
