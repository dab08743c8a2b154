package fallback

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"baton/router/config"
	"baton/router/fields"
	"baton/router/head"
	"baton/router/proxyheader"
)

// Decision is the surrogate for a request, or the router's own response.
type Decision struct {
	Surrogate string
	Address   netip.AddrPort
	Public    string              // scheme://host[:port] for redirects; "" for http://Address
	Own       bool                // use connections to surrogates that are not shared with other clients
	Header    proxyheader.Version // on such a connection, before the client's first byte
	Fields    fields.Set          // what the surrogate learns of the client, beside the usual
	Rewrite   config.Rewrite      // of the request
	Bypass    string              // where the client is redirected because no surrogate can serve it, scheme://host[:port]; "": it is not
	Status    int                 // if not 0, the router answers, for example 404 or 503
	Reason    string              // for the client
}

// Decide chooses the surrogate for a request. It must not touch the request's body or return a surrogate of exclude (each has
// just failed), and is called from many goroutines. A Decision without an address means 503.
type Decide func(vip netip.AddrPort, r *http.Request, client netip.AddrPort, exclude []string) Decision

// Timeouts bound every wait, see the package comment. A zero field means its default.
type Timeouts struct {
	Head      time.Duration // 10 s
	Idle      time.Duration // 60 s
	Dial      time.Duration // 3 s
	FirstByte time.Duration // 30 s
	Stall     time.Duration // 60 s
	Keep      time.Duration // 4 s, an idle connection to a surrogate; below Apache's KeepAliveTimeout of 5 s
	Total     time.Duration // 0: none
}

// Options make a Server. VIP and Decide are required.
type Options struct {
	VIP            netip.AddrPort
	Mode           config.Mode // Redirect redirects; the others proxy
	Decide         Decide
	Verdicts       *Verdicts // nil: none
	Timeouts       Timeouts
	Certificates   []tls.Certificate // clients use TLS; the first is for names that none covers. None: they do not use TLS
	MaxHead        int               // bytes of a request's head; default and maximum are those of package head; a longer one gets 431 or 414
	MaxConnections int               // client connections, default 4096; further ones wait in the listen queue
	Attempts       int               // surrogates tried for one request, default 3
	// Dial connects to a surrogate; nil is a plain dialer without MPTCP. The context carries the Dial timeout.
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Hooks Hooks
	Log   *slog.Logger // nil: slog.Default
}

// Hooks are called from many goroutines. Any may be nil; none may block.
type Hooks struct {
	Connection func(delta int)                          // +1 accepted, -1 closed
	Request    func(Exchange)                           // a request has ended
	Failure    func(surrogate string, kind FailureKind) // a surrogate did not answer; see Blames
	Refused    func(status int, reason string)          // a request was refused as malformed or by a verdict
	Handshake  func(reason string)                      // a TLS handshake has failed
}

// Exchange is a finished request.
type Exchange struct {
	Surrogate string // "" when the router answered
	Status    int    // as sent to the client; 0: the client had gone
	Sent      int64  // bytes of response body, without upgraded connections
	Retries   int    // surrogates that had failed
	Duration  time.Duration

	ID        [16]byte // random, as in the fields of the request
	Started   time.Time
	FirstByte time.Duration // of the response, after Started; 0: there was none
	Client    netip.AddrPort
	Address   netip.AddrPort // of the surrogate
	Request   *http.Request  // nil: it was refused for its form
	Failed    bool           // no surrogate that was asked has answered
	Broken    bool           // the response is not complete
	Gone      bool           // the client has gone before it was
}

// Server serves the requests to one VIP.
type Server struct {
	vip      netip.AddrPort
	mode     config.Mode
	decide   Decide
	verdicts *Verdicts
	timeouts Timeouts
	maxHead  int
	attempts int
	hooks    Hooks
	log      *slog.Logger

	tls       *tls.Config // nil: clients do not use TLS
	inForce   atomic.Pointer[tls.Config]
	http      *http.Server
	proxy     *httputil.ReverseProxy
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	transport *http.Transport
	slots     chan struct{}

	wg      sync.WaitGroup // lingering connections
	mu      sync.Mutex
	conns   map[*guard]struct{}
	closing bool
}

// New makes a Server; Shutdown ends it.
func New(o Options) (*Server, error) {
	if !o.VIP.IsValid() || o.Decide == nil {
		return nil, errors.New("make fallback server: a VIP and a Decide are required")
	}
	s := &Server{
		vip: o.VIP, mode: o.Mode, decide: o.Decide, verdicts: o.Verdicts,
		timeouts: o.Timeouts.withDefaults(),
		maxHead:  min(orDefault(o.MaxHead, head.MaxHead), head.MaxHead),
		attempts: orDefault(o.Attempts, 3),
		hooks:    o.Hooks.withNone(),
		log:      o.Log,
		slots:    make(chan struct{}, orDefault(o.MaxConnections, 4096)),
		conns:    make(map[*guard]struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.log = s.log.With("vip", o.VIP.String())
	s.dial = o.Dial
	if s.dial == nil {
		s.dial = plainDial()
	}
	s.transport = newTransport(s.dial, s.timeouts, true)
	stdlog := slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	s.proxy = s.newProxy(stdlog)
	s.http = &http.Server{
		Handler:                      http.HandlerFunc(s.serveHTTP),
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            s.timeouts.Head,
		IdleTimeout:                  s.timeouts.Idle,
		MaxHeaderBytes:               s.maxHead,
		ErrorLog:                     stdlog,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, guardKey{}, guardAt(c))
		},
	}
	if len(o.Certificates) > 0 {
		s.secure(o.Certificates)
	}
	return s, nil
}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Head:      orDefault(t.Head, 10*time.Second),
		Idle:      orDefault(t.Idle, time.Minute),
		Dial:      orDefault(t.Dial, 3*time.Second),
		FirstByte: orDefault(t.FirstByte, 30*time.Second),
		Stall:     orDefault(t.Stall, time.Minute),
		Keep:      orDefault(t.Keep, 4*time.Second),
		Total:     t.Total,
	}
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

func (h Hooks) withNone() Hooks {
	if h.Connection == nil {
		h.Connection = func(int) {}
	}
	if h.Request == nil {
		h.Request = func(Exchange) {}
	}
	if h.Failure == nil {
		h.Failure = func(string, FailureKind) {}
	}
	if h.Refused == nil {
		h.Refused = func(int, string) {}
	}
	if h.Handshake == nil {
		h.Handshake = func(string) {}
	}
	return h
}

// Serve serves l until Shutdown, and closes it. It returns nil after Shutdown. Several listeners may be served.
func (s *Server) Serve(l net.Listener) error {
	var guarded net.Listener = &guardedListener{Listener: l, server: s, done: make(chan struct{})}
	if s.tls != nil {
		guarded = newSecureListener(guarded.(*guardedListener))
	}
	err := s.http.Serve(guarded)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve VIP %s: %w", s.vip, err)
}

// Shutdown closes the listeners, waits for requests and upgraded connections until ctx is done, and closes the rest. No goroutine
// or connection of the Server remains when it returns.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	for err == nil && s.open() > 0 { // hijacked and lingering connections, which net/http does not know
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err != nil {
		s.http.Close()
		s.closeAll()
		err = fmt.Errorf("shut down VIP %s: %w", s.vip, err)
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.wg.Wait()
	s.transport.CloseIdleConnections()
	return err
}

func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for g := range s.conns {
		g.raw.Close()
	}
}

// linger drains a refused client's connection in the background.
func (s *Server) linger(g *guard) error {
	s.mu.Lock()
	closing := s.closing
	if !closing {
		s.wg.Go(g.drain)
	}
	s.mu.Unlock()
	if !closing {
		return nil
	}
	defer s.forget(g) // takes the lock
	return g.raw.Close()
}

// forget drops a closed connection.
func (s *Server) forget(g *guard) {
	s.mu.Lock()
	delete(s.conns, g)
	s.mu.Unlock()
	if own := g.private.Load(); own != nil {
		own.CloseIdleConnections() // a connection still in a request closes after being idle
	}
	<-s.slots
	s.hooks.Connection(-1)
}

// guardedListener accepts while a slot is free, and wraps each connection in a guard.
type guardedListener struct {
	net.Listener
	server *Server
	once   sync.Once
	done   chan struct{}
}

func (l *guardedListener) Accept() (net.Conn, error) {
	g, err := l.accept()
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (l *guardedListener) accept() (*guard, error) {
	select {
	case l.server.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.server.slots
		return nil, err
	}
	g := newGuard(c, l.server)
	l.server.mu.Lock()
	l.server.conns[g] = struct{}{}
	l.server.mu.Unlock()
	l.server.hooks.Connection(1)
	return g, nil
}

func (l *guardedListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}
