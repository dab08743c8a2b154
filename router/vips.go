package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"baton/router/config"
	"baton/router/fallback"
	"baton/router/head"
	"baton/router/health"
	"baton/router/proxyheader"
)

// vipServer is a VIP's ordinary listener, for all modes but handoff and for what cannot be spliced.
type vipServer struct {
	kind     serverKind
	server   server
	verdicts *fallback.Verdicts
	address  netip.Addr
}

// serverKind is what a listener does with connections.
type serverKind struct {
	mode     config.Mode
	protocol config.Protocol
	secure   bool // the listener ends TLS
	// controller is the settings of mode reactive.
	controller string
}

// server is a fallback.Server, a passthrough.Server for an encrypted protocol, or a reactiveServer.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

const (
	verdictsHeld    = 4096
	verdictLife     = 30 * time.Second
	shutdownTimeout = 5 * time.Second // for open requests when a listener is closed
	// localLinger is how long packets of a closed proxied connection still go to its socket.
	localLinger = 15 * time.Second
)

// listen opens the listeners of new VIPs and closes those of old ones.
func (r *Router) listen(s *state) error {
	want := make(map[netip.AddrPort]*config.VIP)
	for i := range s.cfg.VIPs {
		if v := &s.cfg.VIPs[i]; v.Protocol != config.QUIC {
			want[v.Address] = v
		}
	}
	r.mu.Lock()
	var old []*vipServer
	for at, l := range r.servers {
		if v, keep := want[at]; !keep || kindOf(v) != l.kind {
			old = append(old, l)
			delete(r.servers, at)
		}
	}
	r.mu.Unlock()
	for _, l := range old {
		r.stop(l)
	}
	for at, vip := range want {
		r.mu.Lock()
		have := r.servers[at]
		r.mu.Unlock()
		if have != nil {
			if f, ok := have.server.(*fallback.Server); ok && have.kind.secure {
				f.SetCertificates(vip.Certificates())
			}
			continue
		}
		l, err := r.newVIPServer(at, vip)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.servers[at] = l
		r.mu.Unlock()
	}
	return nil
}

func kindOf(v *config.VIP) serverKind {
	return serverKind{v.Mode, v.Protocol, len(v.TLS) > 0, v.Controller.String()}
}

func (r *Router) newVIPServer(at netip.AddrPort, vip *config.VIP) (_ *vipServer, err error) {
	v := &vipServer{kind: kindOf(vip), verdicts: fallback.NewVerdicts(verdictsHeld, verdictLife), address: at.Addr()}
	if err := r.addresses.add(v.address, r.tap.Ifindex); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.addresses.remove(v.address, r.tap.Ifindex))
		}
	}()
	if v.kind.protocol.Encrypted() {
		v.server, err = r.newPassthrough(at)
	} else {
		v.server, err = r.newServer(vip, v.verdicts)
	}
	if err != nil {
		return nil, err
	}
	l, err := fallback.Listen(r.ctx, at)
	if err != nil {
		return nil, fmt.Errorf("listen on the VIP: %w", err)
	}
	r.group.Go(func() error {
		err := v.server.Serve(&vipListener{Listener: l, r: r, vip: at, last: make(map[netip.AddrPort]*vipConn)})
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	})
	return v, nil
}

// newServer returns the server of a VIP whose requests can be read.
func (r *Router) newServer(vip *config.VIP, verdicts *fallback.Verdicts) (server, error) {
	proxy, err := r.newFallback(vip, verdicts)
	if err != nil || vip.Mode != config.Reactive {
		return proxy, err
	}
	return r.newReactive(vip, proxy), nil
}

func (r *Router) newFallback(v *config.VIP, verdicts *fallback.Verdicts) (*fallback.Server, error) {
	at, mode := v.Address, v.Mode
	hooks := r.metrics.Fallback(at)
	count := hooks.Failure
	hooks.Failure = func(surrogate string, kind fallback.FailureKind) {
		count(surrogate, kind)
		r.blame(surrogate, kind)
	}
	measure := hooks.Request
	hooks.Request = func(x fallback.Exchange) {
		measure(x)
		r.logProxied(at, mode, &x)
	}
	return fallback.New(fallback.Options{
		VIP: at, Mode: mode, Decide: r.decideProxied, Verdicts: verdicts, Certificates: v.Certificates(),
		Dial: health.Dialer(nil).DialContext, Hooks: hooks, Log: r.log,
	})
}

// blame tells the health checks of a surrogate that did not answer.
func (r *Router) blame(surrogate string, kind fallback.FailureKind) {
	if fallback.Blames(kind) {
		r.health.ReportFailure(surrogate, kind)
	} else if kind != fallback.FailureLocal {
		r.health.Suspect(surrogate)
	}
}

func (r *Router) stop(v *vipServer) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	_ = v.server.Shutdown(ctx)
	if err := r.addresses.remove(v.address, r.tap.Ifindex); err != nil {
		r.log.Error("cannot remove address from the tap", "err", err)
	}
}

func (r *Router) stopListeners() {
	r.mu.Lock()
	all := r.servers
	r.servers = make(map[netip.AddrPort]*vipServer)
	r.mu.Unlock()
	for _, l := range all {
		r.stop(l)
	}
}

// vipListener notifies the data path when a connection assigned to a socket has ended.
type vipListener struct {
	net.Listener
	r   *Router
	vip netip.AddrPort

	mu   sync.Mutex
	last map[netip.AddrPort]*vipConn // by client
}

func (l *vipListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	remote, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	v := &vipConn{Conn: c, l: l, client: unmap(remote)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[v.client] = v
	return v, nil
}

// forget drops the client from the data path, unless it has reused the port.
func (l *vipListener) forget(v *vipConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[v.client] == v {
		delete(l.last, v.client)
		l.r.dp.ForgetClient(v.client, l.vip)
	}
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

type vipConn struct {
	net.Conn
	l      *vipListener
	client netip.AddrPort
}

// NetConn is the connection as the kernel knows it.
func (c *vipConn) NetConn() net.Conn { return c.Conn }

// CloseWrite serves the server's lingering close.
func (c *vipConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

func (c *vipConn) Close() error {
	err := c.Conn.Close()
	time.AfterFunc(localLinger, func() { c.l.forget(c) })
	return err
}

// decideProxied chooses the surrogate for a request that the router's own server has read.
func (r *Router) decideProxied(vip netip.AddrPort, req *http.Request, client netip.AddrPort, exclude []string) fallback.Decision {
	s := r.current()
	i, ok := s.byAddr[vip]
	if !ok {
		return fallback.Decision{Status: http.StatusNotFound, Reason: "this address is no longer served"}
	}
	h := headOf(req)
	match, ok := s.routes.Match(i, &h)
	if !ok {
		return fallback.Decision{Status: http.StatusNotFound, Reason: "no route matches the request"}
	}
	p := s.pools[match.Pool]
	if p.cfg.Keeps() { // its surrogates would take the router's address for the client's
		return fallback.Decision{Status: http.StatusServiceUnavailable, Reason: "the session cannot be spliced, and its surrogates serve no other"}
	}
	at, ok := p.usable(r.upcalls.proxied.pop(clientKey{client, vip}))
	bypass := ""
	if !ok {
		ask, method := p.asks(&h, client.Addr()), byHandoff
		if s.cfg.VIPs[i].Mode == config.Redirect {
			method = byRedirect
		}
		at, bypass, ok = r.pick(p, &ask, exclude, method, r.sessions)
	}
	if !ok && bypass != "" {
		return fallback.Decision{Bypass: bypass}
	}
	if !ok {
		return fallback.Decision{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}
	}
	sg := p.cfg.Surrogates[at]
	return fallback.Decision{Surrogate: sg.Name, Address: sg.Address, Public: p.public(at), Own: p.cfg.Reuse != config.ReuseAlways, Header: proxyheader.Of(p.cfg), Fields: p.fields, Rewrite: match.Rewrite}
}

// headOf converts a request from net/http for route matching: its path is as sent, as after head.Parse, and not as package url writes it.
func headOf(req *http.Request) head.Request {
	path, query, _ := strings.Cut(head.OriginForm(req.RequestURI), "?")
	h := head.Request{Method: []byte(req.Method), Target: []byte(req.RequestURI), Path: []byte(path), Query: []byte(query)}
	host := req.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	h.Host = []byte(strings.TrimSuffix(asciiLower(host), "."))
	for name, values := range req.Header {
		for _, v := range values {
			h.Fields = append(h.Fields, name+": "+v+"\r\n"...)
		}
	}
	return h
}

func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
