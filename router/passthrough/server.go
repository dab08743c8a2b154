// Package passthrough is the sockets' way for VIPs of protocol TLS: it reads a client's hello, connects to the surrogate that is
// chosen by it, and moves the bytes of both as they are. In mode proxy it serves all clients of a VIP, in mode handoff those that
// cannot be spliced, and those whose hello did not come at once: a socket acknowledges what it has, and so makes the client go on.
//
// Whatever a client sends is bounded in bytes, time and work until its hello is whole; a hello that is refused is answered with
// an alert.
package passthrough

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"baton/packet/hello"
	"baton/router/proxyheader"
)

// Decision is the surrogate for a session, or the alert that refuses it.
type Decision struct {
	Surrogate string
	Address   netip.AddrPort
	Header    proxyheader.Version // before the client's first byte
	Alert     hello.Alert         // if not 0
	Reason    string              // of the alert, for counters: a word
}

// Options make a Server. VIP, Decide and Dial are required.
type Options struct {
	VIP netip.AddrPort
	// Decide chooses the surrogate. It must not return one of exclude, each of which has just failed, and is called from many
	// goroutines.
	Decide func(h *hello.Hello, client netip.AddrPort, exclude []string) Decision
	// Dial connects to a surrogate; the connection must be a *net.TCPConn, or have its CloseWrite.
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Hello time.Duration        // for a client's whole hello, default 10 s
	Idle  func() time.Duration // ends sessions without bytes in either direction; nil: an hour
	Hooks Hooks
	Log   *slog.Logger // nil: slog.Default
}

// Hooks are called from many goroutines. Any may be nil; none may block.
type Hooks struct {
	Connection func(delta int)                            // +1 accepted, -1 closed
	Session    func(Session)                              // a session is over
	Failure    func(surrogate string, err error)          // a surrogate did not take a connection
	Refused    func(client netip.AddrPort, reason string) // a hello was refused: a kind of package hello, or a Decision's reason
}

// Session is one that is over.
type Session struct {
	Client    netip.AddrPort
	Surrogate string
	Address   netip.AddrPort
	Name      string // in the hello
	Started   time.Time
	Duration  time.Duration
	Received  int64 // bytes from the client
	Sent      int64 // bytes to it
	Err       error // nil: both ends have closed it
}

// Bounds.
const (
	maxUndecided = 1024      // clients whose hello is not whole; a further one takes the place of the oldest
	maxOfPrefix  = 128       // of those, from one /24, or /56 of IPv6; further ones are reset
	maxSessions  = 4096      // that are passed on; each has two sockets
	maxFlight    = 128 << 10 // bytes of a hello with its records, of a byte each
	maxWork      = 16 << 20  // bytes read over and again as a hello trickles in
	attempts     = 3
	dialTimeout  = 3 * time.Second
	lingerTime   = 2 * time.Second
)

// Server passes on the sessions of one VIP.
type Server struct {
	o   Options
	log *slog.Logger

	wg sync.WaitGroup

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	undecided *list.List // of *conn, oldest first
	prefixes  map[netip.Prefix]int
	sessions  map[*conn]struct{} // that are passed on
	closing   bool
	stop      chan struct{}
}

// conn is a client's connection, as the listener accepted it: closing it tells the listener's owner.
type conn struct {
	net.Conn
	tcp       net.Conn // what it may wrap, which moves bytes in the kernel
	client    netip.AddrPort
	place     *list.Element // in undecided; nil: decided
	surrogate net.Conn      // once it is passed on
}

// New makes a Server; Shutdown ends it.
func New(o Options) (*Server, error) {
	if !o.VIP.IsValid() || o.Decide == nil || o.Dial == nil {
		return nil, errors.New("make passthrough server: a VIP, Decide and Dial are required")
	}
	if o.Hello == 0 {
		o.Hello = 10 * time.Second
	}
	if o.Idle == nil {
		o.Idle = func() time.Duration { return time.Hour }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Hooks = o.Hooks.withNone()
	s := &Server{
		o: o, log: o.Log.With("vip", o.VIP.String()), undecided: list.New(), listeners: make(map[net.Listener]struct{}),
		prefixes: make(map[netip.Prefix]int), sessions: make(map[*conn]struct{}), stop: make(chan struct{}),
	}
	s.wg.Go(s.endIdle)
	return s, nil
}

func (h Hooks) withNone() Hooks {
	if h.Connection == nil {
		h.Connection = func(int) {}
	}
	if h.Session == nil {
		h.Session = func(Session) {}
	}
	if h.Failure == nil {
		h.Failure = func(string, error) {}
	}
	if h.Refused == nil {
		h.Refused = func(netip.AddrPort, string) {}
	}
	return h
}

// Serve serves l until Shutdown, and closes it. It returns nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.listen(l) {
		return nil
	}
	for {
		c, err := l.Accept()
		if err != nil {
			if s.closed() {
				return nil
			}
			var temporary interface{ Temporary() bool } // such as too many open files, as net/http asks
			if errors.As(err, &temporary) && temporary.Temporary() {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			return fmt.Errorf("serve VIP %s: %w", s.o.VIP, err)
		}
		s.begin(c)
	}
}

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	return !s.closing
}

func (s *Server) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// begin reads the hello of a client, in place of the oldest one that has not sent its own if there are too many.
func (s *Server) begin(from net.Conn) {
	c := &conn{Conn: from, tcp: from}
	if wrapping, ok := from.(interface{ NetConn() net.Conn }); ok {
		c.tcp = wrapping.NetConn()
	}
	if a, ok := from.RemoteAddr().(*net.TCPAddr); ok {
		c.client = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	}
	prefix := prefixOf(c.client.Addr())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.prefixes[prefix] >= maxOfPrefix {
		c.reset()
		s.o.Hooks.Refused(c.client, "too_many")
		return
	}
	if s.undecided.Len() >= maxUndecided {
		oldest := s.undecided.Front().Value.(*conn)
		s.decided(oldest)
		oldest.reset() // its goroutine ends by the error
		s.o.Hooks.Refused(oldest.client, "too_many")
	}
	s.prefixes[prefix]++
	c.place = s.undecided.PushBack(c)
	s.o.Hooks.Connection(1)
	s.wg.Go(func() {
		defer s.o.Hooks.Connection(-1)
		s.handle(c)
	})
}

// decided takes a client off the list of those that are not. Called with the lock. False: it was off it already.
func (s *Server) decided(c *conn) bool {
	if c.place == nil {
		return false
	}
	s.undecided.Remove(c.place)
	c.place = nil
	prefix := prefixOf(c.client.Addr())
	if s.prefixes[prefix]--; s.prefixes[prefix] == 0 {
		delete(s.prefixes, prefix)
	}
	return true
}

func prefixOf(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 56
	}
	p, _ := a.Prefix(bits) // zero for an address that is not valid
	return p
}

// reset closes a connection with an RST.
func reset(c net.Conn) {
	if t, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func (c *conn) reset() {
	if t, ok := c.tcp.(interface{ SetLinger(sec int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// Shutdown closes the listeners, waits for sessions until ctx is done, and resets the rest. No goroutine or connection of the
// Server remains when it returns.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		close(s.stop)
	}
	for l := range s.listeners {
		_ = l.Close()
	}
	for e := s.undecided.Front(); e != nil; e = e.Next() {
		e.Value.(*conn).reset()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.sessions {
		c.reset()
		reset(c.surrogate)
	}
	s.mu.Unlock()
	<-ended
	return fmt.Errorf("shut down VIP %s: %w", s.o.VIP, ctx.Err())
}
