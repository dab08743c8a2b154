package fallback

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"baton/router/head"
)

// FailureKind is how a surrogate failed to answer.
type FailureKind = string

// The kinds of failure.
const (
	FailureRefused     FailureKind = "refused"      // RST to the SYN
	FailureUnreachable FailureKind = "unreachable"  // no route to it
	FailureDialTimeout FailureKind = "dial-timeout" // no answer to the SYN
	FailureTimeout     FailureKind = "timeout"      // connected, but no response in time
	FailureReset       FailureKind = "reset"        // closed or reset before a response byte
	FailureMalformed   FailureKind = "malformed"    // sent something that is not HTTP
	FailureLocal       FailureKind = "local"        // local failure: no ports or descriptors
)

// Blames reports whether the failure counts against the surrogate: no client can cause it.
func Blames(kind FailureKind) bool {
	return kind == FailureRefused || kind == FailureDialTimeout || kind == FailureUnreachable
}

// passage is one request in the proxy; it travels in the request's context.
type passage struct {
	in        *http.Request
	id        [16]byte
	guard     *guard
	decision  Decision
	refused   bool   // for its form: in stands for it
	surrogate string // that answered
	address   netip.AddrPort
	retries   int
	bodyErr   error // reading the client's body failed
	lastKind  FailureKind
}

type passageKey struct{}

func passageOf(ctx context.Context) *passage { return ctx.Value(passageKey{}).(*passage) }

// RoundTrip tries surrogates until one starts to answer. A request is retried only if the failed surrogate sent no byte of a
// response, none of the client's body is consumed, and a repetition is harmless: the method is idempotent (RFC 9110 section
// 9.2.2), the request was never sent, or it was sent without its announced body.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	p := passageOf(req.Context())
	d := p.decision
	var failed []string
	for {
		res, a, err := s.attempt(p, req, d)
		if err == nil {
			p.surrogate, p.address = d.Surrogate, d.Address
			return res, nil
		}
		if a.body != nil && a.body.err() != nil {
			p.bodyErr = a.body.err()
			return nil, err
		}
		if req.Context().Err() != nil {
			return nil, err
		}
		p.lastKind = failureKind(err)
		s.hooks.Failure(d.Surrogate, p.lastKind)
		s.log.Info("surrogate failed", "surrogate", d.Surrogate, "address", d.Address.String(), "kind", p.lastKind, "error", err)
		failed = append(failed, d.Surrogate)
		if len(failed) >= s.attempts || !a.repeatable(req) {
			return nil, err
		}
		next := s.decide(s.vip, p.in, p.guard.client, failed)
		if next.Status != 0 || !next.Address.IsValid() || slices.Contains(failed, next.Surrogate) {
			return nil, err
		}
		d = next
		p.retries++
	}
}

type attempt struct {
	sent     atomic.Bool // the head, at least
	answered atomic.Bool // the first octet of a response
	body     *attemptBody
}

// transportFor returns the transport shared by all clients, or this client's own: if the decision says so, and once one of its
// requests had credentials that may apply to the connection, as other clients' requests there would be taken for this one's.
func (s *Server) transportFor(g *guard, req *http.Request, d Decision) *http.Transport {
	if g.private.Load() == nil && (d.Own || binds(req.Header)) {
		own := newTransport(s.dialFor(g), s.timeouts, false)
		g.private.CompareAndSwap(nil, own) // another request of HTTP/2 may have been first
	}
	if own := g.private.Load(); own != nil {
		g.headers.Store(d.Address.String(), d.Header)
		return own
	}
	return s.transport
}

func binds(h http.Header) bool {
	for _, name := range []string{"Authorization", "Proxy-Authorization"} {
		if slices.ContainsFunc(h.Values(name), func(credentials string) bool { return head.Binds([]byte(credentials)) }) {
			return true
		}
	}
	return false
}

func (s *Server) attempt(p *passage, req *http.Request, d Decision) (*http.Response, *attempt, error) {
	a := &attempt{}
	trace := &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { i.Conn.(*headConn).expect(req.Method) },
		WroteHeaders:         func() { a.sent.Store(true) },
		GotFirstResponseByte: func() { a.answered.Store(true) },
	}
	out := req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	target := *req.URL
	target.Scheme, target.Host = "http", d.Address.String()
	out.URL = &target
	if req.Body != nil {
		a.body = &attemptBody{from: req.Body, ended: func() { p.decision.Fields.Strip(req.Trailer) }}
		out.Body = a.body
	}
	res, err := s.transportFor(p.guard, req, d).RoundTrip(out)
	if err != nil && a.body != nil {
		a.body.Close()
	}
	return res, a, err
}

func (a *attempt) repeatable(req *http.Request) bool {
	if a.answered.Load() || (a.body != nil && a.body.touched()) {
		return false
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return !a.sent.Load() || a.body != nil
}

// attemptBody lends the client's body to one attempt. After Close nothing is read from it, although the transport's goroutine may
// still hold it.
type attemptBody struct {
	from  io.Reader
	ended func() // at the end, when net/http has filled the trailer

	mu      sync.Mutex
	closed  bool
	read    bool
	failure error
}

func (b *attemptBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	b.read = true
	b.mu.Unlock()
	n, err := b.from.Read(p)
	if err == io.EOF {
		b.ended()
	}
	if err != nil && err != io.EOF {
		b.mu.Lock()
		b.failure = err
		b.mu.Unlock()
	}
	return n, err
}

func (b *attemptBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

func (b *attemptBody) touched() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

func (b *attemptBody) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// DialFailure is the kind of a failure to connect to a surrogate.
func DialFailure(err error) FailureKind { return failureKind(&dialError{err}) }

func failureKind(err error) FailureKind {
	var dial *dialError
	timeout := isTimeout(err)
	var network *net.OpError
	switch {
	case errors.As(err, &dial):
		switch {
		case timeout:
			return FailureDialTimeout
		case errors.Is(err, syscall.ECONNREFUSED):
			return FailureRefused
		case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTDOWN):
			return FailureUnreachable
		}
		return FailureLocal
	case timeout:
		return FailureTimeout
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err.Error() == "http: server closed idle connection": // net/http exports no name for it
		return FailureReset
	}
	return FailureMalformed
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &t) && t.Timeout())
}

// exactTarget sets the URL so that the surrogate receives byte for byte what the client sent, as after a handoff; net/url would
// normalize some escapes.
func exactTarget(out *url.URL, target string) {
	if len(target) == 0 || target[0] != '/' || (len(target) > 1 && target[1] == '/') {
		return // "*", absolute-form, or a path that net/url would parse as an authority
	}
	for i := range len(target) {
		if target[i] == '?' {
			out.Opaque, out.RawQuery, out.ForceQuery = target[:i], target[i+1:], i+1 == len(target)
			return
		}
	}
	out.Opaque, out.RawQuery, out.ForceQuery = target, "", false
}
