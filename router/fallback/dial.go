package fallback

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"baton/router/proxyheader"
)

// newTransport makes a transport with idle connections to each surrogate's address, for all clients or for one. It uses no proxy,
// adds no header and changes no body.
func newTransport(dial func(ctx context.Context, network, address string) (net.Conn, error), t Timeouts, shared bool) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, t.Dial)
			defer cancel()
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return &headConn{Conn: newMovingConn(c, max(t.Stall, t.FirstByte)), shared: shared}, nil
		},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        t.Keep,
		ResponseHeaderTimeout:  t.FirstByte,
		ExpectContinueTimeout:  time.Second, // RFC 9110 section 10.1.1: a surrogate may never send 100
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         16 << 10,
		WriteBufferSize:        16 << 10,
	}
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// plainDial is without MPTCP, which refuses TCP_REPAIR and TCP_ULP.
func plainDial() dial {
	d := &net.Dialer{}
	d.SetMultipathTCP(false)
	return d.DialContext
}

// dialFor connects on behalf of one client, and introduces it to surrogates that expect that.
func (s *Server) dialFor(g *guard) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := s.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if header, ok := g.headers.Load(address); ok {
			if err := header.(proxyheader.Version).Write(c, g.client, s.vip, g.name); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
		return c, nil
	}
}

// dialError: nothing was sent to the surrogate.
type dialError struct{ err error }

func (e *dialError) Error() string { return "connect to surrogate: " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// movingConn fails when no byte has moved in either direction for stall.
type movingConn struct {
	net.Conn
	stall    time.Duration
	progress atomic.Int64 // ns since the epoch
	armed    atomic.Int64 // ns since the epoch, when the write deadline was set
}

func newMovingConn(c net.Conn, stall time.Duration) *movingConn {
	m := &movingConn{Conn: c, stall: stall}
	m.moved()
	return m
}

func (m *movingConn) moved() { m.progress.Store(time.Now().UnixNano()) }

func (m *movingConn) Read(p []byte) (int, error) {
	for {
		limit := time.Unix(0, m.progress.Load()).Add(m.stall)
		if err := m.Conn.SetReadDeadline(limit); err != nil {
			return 0, err
		}
		n, err := m.Conn.Read(p)
		if n > 0 {
			m.moved()
			return n, err
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && time.Unix(0, m.progress.Load()).Add(m.stall).After(time.Now()) {
			continue // the other direction has progressed
		}
		return n, err
	}
}

func (m *movingConn) Write(p []byte) (int, error) {
	now := time.Now()
	if now.UnixNano()-m.armed.Load() > int64(m.stall/8) {
		m.armed.Store(now.UnixNano())
		if err := m.Conn.SetWriteDeadline(now.Add(m.stall)); err != nil {
			return 0, err
		}
	}
	m.moved() // a request on an idle connection restarts the clock
	n, err := m.Conn.Write(p)
	if n > 0 {
		m.moved()
	}
	return n, err
}
