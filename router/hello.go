package router

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"time"

	kernel "baton/datapath/router"
	"baton/packet/hello"
	"baton/router/accesslog"
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/passthrough"
	"baton/router/proxyheader"
)

// helloWait is how long a client may be silent in the middle of its hello, of which nothing is acknowledged: then it may wait for
// an ACK itself (Nagle's algorithm), or have sent all that it may, and a socket takes over.
const helloWait = 50 * time.Millisecond

// keptHelloWait is the same for a VIP with pools that keep clients' addresses, where that socket would refuse it: enough for what was
// lost to come again.
const keptHelloWait = 1500 * time.Millisecond

// readHello starts the decision once a hello is complete. What is refused goes to the VIP's socket too, which reads it again and
// answers. ends: the client has sent FIN. Called with the lock.
func (u *upcalls) readHello(ctx context.Context, p *pending, ends bool) {
	h, err := hello.Read(p.contiguous())
	switch {
	case err == nil:
		u.begin(p, func() {
			for !u.decideHello(ctx, u.r.current(), p, &h) {
			}
		})
	case !errors.Is(err, hello.ErrIncomplete) || ends:
		u.handOver(leaving{p, nil, "refused"})
	default:
		had := p.bytes
		time.AfterFunc(u.r.current().helloWait(p.vip), func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.clients[clientKey{p.client, p.vip}] == p && !p.decided && p.bytes == had {
				u.handOver(leaving{p, nil, "proxied"})
			}
		})
	}
}

// decideHello decides by one state. False: another is in force now.
func (u *upcalls) decideHello(ctx context.Context, s *state, p *pending, h *hello.Hello) bool {
	vip, ok := s.byAddr[p.vip]
	if !ok {
		u.forget(p)
		return true
	}
	match, ok := s.routes.MatchHello(vip, h)
	if !ok {
		u.local(p, nil, "no route")
		return true
	}
	pool := s.pools[match.Pool]
	return u.splice(ctx, s, p, &wanted{
		vip: vip, pool: pool, ask: pool.asksHello(h, p.client.Addr()), decision: kernel.Decision{Pool: pool.id, Opaque: true}, name: []byte(h.ServerName), sent: h.Sent,
	})
}

// newPassthrough makes the server for connections to an encrypted VIP that sockets serve.
func (r *Router) newPassthrough(at netip.AddrPort) (*passthrough.Server, error) {
	hooks := r.metrics.Passthrough(at)
	hooks.Failure = func(surrogate string, err error) {
		kind := fallback.DialFailure(err)
		r.metrics.Failed(surrogate, kind)
		r.blame(surrogate, kind)
	}
	count := hooks.Session
	hooks.Session = func(x passthrough.Session) {
		count(x)
		r.logPassed(at, &x)
	}
	return passthrough.New(passthrough.Options{
		VIP: at, Dial: health.Dialer(nil).DialContext, Hooks: hooks, Log: r.log, Hello: r.current().cfg.Timeouts.Handshake,
		Idle: func() time.Duration { return r.current().cfg.Timeouts.Idle },
		Decide: func(h *hello.Hello, client netip.AddrPort, exclude []string) passthrough.Decision {
			return r.decidePassed(at, h, client, exclude)
		},
	})
}

// decidePassed chooses the surrogate for a hello that a socket has read.
func (r *Router) decidePassed(vip netip.AddrPort, h *hello.Hello, client netip.AddrPort, exclude []string) passthrough.Decision {
	s := r.current()
	i, ok := s.byAddr[vip]
	if !ok {
		return passthrough.Decision{Alert: hello.InternalError, Reason: "no_vip"}
	}
	match, ok := s.routes.MatchHello(i, h)
	switch {
	case !ok && h.ServerName == "":
		return passthrough.Decision{Alert: hello.MissingExtension, Reason: "no_name"}
	case !ok:
		return passthrough.Decision{Alert: hello.UnrecognizedName, Reason: "no_route"}
	}
	p := s.pools[match.Pool]
	if p.cfg.Keeps() { // its surrogates would take the router's address for the client's
		return passthrough.Decision{Alert: hello.InternalError, Reason: "not_spliced"}
	}
	chosen, ok := p.usable(r.upcalls.proxied.pop(clientKey{client, vip}))
	if !ok {
		ask := p.asksHello(h, client.Addr())
		chosen, _, ok = r.pick(p, &ask, exclude, byHandoff, r.sessions)
	}
	if !ok {
		return passthrough.Decision{Alert: hello.InternalError, Reason: "no_surrogate"}
	}
	sg := p.cfg.Surrogates[chosen]
	return passthrough.Decision{Surrogate: sg.Name, Address: sg.Address, Header: proxyheader.Of(p.cfg)}
}

// logPassed writes a session that a socket has passed on.
func (r *Router) logPassed(vip netip.AddrPort, x *passthrough.Session) {
	if !r.access.Enabled() {
		return
	}
	rec := accesslog.Record{
		Time: x.Started, Client: x.Client, VIP: vip, Protocol: accesslog.TLS, Host: []byte(x.Name), Surrogate: x.Surrogate, SurrogateAddress: x.Address,
		FromClient: uint64(x.Received), FromSurrogate: uint64(x.Sent), WholeSession: true, Duration: x.Duration, Served: accesslog.Proxied,
	}
	if x.Err != nil {
		rec.End = accesslog.ServerRST
	}
	if s := r.current(); s != nil {
		rec.Pool = s.poolOf(x.Surrogate)
	}
	_, _ = rand.Read(rec.ID[:]) // never fails (crypto/rand)
	r.access.Write([]accesslog.Record{rec})
}
