package reactive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"baton/api"
)

// Controller is the calls that a request router makes.
type Controller interface {
	SetRequestSize(context.Context, api.ControllerRequestSize) error
	GetMatchingSession(context.Context, api.ControllerSessionKey) (api.ControllerMatch, error)
	Proxied(context.Context, api.ControllerProxied) error
}

// Proxy serves the sessions that are not handed over. [baton/router/fallback.Server] is one.
type Proxy interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// Options configure a server. Service, Controller, Pool and Proxy are required; zero fields have defaults.
type Options struct {
	Service    netip.AddrPort
	Controller Controller
	Pool       *Pool
	Proxy      Proxy
	Log        *slog.Logger
	Head       time.Duration // until a request is complete. Default: 10 s
	Call       time.Duration // of the controller. Default: 1 s
	Handoff    time.Duration // until the controller has reset the router's sessions. Default: 5 s
	Sessions   int           // at the same time. Default: 4,096; further ones wait in the listen queue
}

// Server serves one service.
type Server struct {
	o     Options
	ctx   context.Context
	end   context.CancelFunc
	run   sync.WaitGroup
	proxy *handover
	slots chan struct{}

	mu       sync.Mutex
	listener map[net.Listener]struct{}
	handed   uint64
	proxied  map[string]uint64
}

// New returns a server; Shutdown ends it.
func New(o Options) *Server {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Head, 10 * time.Second}, {&o.Call, time.Second}, {&o.Handoff, 5 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.Sessions <= 0 {
		o.Sessions = 4096
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, listener: map[net.Listener]struct{}{}, proxied: map[string]uint64{}, slots: make(chan struct{}, o.Sessions)}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.proxy = &handover{conns: make(chan net.Conn), done: s.ctx.Done(), at: net.TCPAddrFromAddrPort(o.Service)}
	return s
}

// Serve serves a listener until Shutdown, and closes it.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	first := len(s.listener) == 0
	s.listener[l] = struct{}{}
	s.mu.Unlock()
	defer l.Close()
	if s.ctx.Err() != nil {
		return nil
	}
	defer context.AfterFunc(s.ctx, func() { l.Close() })()
	if first {
		s.run.Go(func() {
			if err := s.o.Proxy.Serve(s.proxy); err != nil && s.ctx.Err() == nil {
				s.o.Log.Error("the proxy of a reactive service has ended", "err", err)
			}
		})
	}
	for {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return nil
		}
		c, err := l.Accept()
		switch {
		case s.ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accept clients at %v: %w", s.o.Service, err)
		}
		s.run.Go(func() {
			defer func() { <-s.slots }()
			s.serve(c)
		})
	}
}

// Shutdown closes the listeners and ends the sessions; those that are proxied until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	err := s.o.Proxy.Shutdown(ctx)
	s.run.Wait()
	return err
}

// Counts are sums since the start: sessions that were handed over, and those that are proxied by reason.
func (s *Server) Counts() (handed uint64, proxied map[string]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	proxied = make(map[string]uint64, len(s.proxied))
	for why, n := range s.proxied {
		proxied[why] = n
	}
	return s.handed, proxied
}

// serve is one client's session.
func (s *Server) serve(c net.Conn) {
	stop := context.AfterFunc(s.ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	key := api.ControllerSessionKey{Client: addressOf(c.RemoteAddr()), Service: s.o.Service}
	r, err := read(c, time.Now().Add(s.o.Head))
	if err != nil && len(r.bytes) == 0 {
		c.Close() // it has gone, or said nothing
		return
	}
	why := r.why
	if r.whole {
		why = s.handOver(c, key, &r)
	} else if why == "" {
		why = "incomplete"
	}
	if why != "" && !s.claim(c, key, &r, why) {
		why = ""
	}
	s.mu.Lock()
	if why == "" {
		s.handed++
	} else {
		s.proxied[why]++
	}
	s.mu.Unlock()
	if why == "" {
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	s.proxy.give(&begun{Conn: c, read: r.bytes})
}

// claim tells the controller that the router serves a session itself. It returns false if the session is a surrogate's: it is being handed over, or was
// and the controller's resets are late or lost. A surrogate would get the request twice.
func (s *Server) claim(c net.Conn, key api.ControllerSessionKey, r *request, why string) bool {
	for pause, late := settle, time.Now().Add(s.o.Handoff); ; pause *= 2 {
		ctx, cancel := context.WithTimeout(s.ctx, s.o.Call)
		err := s.o.Controller.Proxied(ctx, api.ControllerProxied{Client: key.Client, Service: key.Service, Why: why})
		cancel()
		var refused *api.ControllerError
		switch {
		case err == nil:
			return true
		case !errors.As(err, &refused) || refused.Code != api.ControllerConflict:
			s.o.Log.Debug("the controller does not know of a proxied session", "client", key.Client, "err", err)
			return true
		case time.Now().After(late):
			s.o.Log.Warn("a session is handed over, and the controller's resets have not arrived", "client", key.Client)
			return false
		}
		again := time.After(pause)
		_ = c.SetReadDeadline(time.Now().Add(pause))
		if err := r.more(c); errors.Is(err, syscall.ECONNRESET) {
			return false
		}
		select { // if the client has finished, reading does not wait
		case <-again:
		case <-s.ctx.Done():
			return true
		}
	}
}

// more reads what the client still sends, until an error: it belongs to the proxy, if it comes to that.
func (r *request) more(c net.Conn) error {
	for {
		b := make([]byte, 2048)
		n, err := c.Read(b)
		r.bytes = append(r.bytes, b[:n]...)
		if err != nil {
			return err
		}
	}
}

// handOver has the controller hand a session to a surrogate. It returns "" if it did, else why the router must serve it.
func (s *Server) handOver(c net.Conn, key api.ControllerSessionKey, r *request) (why string) {
	leg, why := s.ask(key, r)
	if leg == nil {
		return why
	}
	defer leg.conn.Close()
	if _, err := leg.conn.Write(leg.request); err != nil {
		return "leg"
	}
	return s.await(c, leg.conn, r)
}

// maxOpening is the longest pause before a leg that the pool does not have is looked for again.
const maxOpening = 64 * time.Millisecond

// chosen is what the controller has chosen.
type chosen struct {
	conn    *net.TCPConn
	request []byte
}

// ask is the calls of the controller.
func (s *Server) ask(key api.ControllerSessionKey, r *request) (*chosen, string) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Call)
	defer cancel()
	err := s.o.Controller.SetRequestSize(ctx, api.ControllerRequestSize{Client: key.Client, Service: key.Service, Size: uint32(len(r.bytes)),
		Request: clip(string(r.Method) + " " + string(r.Target)), Host: clip(string(r.Host))})
	if err != nil {
		return nil, s.reason(err)
	}
	match, err := s.o.Controller.GetMatchingSession(ctx, key)
	if err != nil {
		return nil, s.reason(err)
	}
	conn, ok := s.o.Pool.Take(match.Leg)
	for wait := time.Millisecond; !ok && wait < maxOpening; wait *= 2 {
		time.Sleep(wait) // the controller may see the end of a handshake before the router's own dialer has returned
		conn, ok = s.o.Pool.Take(match.Leg)
	}
	if !ok {
		return nil, "no-leg"
	}
	l := &chosen{conn, r.withHost(match.Host)}
	if err := s.o.Controller.SetRequestSize(ctx, api.ControllerRequestSize{Leg: match.Leg, Size: uint32(len(l.request))}); err != nil {
		conn.Close()
		return nil, s.reason(err)
	}
	return l, ""
}

// mostText is how much of a request's text the controller is told, in bytes.
const mostText = 512

func clip(s string) string { return s[:min(len(s), mostText)] }

// reason is a word for why the controller does not hand over.
func (s *Server) reason(err error) string {
	s.o.Log.Debug("the controller does not hand over", "err", err)
	var refused *api.ControllerError
	if !errors.As(err, &refused) {
		return "controller"
	}
	switch refused.Code {
	case api.ControllerNotFound:
		return "unknown"
	case api.ControllerUnavailable:
		return "no-surrogate"
	case api.ControllerConflict:
		return "conflict"
	}
	return "refused"
}

// settle is how long the end of the client's session may arrive after that of the leg. The controller sends both in that order, to one host.
const settle = 20 * time.Millisecond

// await waits until the controller has reset both sessions. If the leg alone ends the handoff was undone.
func (s *Server) await(c net.Conn, leg *net.TCPConn, r *request) (why string) {
	deadline := time.Now().Add(s.o.Handoff)
	_ = leg.SetReadDeadline(deadline)
	_ = c.SetReadDeadline(deadline)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := io.Copy(io.Discard, leg) // nothing comes before the handoff; what would is lost with the leg
		if !errors.Is(err, syscall.ECONNRESET) || s.ctx.Err() != nil {
			_ = c.SetReadDeadline(time.Unix(1, 0))
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(settle))
	}()
	defer func() {
		_ = leg.SetReadDeadline(time.Unix(1, 0))
		<-ended
	}()
	err := r.more(c)
	if errors.Is(err, os.ErrDeadlineExceeded) { // on a busy machine what came in time may be unread
		_ = c.SetReadDeadline(time.Now().Add(settle))
		err = r.more(c)
	}
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return ""
	case errors.Is(err, io.EOF):
		return "client-finished"
	}
	return "undone"
}

// handover is a listener whose connections are given to it.
type handover struct {
	conns chan net.Conn
	done  <-chan struct{}
	at    net.Addr
}

// Accept implements [net.Listener], as Close and Addr do.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (*handover) Close() error     { return nil }
func (h *handover) Addr() net.Addr { return h.at }

func (h *handover) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		c.Close()
	}
}

// begun is a connection of which something was read.
type begun struct {
	net.Conn
	read []byte
}

func (c *begun) Read(b []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(b, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// NetConn is the connection as the kernel knows it.
func (c *begun) NetConn() net.Conn { return c.Conn }

// CloseWrite serves the proxy's lingering close.
func (c *begun) CloseWrite() error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.CloseWrite()
	}
	return nil
}
