// Package forward is an HTTP proxy on this host whose clients' downloads resume after breaks: unmodified browsers, package managers and
// curl.
//
// A GET that is answered by a 200 with a strong validator is resumed by a [resume.Transport]; everything else passes unchanged. CONNECT is
// a tunnel, which cannot be resumed: for https a client requests http://name/ instead, with the name listed in Options.Upgrade.
//
// The proxy is for this host. Other clients must be listed, and cannot reach this host's own addresses and networks through it.
package forward

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/resume"
)

// Options of a proxy. The zero value is a proxy for this host only.
type Options struct {
	Client  resume.Options // Base, if not nil, is used without its own dialers
	Dialer  resume.Dialer  // the dialer; its Control is the proxy's own. A Timeout of 0 is 30 s
	Allow   []netip.Prefix // other clients
	Upgrade []string       // host names that are fetched by https when a client requests http
	Most    int            // most requests and tunnels at a time; 0: 1000. Others get a 503
	Log     *slog.Logger   // nil: no log
}

// ErrOpen is wrapped by the error of Check for a proxy that others could use without being listed.
var ErrOpen = errors.New("others could use the proxy: list the allowed clients")

// Proxy is an http.Handler.
type Proxy struct {
	options   Options
	here      *resume.Transport // for clients on this host
	elsewhere *resume.Transport // for others, who must not share its connections
	reverse   *httputil.ReverseProxy
	dialer    resume.Dialer
	slots     chan struct{}
	id        string // in Via: a request that contains it is in a loop
}

type remote struct{}

// New returns a proxy.
func New(o Options) *Proxy {
	if o.Most == 0 {
		o.Most = 1000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Client.Lanes == 0 {
		o.Client.Lanes = 1 // bounds memory by the number of requests
	}
	if o.Client.Base == nil {
		o.Client.Base = resume.DefaultTransport(0)
	}
	p := &Proxy{options: o, slots: make(chan struct{}, o.Most), dialer: o.Dialer}
	p.dialer.Control = permit
	if p.dialer.Timeout == 0 {
		p.dialer.Timeout = 30 * time.Second
	}
	base := o.Client.Base.Clone()
	base.Proxy = nil // it might be this proxy
	base.DialContext = p.dialer.DialContext
	p.options.Client.Base = base
	p.here, p.elsewhere = resume.NewTransport(p.options.Client), resume.NewTransport(p.options.Client)
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	p.id = "baton-" + hex.EncodeToString(id[:])
	p.reverse = &httputil.ReverseProxy{
		Transport: roundTripper(p.roundTrip), Rewrite: p.rewrite, ErrorHandler: p.failed, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return p
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (p *Proxy) roundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(remote{}) != nil {
		return p.elsewhere.RoundTrip(r)
	}
	return p.here.RoundTrip(r)
}

// Check refuses an address that others could reach if no others are allowed.
func (o *Options) Check(listen netip.AddrPort) error {
	if !listen.Addr().Unmap().IsLoopback() && len(o.Allow) == 0 {
		return fmt.Errorf("listen on %s: %w", listen, ErrOpen)
	}
	return nil
}

// Serve serves until the context is done.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: p, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(p.options.Log.Handler(), slog.LevelDebug)}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, "no address", http.StatusForbidden)
		return
	}
	client := at.Addr().Unmap()
	if !client.IsLoopback() {
		if !slices.ContainsFunc(p.options.Allow, func(a netip.Prefix) bool { return a.Contains(client) }) {
			http.Error(w, "you may not use this proxy", http.StatusForbidden)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), remote{}, true))
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		return
	}
	switch {
	case slices.ContainsFunc(r.Header.Values("Via"), func(v string) bool { return strings.Contains(v, p.id) }):
		http.Error(w, "the request has come through this proxy before", http.StatusLoopDetected)
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Scheme != "http" || r.URL.Host == "":
		http.Error(w, "this is a proxy: the request must name an http:// URL", http.StatusBadRequest)
	default:
		p.reverse.ServeHTTP(w, r)
	}
}

// rewrite turns the client's request into one to the server, without fields of the client's connection.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.Host = r.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v := r.In.Header.Values(name); len(v) > 0 {
			r.Out.Header[name] = v // the client's own
		}
	}
	r.Out.Header.Add("Via", "1.1 "+p.id)
	if _, ok := r.Out.Header["Accept-Encoding"]; !ok {
		r.Out.Header.Set("Accept-Encoding", "identity")
	}
	if slices.ContainsFunc(p.options.Upgrade, func(name string) bool { return strings.EqualFold(name, r.Out.URL.Hostname()) }) {
		r.Out.URL.Scheme = "https"
		if r.Out.URL.Port() == "80" {
			r.Out.URL.Host = r.Out.URL.Hostname()
		}
	}
}

// failed answers a client if the request to the server failed.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	var fault *resume.Error
	switch {
	case errors.Is(err, errOwn):
		status = http.StatusForbidden
	case errors.As(err, &fault) && fault.Kind == resume.Stalled:
		status = http.StatusGatewayTimeout
	}
	p.options.Log.Info("no answer", "url", r.URL.Redacted(), "error", err)
	http.Error(w, "baton: "+err.Error(), status)
}
