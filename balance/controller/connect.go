package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// The delay between connection attempts, which doubles each time.
const (
	leastWait = 50 * time.Millisecond
	mostWait  = 5 * time.Second
)

// Connect keeps a connection to a switch until ctx ends: dial opens one, and another after it is lost.
func (c *Controller) Connect(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		conn, err := dial(ctx)
		if err == nil {
			began := time.Now()
			err = c.Serve(ctx, conn)
			if time.Since(began) > mostWait {
				wait = leastWait
			}
		} else {
			err = fmt.Errorf("connect to the switch: %w", err)
			c.note(func(t *Status) { t.LastError = err.Error() })
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.log.Warn("no switch", "error", err, "again", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Accept serves switches that connect to a listener, always the latest, until ctx ends or the listener is closed. It closes the listener.
func (c *Controller) Accept(ctx context.Context, ln net.Listener) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	defer ln.Close()
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if conn != nil {
				return errors.Join(ctx.Err(), conn.Close())
			}
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("wait for the switch: %w", err)
		}
		serving.Go(func() {
			if err := c.Serve(ctx, conn); ctx.Err() == nil {
				c.log.Warn("the switch has gone", "error", err)
			}
		})
	}
}
