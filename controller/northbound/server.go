package northbound

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"baton/api"
)

// Limits bound what callers may take. Zero fields have the default.
type Limits struct {
	Message     int64         // bytes of a message or a body; default 64 KiB
	Batch       int           // calls of a batch; default 100
	InFlight    int           // messages of a connection that are answered at the same time; default 64. Together they have at most Message bytes
	ListCalls   int           // those of them that ask for lists; default 4
	Lists       int           // lists of all callers that are copied and encoded at the same time; default 2
	Answer      int64         // bytes of a connection's answers that wait to be read before the next is made; default 16 MiB: what package rpc reads as one
	Answers     int64         // those of all callers, with events; default 64 MiB
	Stall       time.Duration // while Answers are used up, a caller that has read nothing for as long is cut off; default 0.5 s
	Rate        int           // messages of a connection a second; default 20,000: twice what a busy request router sends
	Connections int           // WebSockets; default 1,000
	Sockets     int           // TCP connections; default 2,000
	Call        time.Duration // of a call; default 5 s
	Write       time.Duration // of a part of a message to a caller that does not read; default 10 s
	Ping        time.Duration // between pings; a caller that does not answer within it is gone; default 15 s
}

func (l Limits) withDefaults() Limits {
	defaults(&l.Message, 64<<10)
	defaults(&l.Batch, 100)
	defaults(&l.InFlight, 64)
	defaults(&l.ListCalls, 4)
	defaults(&l.Lists, 2)
	defaults(&l.Answer, 16<<20)
	defaults(&l.Answers, 64<<20)
	defaults(&l.Stall, 500*time.Millisecond)
	defaults(&l.Rate, 20_000)
	defaults(&l.Connections, 1000)
	defaults(&l.Sockets, 2000)
	defaults(&l.Call, 5*time.Second)
	defaults(&l.Write, 10*time.Second)
	defaults(&l.Ping, 15*time.Second)
	return l
}

func defaults[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Config is what a server is made of.
type Config struct {
	Source Source
	Calls  Calls
	Hub    *Hub
	Access Access
	Limits Limits
	Page   http.Handler // at /; nil: none
	// Names are the host names by which browsers reach the server without TLS, besides its addresses and localhost: a page of
	// another name that resolves to the server's address must not call it. With TLS the certificate says the names.
	Names   []string
	Origins []string // of pages elsewhere that may open a WebSocket: "https://noc.example.net"
	Version string
	Log     *slog.Logger
}

// Server is the northbound.
type Server struct {
	source  Source
	serve   Calls
	hub     *Hub
	limits  Limits
	page    http.Handler
	names   []string
	origins []string
	version string
	log     *slog.Logger

	access  atomic.Pointer[Access]
	tls     atomic.Pointer[tls.Config]
	methods map[string]call
	handler http.Handler
	counts  counts
	budget  *budget

	mu     sync.Mutex
	open   map[*connection]struct{}
	number uint64 // of the newest connection
	closed bool
	ended  sync.WaitGroup // connections
}

// New returns a server.
func New(c Config) *Server {
	s := &Server{
		source: c.Source, serve: c.Calls, hub: c.Hub, limits: c.Limits.withDefaults(), page: c.Page, names: c.Names, origins: c.Origins,
		version: c.Version, log: c.Log, open: map[*connection]struct{}{},
	}
	if s.hub == nil {
		s.hub = NewHub()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.budget = newBudget(s.limits, s.hub.unsent.Load)
	s.hub.crowded = s.budget.relieve
	s.SetAccess(c.Access)
	s.methods = s.calls()
	s.handler = s.routes()
	return s
}

// SetAccess changes who may call. Connections of callers who have lost their role, or whose role is another, are closed.
func (s *Server) SetAccess(a Access) {
	s.access.Store(&a)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if name, role, err := a.authenticate(c.request); err != nil || name != c.who.Name || role != c.who.Role {
			c.end(closeAccess, "the access has changed")
		}
	}
}

// routes has the paths. What has no data in it (the page, the description) is for everybody: a browser loads it before it has a token.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/ws", s.webSocket)
	s.rest(mux)
	if s.page != nil {
		mux.Handle("/", s.page)
	}
	// A page elsewhere may not change anything with what the browser knows: the certificate, or an open listener.
	sameOrigin := http.NewCrossOriginProtection()
	for _, o := range s.origins {
		if err := sameOrigin.AddTrustedOrigin(o); err != nil {
			s.log.Warn("this is not an origin", "origin", o, "err", err)
		}
	}
	inner := sameOrigin.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.knows(r) {
			s.counts.refuse("host")
			http.Error(w, "this server has another name", http.StatusMisdirectedRequest)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// knows reports whether the request's host is the server. Otherwise a page of any name could be given the server's address in DNS, and
// would be of the same origin.
func (s *Server) knows(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || strings.EqualFold(host, "localhost") {
		return true
	}
	for _, n := range s.names {
		if strings.EqualFold(n, host) {
			return true
		}
	}
	return false
}

// Handler serves requests.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve serves a listener until the context ends, with TLS unless its configuration is nil, and closes the listener and every
// connection.
func (s *Server) Serve(ctx context.Context, l net.Listener, encrypted *tls.Config) error {
	l = netutil.LimitListener(shallow{l}, s.limits.Sockets)
	if encrypted != nil {
		s.SetTLS(encrypted)
		current := func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tls.Load(), nil }
		l = tls.NewListener(l, &tls.Config{GetConfigForClient: current, MinVersion: tls.VersionTLS12})
	}
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, rawKey{}, c) },
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		s.Close()
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(short) != nil {
			_ = server.Close()
		}
	}()
	err := server.Serve(l)
	if ctx.Err() == nil {
		return err
	}
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// shallow is a listener whose connections have the kernel keep little that it cannot send yet: those bytes of callers that do not read
// are the budget's. The default is up to 4 MB for each caller. What is on its way to a caller that reads is not limited.
type shallow struct{ net.Listener }

func (l shallow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(syscall.Conn); ok && err == nil {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent) })
		}
	}
	return c, err
}

// Close ends all WebSockets, and waits for them. It admits no more. Peers have a second to answer.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.end(closeGoing, "the controller ends")
		defer time.AfterFunc(time.Second, c.kill).Stop()
	}
	s.mu.Unlock()
	s.ended.Wait()
}

// Dismiss ends the WebSockets of request routers and of those that follow what routers decide by: they try the next controller then.
func (s *Server) Dismiss(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.caller().Router != "" || s.hub.followed(c.sub, ofRouters) {
			c.end(closeGoing, why)
		}
	}
}

// ofRouters reports whether a topic is what request routers decide by, which the master alone tells.
func ofRouters(t api.ControllerTopic) bool { return topics[t] == Router }

// SetTLS changes the certificates of a listener that has TLS, for connections to come.
func (s *Server) SetTLS(c *tls.Config) {
	c = c.Clone()
	c.NextProtos = []string{"http/1.1"} // a WebSocket needs a connection of its own
	s.tls.Store(c)
}

// audit logs a change and who made it, or tried to.
func (s *Server) audit(who Caller, what string, err error, attributes ...any) {
	attributes = append([]any{"call", what, "caller", who.Name, "role", who.Role.String(), "from", who.Remote}, attributes...)
	if err != nil {
		s.log.Warn("a change was refused", append(attributes, "err", err)...)
		return
	}
	s.log.Info("change", attributes...)
}

// identify returns the caller of a request, or answers it.
func (s *Server) identify(r *http.Request) (Caller, error) {
	name, role, err := s.access.Load().authenticate(r)
	remote, _ := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		s.counts.refuse("credentials")
		s.log.Debug("a caller was refused", "from", remote, "err", err)
		return Caller{}, err
	}
	return Caller{Name: name, Role: role, Remote: netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())}, nil
}

func (s *Server) snapshot(topic api.ControllerTopic) (any, error) {
	src, all := s.source, api.ControllerPage{}
	switch topic {
	case api.TopicTopology:
		return snapshotOf(string(topic), src.Topology)
	case api.TopicSessions:
		return s.sessions(all)
	case api.TopicHandoffs:
		return s.handoffs(all)
	case api.TopicSurrogates:
		return s.surrogates(all)
	case api.TopicDecisions:
		return s.decisions(all)
	case api.TopicRates:
		return snapshotOf(string(topic), src.Rates)
	case api.TopicDistances:
		return snapshotOf(string(topic), src.Distances)
	}
	return nil, invalid("topics", "have no %q", cut(string(topic), maxName))
}

func snapshotOf[T any](what string, f func() T) (any, error) {
	if f == nil {
		return nil, unavailable(what)
	}
	return f(), nil
}
