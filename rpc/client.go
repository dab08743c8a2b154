package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"baton/api"
)

// The pauses between attempts: the first, and the longest. A killed controller is replaced in less than two seconds.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// Config is what a client does with its connections. Its functions are called one after another.
type Config struct {
	// Controllers are tried one after another, beginning with the first.
	Controllers []Endpoint
	Topics      []api.ControllerTopic
	// Opened is called on each connection, before its subscription: for a request router's hello. After its error the next
	// controller is tried. It may be nil.
	Opened func(context.Context, *Conn) error
	// Whole gets a topic's state after each connection. It replaces what was known before. It may be nil.
	Whole func(topic api.ControllerTopic, value json.RawMessage)
	// Event gets what has changed. It may be nil.
	Event func(topic api.ControllerTopic, value json.RawMessage)
	// Lost is called when a connection that was opened has ended. It may be nil.
	Lost func(error)
	// Failed is called when an attempt to connect has failed. It may be nil.
	Failed func(error)
	Log    *slog.Logger // nil: none
}

// Client keeps a connection to one of several controllers.
type Client struct {
	Calls
	config  Config
	current atomic.Pointer[Conn]
}

// New returns a client. It connects while Run runs.
func New(c Config) *Client {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	client := &Client{config: c}
	client.Calls = Calls{client.Call}
	return client
}

// Call calls the controller of the moment. Without one it fails at once with ErrNotConnected.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	conn := c.current.Load()
	if conn == nil {
		return ErrNotConnected
	}
	return conn.Call(ctx, method, params, result)
}

// Connected reports whether there is a controller.
func (c *Client) Connected() bool { return c.current.Load() != nil }

// Run connects, and connects again, until the context ends.
func (c *Client) Run(ctx context.Context) error {
	if len(c.config.Controllers) == 0 {
		return errors.New("no controller is given")
	}
	pause, last := firstPause, ""
	for attempt := 0; ctx.Err() == nil; attempt++ {
		e := c.config.Controllers[attempt%len(c.config.Controllers)]
		opened, err := c.once(ctx, e)
		if ctx.Err() != nil {
			break
		}
		if opened {
			pause, last = firstPause, ""
			attempt-- // the same controller once more: only the network may have failed
			c.config.Log.Warn("the connection to the controller has ended", "controller", e.URL, "err", err)
		} else {
			c.failed(e, err, err.Error() != last)
			last = err.Error()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause*3/4 + rand.N(pause/2)): // routers of one controller do not return in one instant
		}
		if !opened && attempt%len(c.config.Controllers) == len(c.config.Controllers)-1 {
			pause = min(2*pause, longestPause)
		}
	}
	return ctx.Err()
}

// failed takes an attempt that has failed, and logs what has not been said yet.
func (c *Client) failed(e Endpoint, err error, news bool) {
	if c.config.Failed != nil {
		c.config.Failed(err)
	}
	if news {
		c.config.Log.Warn("there is no connection to the controller", "controller", e.URL, "err", err)
	}
}

// once serves one connection. It reports whether the connection was opened, and why there is none any more.
func (c *Client) once(ctx context.Context, e Endpoint) (opened bool, err error) {
	conn, err := Dial(ctx, e)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := c.open(ctx, conn); err != nil {
		return false, err
	}
	c.config.Log.Info("connected to the controller", "controller", e.URL)
	c.current.Store(conn)
	defer func() {
		c.current.CompareAndSwap(conn, nil)
		if c.config.Lost != nil {
			c.config.Lost(err)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-conn.Done():
			return true, conn.Err()
		case event := <-conn.Events():
			if c.config.Event != nil {
				c.config.Event(event.Topic, event.Value)
			}
		}
	}
}

// open introduces the client and subscribes.
func (c *Client) open(ctx context.Context, conn *Conn) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.config.Opened != nil {
		if err := c.config.Opened(ctx, conn); err != nil {
			return err
		}
	}
	if len(c.config.Topics) == 0 {
		return nil
	}
	whole, err := conn.Subscribe(ctx, c.config.Topics...)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	for _, t := range c.config.Topics {
		if c.config.Whole != nil {
			c.config.Whole(t, whole[t])
		}
	}
	return nil
}
