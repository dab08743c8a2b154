package resume

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"baton/resume/width"
)

// conn is a TCP connection that knows whether its peer has closed it, which TLS hides from the reader (see cut).
type conn struct {
	net.Conn
	lane  *lane
	ended atomic.Bool
	read  atomic.Int64 // bytes
	bound bool         // its window is bounded. The lane's lock is held
}

func (c *conn) Close() error {
	c.lane.mu.Lock()
	delete(c.lane.open, c)
	c.lane.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	if errors.Is(err, io.EOF) {
		c.ended.Store(true)
	}
	return n, err
}

// socket applies f to the connection's socket, if there is one.
func (c *conn) socket(do func(fd int)) {
	tcp, ok := c.Conn.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}

// info returns the kernel's state of the connection; zero if unavailable.
func (c *conn) info() (i unix.TCPInfo) {
	c.socket(func(fd int) {
		if all, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			i = *all
		}
	})
	return i
}

// unread returns the number of received bytes that have not been read.
func (c *conn) unread() int64 {
	i := c.info()
	return max(0, int64(i.Bytes_received)-c.read.Load())
}

// trip returns the shortest round trip of the connection, including the request's: a handshake may have waited for more than the path.
func (c *conn) trip() time.Duration {
	i := c.info()
	if i.Min_rtt == math.MaxUint32 { // none was measured
		return 0
	}
	return time.Duration(i.Min_rtt) * time.Microsecond
}

// window returns how much the server may have in flight, in bytes; 0: unknown (before Linux 6.2).
func (c *conn) window() int { return int(c.info().Rcv_wnd) }

// underneath returns the connection of a lane that carries the content; nil if there is none.
func underneath(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	raw, _ := c.(*conn)
	return raw
}

// clamp bounds the receive window. It may be changed at any time after the handshake, and has to be repeated: as the kernel's buffer grows,
// so does the bound (tcp_rcv_space_adjust in net/ipv4/tcp_input.c).
func (c *conn) clamp(window int) {
	if window == unbounded && !c.bound {
		return
	}
	c.bound = window != unbounded
	c.socket(func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, window) }) // only slower without it
}

// unbounded is more than any window.
const unbounded = 1 << 30

// cut reports whether TLS was ended by the end of its TCP connection instead of an alert, which anybody on the path can cause. At a record
// boundary Go accepts that as a proper end; for content that ends with the connection the response is incomplete (RFC 9112, section 9.8).
func cut(c net.Conn) bool {
	_, secure := c.(*tls.Conn)
	raw := underneath(c)
	return secure && raw != nil && raw.ended.Load()
}

// DefaultTransport returns a transport with timeouts for downloads: connect bounds a handshake, 0 is 30 s.
func DefaultTransport(connect time.Duration) *http.Transport {
	return Dialer{Timeout: connect}.Transport()
}

// Transport is like DefaultTransport, with the dialer's connections; a Timeout of 0 is 30 s.
func (d Dialer) Transport() *http.Transport {
	if d.Timeout == 0 {
		d.Timeout = 30 * time.Second
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    d.Timeout,
		TLSClientConfig:        &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(64)},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 10 * time.Second},
		ResponseHeaderTimeout:  time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
	}
}

// lane holds one connection at a time. Its transport shares no connections, so that a broken one is not reused.
type lane struct {
	id        int
	base      *http.Transport
	rotation  *rotation
	transport *http.Transport
	idle      bool         // nothing to do at the moment. This and the next three belong to the wide part
	at        *piece       // its last piece
	flight    width.Flight // of the connection
	inFlight  int64        // of its server, in bytes
	mu        sync.Mutex
	open      map[*conn]struct{}
	renewals  int
	dialed    time.Time // when the connection was started
}

// errRenewed is for a connection that is established too late.
var errRenewed = errors.New("the connection is not needed any more")

func newLane(base *http.Transport, t *rotation, id int) *lane {
	l := &lane{id: id, base: base, rotation: t, open: make(map[*conn]struct{})}
	l.renew()
	return l
}

// begun returns when the lane's last connection was started.
func (l *lane) begun() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialed
}

// brought returns the bytes received on the connection.
func (l *lane) brought() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		bytes += c.read.Load()
	}
	return bytes
}

// rate returns the recent rate, in bytes per second.
func (l *lane) rate(path *width.Path) float64 {
	if path.Trip <= 0 {
		return 0
	}
	return float64(l.inFlight) / path.Trip.Seconds()
}

// window returns how much the server may have in flight, in bytes.
func (l *lane) window() (window int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		window = max(window, c.window())
	}
	return window
}

// clamp bounds how much the server may have in flight, in bytes; 0: the system's window.
func (l *lane) clamp(window int) {
	if window == 0 {
		window = unbounded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.clamp(window)
	}
}

// renew closes the connection and its response body. See close.
func (l *lane) renew() (unread int64) {
	unread = l.close()
	l.transport = l.base.Clone()
	l.transport.DisableCompression = true // offsets count coded bytes
	dial := l.transport.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	l.mu.Lock()
	renewals := l.renewals
	l.mu.Unlock()
	l.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx = context.WithValue(ctx, rotationKey{}, l.rotation)
		l.mu.Lock()
		l.dialed = time.Now()
		l.mu.Unlock()
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, lane: l}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.renewals != renewals { // http.Transport continues a handshake that nobody waits for
			raw.Close()
			return nil, errRenewed
		}
		l.open[c] = struct{}{}
		return c, nil
	}
	return unread
}

// close closes the lane's connection, if any, and returns the received bytes that have not been read.
func (l *lane) close() (unread int64) {
	if l.transport == nil {
		return 0
	}
	l.mu.Lock()
	l.renewals++
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		unread += c.unread()
		c.Close()
	}
	l.transport.CloseIdleConnections()
	return unread
}
