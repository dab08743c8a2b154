package fallback

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
)

// maxStreams is how many requests of one connection of HTTP/2 are served at once, as in nginx.
const maxStreams = 128

// Reasons for which handshakes fail, for Hooks.
const (
	handshakeNotTLS  = "not_tls"
	handshakeTimeout = "timeout"
	handshakeFailed  = "handshake_failed"
)

// secure makes the server end its clients' TLS.
func (s *Server) secure(certificates []tls.Certificate) {
	// Session tickets are sealed with keys of this configuration, so that they outlive a change of certificates.
	s.tls = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.inForce.Load(), nil }}
	s.SetCertificates(certificates)
	s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: s.timeouts.Stall}
}

// SetCertificates replaces the certificates for handshakes to come; connections stay. The server must have had certificates from the
// beginning.
func (s *Server) SetCertificates(certificates []tls.Certificate) {
	s.inForce.Store(&tls.Config{Certificates: certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
}

// secureListener makes the handshakes of accepted connections, several at a time. It returns a *tls.Conn for HTTP/2, as net/http needs
// that to speak it, and a guard in front of the content for HTTP/1.1.
type secureListener struct {
	*guardedListener
	ctx    context.Context // of handshakes
	cancel context.CancelFunc
	begin  sync.Once
	ready  chan accepted
}

type accepted struct {
	conn net.Conn
	err  error
}

func newSecureListener(l *guardedListener) *secureListener {
	s := &secureListener{guardedListener: l, ready: make(chan accepted)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (l *secureListener) Accept() (net.Conn, error) {
	l.begin.Do(func() {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		if !l.server.closing { // else Shutdown may wait already
			l.server.wg.Go(l.run)
		}
	})
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *secureListener) Close() error {
	l.cancel()
	return l.guardedListener.Close()
}

func (l *secureListener) run() {
	for {
		g, err := l.accept()
		if err == nil {
			l.server.wg.Go(func() { l.handshake(g) })
			continue
		}
		if !l.pass(accepted{err: err}) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (l *secureListener) pass(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// handshake makes a connection's handshake, and passes the connection on.
func (l *secureListener) handshake(g *guard) {
	ctx, cancel := context.WithTimeout(l.ctx, l.server.timeouts.Head)
	defer cancel()
	below := &carrier{Conn: g.raw}
	c := tls.Server(below, l.server.tls)
	if err := c.HandshakeContext(ctx); err != nil {
		l.failed(ctx, g, err)
		return
	}
	state := c.ConnectionState()
	g.name = state.ServerName
	var ready net.Conn
	if state.NegotiatedProtocol == "h2" {
		g.multiplexed, below.guard = true, g
		ready = c
	} else {
		g.Conn = c
		ready = &secureGuard{g, state}
	}
	if !l.pass(accepted{conn: ready}) {
		ready.Close()
	}
}

const plainRequest = "HTTP/1.1 400 Bad Request\r\nServer: baton\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"400 Bad Request: this address is for HTTPS\n"

// failed ends a connection whose handshake has failed. crypto/tls has sent the alert.
func (l *secureListener) failed(ctx context.Context, g *guard, err error) {
	reason := handshakeFailed
	var stranger tls.RecordHeaderError
	switch {
	case l.ctx.Err() != nil: // closed
		g.Close()
		return
	case ctx.Err() != nil:
		reason = handshakeTimeout
	case errors.As(err, &stranger) && stranger.Conn != nil: // the first bytes are no TLS
		reason = handshakeNotTLS
		if letters(stranger.RecordHeader[:]) {
			l.server.hooks.Refused(http.StatusBadRequest, "without TLS")
			g.refusedAt.Store(1) // Close drains what has not been read
			io.WriteString(g, plainRequest)
		}
	}
	l.server.hooks.Handshake(reason)
	l.server.log.Debug("TLS handshake failed", "client", g.client.String(), "reason", reason, "error", err)
	g.Close()
}

// letters reports whether bytes may be the method of a request.
func letters(b []byte) bool {
	for _, c := range b {
		if (c < 'A' || c > 'Z') && c != ' ' && c != '/' {
			return false
		}
	}
	return true
}

// carrier is the connection below TLS. With HTTP/2 it ends the guard, which counts the connection.
type carrier struct {
	net.Conn
	guard *guard
}

func (c *carrier) Close() error {
	if c.guard != nil {
		return c.guard.Close()
	}
	return c.Conn.Close()
}

// secureGuard is a guard of HTTP/1.1 over TLS; net/http takes the state for the request.
type secureGuard struct {
	*guard
	state tls.ConnectionState
}

func (g *secureGuard) ConnectionState() tls.ConnectionState { return g.state }

// guardAt is the guard of a connection that net/http serves.
func guardAt(c net.Conn) *guard {
	switch c := c.(type) {
	case *secureGuard:
		return c.guard
	case *tls.Conn:
		return c.NetConn().(*carrier).guard
	default:
		return c.(*guard)
	}
}
