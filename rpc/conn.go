// Package rpc is the client of a controller's northbound: JSON-RPC 2.0 over WebSocket, with calls, events and reconnection.
package rpc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/creachadair/jrpc2"

	"baton/api"
)

const (
	path = "/v1/ws"
	// maxMessage bounds what a controller sends, in bytes: a thousand sessions with their steps are 2 MB.
	maxMessage = 16 << 20
	// queued events wait for their reader. More than the controller keeps: it is the one that cuts off.
	queued      = 4096
	dialTimeout = 2 * time.Second
)

var (
	// ErrNotConnected says that there is no connection to a controller at the moment.
	ErrNotConnected = errors.New("there is no connection to the controller")
	// ErrRefused says that the controller does not know the token or the certificate.
	ErrRefused = errors.New("the controller refuses the token or certificate")
	// ErrTooSlow says that events arrived faster than they were read.
	ErrTooSlow = errors.New("events were not read fast enough")
)

// Endpoint is a controller and how to reach it.
type Endpoint struct {
	URL   string // ws://, wss://, http:// or https://, with a host and a port; the path is /v1/ws unless it has one
	Token string
	TLS   *tls.Config   // for wss; nil: the system's authorities
	Ping  time.Duration // between pings, and until one is answered; default 1 s
}

// Conn is one connection.
type Conn struct {
	Calls
	URL    string // of the controller
	socket *websocket.Conn
	client *jrpc2.Client
	events chan api.ControllerEvent
	ctx    context.Context
	stop   context.CancelCauseFunc
	once   sync.Once
}

// Dial connects. The context is for the dialling alone.
func Dial(ctx context.Context, e Endpoint) (*Conn, error) {
	address, err := e.address()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	header := http.Header{}
	if e.Token != "" {
		header.Set("Authorization", "Bearer "+e.Token)
	}
	transport := &http.Transport{TLSClientConfig: e.TLS, DisableKeepAlives: true}
	socket, res, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		HTTPHeader: header, Subprotocols: []string{api.ControllerSubprotocol},
	})
	switch {
	case err != nil && res != nil && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden):
		return nil, fmt.Errorf("%s: %w", address, ErrRefused)
	case err != nil && res != nil && res.StatusCode != http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("%s: the answer is %s", address, res.Status)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if socket.Subprotocol() != api.ControllerSubprotocol {
		_ = socket.CloseNow()
		return nil, fmt.Errorf("%s: this is not a controller's northbound", address)
	}
	socket.SetReadLimit(maxMessage)
	c := &Conn{URL: e.URL, socket: socket, events: make(chan api.ControllerEvent, queued)}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	c.Calls = Calls{c.Call}
	c.client = jrpc2.NewClient((*frames)(c), nil)
	go c.pings(e.Ping)
	return c, nil
}

func (e Endpoint) address() (string, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is no address of a controller: ws://10.0.0.1:8080", e.URL)
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	case "ws", "wss":
	default:
		return "", fmt.Errorf("%q is no address of a controller: it begins with ws:// or wss://", e.URL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = path
	}
	return u.String(), nil
}

// Call calls and waits for the result. An error of the controller is an *api.ControllerError.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	err := c.client.CallResult(ctx, method, params, result)
	var told *jrpc2.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case errors.As(err, &told) && c.ctx.Err() == nil:
		return &api.ControllerError{Code: int(told.Code), Message: told.Message}
	case c.ctx.Err() != nil:
		return fmt.Errorf("%s: %w: %w", method, ErrNotConnected, context.Cause(c.ctx))
	}
	return fmt.Errorf("%s: %w", method, err)
}

// Events are the events of what has been subscribed to, in their order. Those of a topic may be older than the subscription's answer.
// The channel is never closed: see Done.
func (c *Conn) Events() <-chan api.ControllerEvent { return c.events }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err is why the connection has ended.
func (c *Conn) Err() error { return context.Cause(c.ctx) }

// Close ends the connection.
func (c *Conn) Close() {
	c.end(errors.New("closed"))
	_ = c.client.Close()
}

func (c *Conn) end(err error) {
	c.once.Do(func() {
		c.stop(err)
		go func() { _ = c.socket.Close(websocket.StatusNormalClosure, "") }()
	})
}

// pings notices a controller that has vanished without a word.
func (c *Conn) pings(every time.Duration) {
	if every == 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(c.ctx, every)
		err := c.socket.Ping(ctx)
		cancel()
		if err != nil {
			c.end(fmt.Errorf("the controller does not answer: %w", err))
			return
		}
	}
}

// frames is a connection as jrpc2 sees it. Events do not pass it: it would give each message to a goroutine, and lose their order.
type frames Conn

func (f *frames) Send(message []byte) error {
	return f.socket.Write(f.ctx, websocket.MessageText, message)
}

func (f *frames) Recv() ([]byte, error) {
	c := (*Conn)(f)
	for {
		_, message, err := c.socket.Read(context.Background())
		if err != nil {
			c.end(err)
			return nil, err
		}
		var note struct {
			Method string
			Params api.ControllerEvent
		}
		// Only events have this at their beginning, as the controller writes them; others may write it otherwise.
		if !strings.Contains(string(message[:min(len(message), 64)]), `"method"`) || json.Unmarshal(message, &note) != nil || note.Method != api.EventMethod {
			return message, nil
		}
		select {
		case c.events <- note.Params:
		default:
			c.end(ErrTooSlow)
			return nil, ErrTooSlow
		}
	}
}

func (f *frames) Close() error {
	(*Conn)(f).end(errors.New("closed"))
	return nil
}
