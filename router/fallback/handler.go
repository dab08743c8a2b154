package fallback

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"baton/router/config"
	"baton/router/fields"
	"baton/router/head"
)

// retryAfter is sent when no surrogate is up, in seconds: about one health check and its rise.
const retryAfter = 5

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	g := guardOf(r.Context())
	rec := &recorder{ResponseWriter: w, guard: g, continues: r.ContentLength != 0 && r.Header.Get("Expect") != "", old: !r.ProtoAtLeast(1, 1)}
	if g.multiplexed {
		rec.stream = newStream(w, r, s.timeouts.Stall)
		defer rec.stream.end()
	}
	p := &passage{in: r, guard: g}
	_, _ = rand.Read(p.id[:]) // never fails (crypto/rand)
	complete := false         // else a panic of net/http's, or of the proxy, breaks the response off
	defer func() { s.hooks.Request(p.exchange(rec, started, complete)) }()
	s.serve(rec, r, p)
	complete = true
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, p *passage) {
	g := p.guard
	if v := s.refusal(g, r); v != nil {
		p.refused = true
		s.hooks.Refused(v.Status, v.Reason)
		p.closes(w)
		answer(w, v.Status, v.Reason)
		return
	}
	p.decision = s.decide(s.vip, r, g.client, nil)
	switch d := p.decision; {
	case d.Status != 0:
		answer(w, d.Status, d.Reason)
	case d.Bypass != "":
		redirect(w, r, d.Bypass, d, "no surrogate can serve this now: "+d.Bypass+" does")
	case !d.Address.IsValid():
		answer(w, http.StatusServiceUnavailable, "no surrogate is up")
	case s.mode == config.Redirect:
		base := d.Public
		if base == "" {
			base = "http://" + d.Address.String()
		}
		redirect(w, r, base, d, "surrogate "+d.Surrogate+" answers this")
	default:
		s.pass(w, r, p)
	}
}

// refusal returns the verdict against a request, or nil.
func (s *Server) refusal(g *guard, r *http.Request) *Verdict {
	if g.multiplexed {
		return s.checkRequest(r)
	}
	if v, refused := g.refusal(); refused {
		return &v
	}
	return nil
}

// closes ends a connection with the response. One of HTTP/2 has other requests, which nothing is wrong with.
func (p *passage) closes(w http.ResponseWriter) {
	if !p.guard.multiplexed {
		w.Header().Set("Connection", "close")
	}
}

// exchange is what there is to say of a request that is over.
func (p *passage) exchange(rec *recorder, started time.Time, complete bool) Exchange {
	x := Exchange{
		Surrogate: p.surrogate, Status: rec.status, Sent: rec.sent, Retries: p.retries, Duration: time.Since(started),
		ID: p.id, Started: started, Client: p.guard.client, Address: p.address, Request: p.in,
		Failed: p.surrogate == "" && p.lastKind != "", Broken: !complete, Gone: p.in.Context().Err() != nil,
	}
	if !rec.began.IsZero() {
		x.FirstByte = rec.began.Sub(started)
	}
	if p.refused {
		x.Request = nil // the one at hand stands for what could not be read
	}
	return x
}

func (s *Server) pass(w http.ResponseWriter, r *http.Request, p *passage) {
	ctx := context.WithValue(r.Context(), passageKey{}, p)
	if s.timeouts.Total > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeouts.Total)
		defer cancel()
	}
	r = r.WithContext(ctx)
	if !p.guard.mayUpgrade() {
		r.Header.Del("Upgrade") // HTTP/2 in the clear, or HTTP/1.0: no switch
		r.Header.Del("Http2-Settings")
	}
	s.proxy.ServeHTTP(w, r)
}

// answer sends the router's own response, one line of text.
func answer(w http.ResponseWriter, status int, reason string) {
	if status < 200 || status > 599 {
		status = http.StatusInternalServerError // an invalid status must not crash the server
	}
	if reason == "" {
		reason = strings.ToLower(http.StatusText(status))
	}
	body := strconv.Itoa(status) + " " + http.StatusText(status) + ": " + reason + "\n"
	h := w.Header()
	h.Set("Server", "baton")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(status)
	io.WriteString(w, body) // fails only if the client has gone
}

// redirect redirects the client, such as to the surrogate's own name. 307 keeps methods other than GET and HEAD (RFC 9110 section 15.4.8).
func redirect(w http.ResponseWriter, r *http.Request, base string, d Decision, why string) {
	target := "/"
	if r.RequestURI != "*" {
		target = d.Rewrite.Path(head.OriginForm(r.RequestURI))
	}
	status := http.StatusTemporaryRedirect
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		status = http.StatusFound
	}
	w.Header().Set("Location", strings.TrimSuffix(base, "/")+target)
	answer(w, status, why)
}

func (s *Server) newProxy(errorLog *log.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			pr.Out.Host = pr.In.Host
			passageOf(pr.In.Context()).setTarget(pr)
			pr.Out.Trailer = pr.In.Trailer // shared map: net/http fills it at the end of the body
			passageOf(pr.In.Context()).introduce(pr)
		},
		Transport: s,
		// Responses of known length may be buffered for this long; others are flushed at once.
		FlushInterval: time.Millisecond,
		BufferPool:    &copyBuffers,
		ErrorLog:      errorLog,
		ModifyResponse: func(res *http.Response) error {
			p := passageOf(res.Request.Context())
			if p.guard.mayUpgrade() && res.StatusCode != http.StatusSwitchingProtocols {
				res.Header.Set("Connection", "close") // the client's further bytes are not checked
			}
			return nil
		},
		ErrorHandler: s.proxyFailed,
	}
}

// setTarget makes the target and the host of the request that the surrogate gets.
func (p *passage) setTarget(pr *httputil.ProxyRequest) {
	r, target := p.decision.Rewrite, head.OriginForm(pr.In.RequestURI)
	if r.Host != "" {
		pr.Out.Host = r.Host
	}
	if r.Prefix != "" && target != "*" {
		target = r.Path(target)
		pr.Out.URL.Path, pr.Out.URL.RawPath = pathOf(target)
	}
	exactTarget(pr.Out.URL, target)
}

// pathOf is the path of a target in origin form, decoded and as sent.
func pathOf(target string) (decoded, raw string) {
	raw, _, _ = strings.Cut(target, "?")
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return raw, "" // whoever read the request has refused such an escape
	}
	return decoded, raw
}

// introduce tells the surrogate its client, in place of what the client claims. Fields that a client names in Connection are gone
// already; those that are set here stay.
func (p *passage) introduce(pr *httputil.ProxyRequest) {
	p.decision.Fields.SetProxied(pr.Out.Header, pr.In.Header, &fields.Client{
		Address: p.guard.client.Addr(), Host: pr.In.Host, Secure: pr.In.TLS != nil, ID: p.id,
	})
	p.decision.Fields.Strip(pr.Out.Trailer) // the names that it announces
}

// proxyFailed answers if no surrogate did.
func (s *Server) proxyFailed(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r.Context())
	if p.in.ContentLength != 0 {
		p.closes(w) // part of the client's body may be consumed
	}
	switch {
	case p.bodyErr != nil && p.guard.malformed.Load(): // net/http wraps errors in various ways
		s.hooks.Refused(http.StatusBadRequest, errMalformedBody.Error())
		answer(w, http.StatusBadRequest, errMalformedBody.Error())
	case p.bodyErr != nil && isTimeout(p.bodyErr):
		s.hooks.Refused(http.StatusRequestTimeout, "request body stalled")
		answer(w, http.StatusRequestTimeout, "request body not received in time")
	case p.bodyErr != nil, errors.Is(r.Context().Err(), context.Canceled):
		panic(http.ErrAbortHandler) // the client has gone
	case errors.Is(r.Context().Err(), context.DeadlineExceeded):
		answer(w, http.StatusGatewayTimeout, "the request took too long")
	case p.lastKind == FailureTimeout || p.lastKind == FailureDialTimeout:
		answer(w, http.StatusGatewayTimeout, "the surrogate did not answer in time")
	default:
		reason := "the surrogate did not answer"
		if p.lastKind != "" {
			reason += " (" + p.lastKind + ")"
		}
		s.log.Debug("answer 502", "error", err)
		answer(w, http.StatusBadGateway, reason)
	}
}

// recorder records what was sent to the client.
type recorder struct {
	http.ResponseWriter
	guard     *guard
	stream    *stream // of HTTP/2; nil: the guard bounds the writes
	continues bool    // net/http sends 100 (Continue) when the proxy begins to read the request's content
	old       bool    // the client's HTTP/1.0 knows no interim responses (RFC 9110, 15.2)
	status    int
	sent      int64
	began     time.Time // of the final response
}

func (r *recorder) WriteHeader(status int) {
	switch {
	case status >= 200 || status == http.StatusSwitchingProtocols:
		r.status, r.began = status, time.Now()
	case r.old, status == http.StatusContinue && r.continues:
		return
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	defer r.stream.writing()()
	n, err := r.ResponseWriter.Write(p)
	r.sent += int64(n)
	return n, err
}

// FlushError is Flush for http.ResponseController.
func (r *recorder) FlushError() error {
	defer r.stream.writing()()
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack takes over the connection for another protocol.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = http.StatusSwitchingProtocols
		r.guard.progress.Store(time.Now().UnixNano())
		r.guard.switched.Store(true)
	}
	return conn, buffered, err
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

type bufferPool struct{ pool sync.Pool }

var copyBuffers = bufferPool{sync.Pool{New: func() any { return new([32 << 10]byte) }}}

func (b *bufferPool) Get() []byte  { return b.pool.Get().(*[32 << 10]byte)[:] }
func (b *bufferPool) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }
