package resume

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a TCP connection that knows whether its peer has ended it: TLS hides that from its reader (see cut).
type conn struct {
	net.Conn
	lane  *lane
	ended atomic.Bool
}

func (c *conn) Close() error {
	c.lane.mu.Lock()
	delete(c.lane.open, c)
	c.lane.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		c.ended.Store(true)
	}
	return n, err
}

// cut tells whether TLS was ended by the end of its TCP connection and not by an alert, which anybody on the way can do. Go takes
// that for a proper end at the border of a record; for content that ends with the connection it is an incomplete answer (RFC 9112,
// section 9.8).
func cut(c net.Conn) bool {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return false
	}
	raw, ok := secure.NetConn().(*conn)
	return ok && raw.ended.Load()
}

// DefaultTransport is a transport with bounds that suit downloads: connect bounds a handshake, 0 is 30 s. A connection on which nothing comes
// is probed after 5 s, so that a server that knows nothing of it can say so.
func DefaultTransport(connect time.Duration) *http.Transport {
	if connect == 0 {
		connect = 30 * time.Second
	}
	d := &net.Dialer{Timeout: connect, ControlContext: limitWindow, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 4}}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    connect,
		TLSClientConfig:        &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(64)},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 10 * time.Second},
		ResponseHeaderTimeout:  time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
	}
}

// windowKey is of contexts for dialing: bytes that may be under way.
type windowKey struct{}

// limitWindow has the kernel offer no more than the context says. It has to be told before the handshake, whose window is not
// taken back.
func limitWindow(ctx context.Context, _, _ string, c syscall.RawConn) error {
	n, _ := ctx.Value(windowKey{}).(int)
	if n == 0 {
		return nil
	}
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, n) // it is slower without
	})
}

// lane is a place for one connection at a time: its transport shares none with others, so that a connection that broke is not used again.
type lane struct {
	id        int
	base      *http.Transport
	transport *http.Transport
	window    func() int // bytes that a new connection may have under way, 0: as the system has it; nil: the same. Of DefaultTransport alone
	mu        sync.Mutex
	open      map[*conn]struct{}
}

func newLane(base *http.Transport, id int) *lane {
	l := &lane{id: id, base: base, open: make(map[*conn]struct{})}
	l.renew()
	return l
}

// renew closes the connection, and with it what is read from it.
func (l *lane) renew() {
	l.close()
	l.transport = l.base.Clone()
	l.transport.DisableCompression = true // offsets count coded bytes
	dial := l.transport.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	l.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.window != nil {
			ctx = context.WithValue(ctx, windowKey{}, l.window())
		}
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, lane: l}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open[c] = struct{}{}
		return c, nil
	}
}

func (l *lane) close() {
	if l.transport == nil {
		return
	}
	l.transport.CloseIdleConnections()
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}
