package vips

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"baton/api"
	"baton/router/accesslog"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/metrics"
	"baton/router/outcome"
	"baton/router/passthrough"
	"baton/router/reactive"
	"baton/router/state"
)

// Options of Servers. Functions are called from many goroutines.
type Options struct {
	Addresses *Addresses
	Access    *accesslog.Writer
	Metrics   *metrics.Metrics
	Log       *slog.Logger

	// Snapshot is the one in force.
	Snapshot func() *state.Snapshot
	// Pick chooses a surrogate of a pool, as state.Pool.Pick does; method is the way in which the client gets there.
	Pick func(p *state.Pool, q *state.Question, exclude []string, method string) (state.Choice, bool)
	// TakeChosen returns the surrogate that was chosen for a client before it was handed over; "" if none was.
	TakeChosen func(client, vip netip.AddrPort) string
	// TakeReason returns why a client was handed over; "" if it was not.
	TakeReason func(client, vip netip.AddrPort) outcome.Outcome
	// Attached are the interfaces on which the kernel sees the clients of VIPs of mode handoff.
	Attached func() []int
	// ForgetClient ends the assignment of a client to its socket.
	ForgetClient func(client, vip netip.AddrPort)
	// Blame gets a surrogate that did not answer.
	Blame func(surrogate string, kind fallback.FailureKind)
	// Spawn starts a task that ends with the router, whose error ends the router.
	Spawn func(task func(ctx context.Context) error)
}

// Servers are the servers of all VIPs but those of QUIC.
type Servers struct {
	o Options

	stopped atomic.Bool // no timer may do anything
	devices devices

	mu sync.Mutex
	at map[netip.AddrPort]*vipServer
}

// New makes Servers, none yet.
func New(o Options) *Servers { return &Servers{o: o, at: make(map[netip.AddrPort]*vipServer)} }

// vipServer is a VIP's server.
type vipServer struct {
	kind     serverKind
	server   server
	verdicts *fallback.Verdicts
	proxied  *proxied
	address  netip.Addr
}

// serverKind describes a server: another kind is another server.
type serverKind struct {
	mode     config.Mode
	protocol config.Protocol
	secure   bool // it ends TLS
	// controller is the settings of mode reactive.
	controller string
}

// server is a fallback.Server, a passthrough.Server for an encrypted protocol, or a reactive.Service.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

const (
	maxVerdicts     = 4096
	verdictLife     = 30 * time.Second
	shutdownTimeout = 5 * time.Second // for open requests when a server is closed
)

// Update opens the servers of new VIPs and closes those of old ones.
func (s *Servers) Update(c *state.Compiled) error {
	for _, l := range s.takeOthers(c) {
		s.stop(l)
	}
	for at, i := range c.VIPs {
		vip := &c.Config.VIPs[i]
		if have := s.get(at); have != nil {
			if f, ok := have.server.(*fallback.Server); ok && have.kind.secure {
				f.SetCertificates(vip.Certificates())
			}
			continue
		}
		l, err := s.open(at, vip)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.at[at] = l
		s.mu.Unlock()
	}
	return nil
}

// takeOthers removes and returns the servers that a configuration does not have.
func (s *Servers) takeOthers(c *state.Compiled) (others []*vipServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, l := range s.at {
		if v := c.VIP(at); v == nil || kindOf(v) != l.kind {
			others = append(others, l)
			delete(s.at, at)
		}
	}
	return others
}

func (s *Servers) get(at netip.AddrPort) *vipServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[at]
}

func kindOf(v *config.VIP) serverKind {
	return serverKind{v.Mode, v.Protocol, len(v.TLS) > 0, v.Controller.String()}
}

// open opens a VIP's server.
func (s *Servers) open(at netip.AddrPort, vip *config.VIP) (_ *vipServer, err error) {
	v := &vipServer{
		kind: kindOf(vip), verdicts: fallback.NewVerdicts(maxVerdicts, verdictLife), proxied: newProxied(vip.Mode),
		address: at.Addr(),
	}
	if err := s.o.Addresses.Add(v.address); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.o.Addresses.Remove(v.address))
		}
	}()
	if v.server, err = s.makeServer(vip, v); err != nil {
		return nil, err
	}
	l, err := fallback.Listen(context.Background(), at) // it does not wait
	if err != nil {
		return nil, fmt.Errorf("listen on the VIP: %w", err)
	}
	s.o.Spawn(func(context.Context) error { // Stop ends it
		err := v.server.Serve(&listener{
			Listener: l, forgetClient: s.forgetClient, findReason: s.findReason, vip: at, proxied: v.proxied,
			last: make(map[netip.AddrPort]*conn),
		})
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	})
	return v, nil
}

// makeServer makes the server of a VIP.
func (s *Servers) makeServer(vip *config.VIP, of *vipServer) (server, error) {
	if vip.Protocol.Encrypted() {
		return s.makePassthrough(vip.Address)
	}
	proxy, err := s.makeProxy(vip, of)
	if err != nil || vip.Mode != config.Reactive {
		return proxy, err
	}
	return reactive.NewService(vip, proxy, s.o.Log), nil
}

// mostHead bounds the rest of a head that a socket has been given, where timeouts.handshake is longer: one that a reload
// shortens does not count for the connections that are there.
const mostHead = 10 * time.Second

// makeProxy makes the server of a VIP whose requests can be read.
func (s *Servers) makeProxy(v *config.VIP, of *vipServer) (*fallback.Server, error) {
	at, mode := v.Address, v.Mode
	hooks := s.o.Metrics.Fallback(at)
	count := hooks.Failure
	hooks.Failure = func(surrogate string, kind fallback.FailureKind) {
		count(surrogate, kind)
		s.o.Blame(surrogate, kind)
	}
	measure := hooks.Request
	hooks.Request = func(x fallback.Exchange) {
		measure(x)
		if x.Surrogate != "" {
			of.proxied.requests.Add(1)
		}
		s.writeExchange(at, mode, &x)
	}
	return fallback.New(fallback.Options{
		Timeouts: fallback.Timeouts{Head: min(s.o.Snapshot().Config.Timeouts.Handshake, mostHead)},
		VIP:      at, Mode: mode, Decide: s.decideRequest, Verdicts: of.verdicts, Certificates: v.Certificates(),
		Dial: health.Dialer(nil).DialContext, Hooks: hooks, Log: s.o.Log,
	})
}

// makePassthrough makes the server for connections to an encrypted VIP that sockets serve.
func (s *Servers) makePassthrough(at netip.AddrPort) (*passthrough.Server, error) {
	hooks := s.o.Metrics.Passthrough(at)
	hooks.Failure = func(surrogate string, err error) {
		kind := fallback.DialFailure(err)
		s.o.Metrics.Failed(surrogate, kind)
		s.o.Blame(surrogate, kind)
	}
	count := hooks.Session
	hooks.Session = func(x passthrough.Session) {
		count(x)
		s.writePassed(at, &x)
	}
	return passthrough.New(passthrough.Options{
		VIP: at, Dial: health.Dialer(nil).DialContext, Hooks: hooks, Log: s.o.Log, Hello: s.o.Snapshot().Config.Timeouts.Handshake,
		Idle:   func() time.Duration { return s.o.Snapshot().Config.Timeouts.Idle },
		Decide: s.decideHello(at),
	})
}

// Verdicts are the answers decided for clients of a VIP before its server accepts them.
func (s *Servers) Verdicts(vip netip.AddrPort) *fallback.Verdicts {
	if l := s.get(vip); l != nil {
		return l.verdicts
	}
	return fallback.NewVerdicts(1, time.Second)
}

// ControllerStatus returns what a VIP has of its controller; nil if it has none.
func (s *Servers) ControllerStatus(vip netip.AddrPort) *api.RouterController {
	if l := s.get(vip); l != nil {
		if service, ok := l.server.(*reactive.Service); ok {
			return service.Status()
		}
	}
	return nil
}

// forgetClient ends the assignment of a client to its socket, a while after its connection was closed.
func (s *Servers) forgetClient(client, vip netip.AddrPort) {
	if !s.stopped.Load() { // else the next process forgets all of them
		s.o.ForgetClient(client, vip)
	}
}

// Stop closes all servers, and waits a while for their open requests.
func (s *Servers) Stop() {
	defer s.stopped.Store(true)
	s.mu.Lock()
	all := s.at
	s.at = make(map[netip.AddrPort]*vipServer)
	s.mu.Unlock()
	for _, l := range all {
		s.stop(l)
	}
}

func (s *Servers) stop(v *vipServer) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	_ = v.server.Shutdown(ctx)
	if err := s.o.Addresses.Remove(v.address); err != nil {
		s.o.Log.Error("cannot remove address from the tap", "err", err)
	}
}
