package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"baton/resume/part"
)

// Target is a URL at one address of its host.
type Target struct {
	URL     string
	Address string // host:port to connect to; "": the URL's
}

// sample is how many bytes are compared at a position.
const sample = 4 << 10

// patience bounds a request.
const patience = 20 * time.Second

// Targets returns the URLs at every address of their hosts, so that each server behind a name is queried.
func Targets(ctx context.Context, resolver *net.Resolver, urls []string) ([]Target, error) {
	var all []Target
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parse the URL: %w", err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("parse the URL: %q begins with neither http:// nor https://", text)
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		addresses, err := resolver.LookupHost(ctx, u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("resolve the host: %w", err)
		}
		for _, a := range addresses {
			all = append(all, Target{text, net.JoinHostPort(a, port)})
		}
	}
	return all, nil
}

// Ask queries all targets at once. The transport is cloned for each; fields are sent with each request.
func Ask(ctx context.Context, base *http.Transport, fields http.Header, targets []Target) []Site {
	sites := make([]Site, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() { sites[i] = ask(ctx, base, fields, t) })
	}
	all.Wait()
	return sites
}

type prober struct {
	ctx    context.Context
	client http.Client
	fields http.Header
	site   *Site
}

func ask(ctx context.Context, base *http.Transport, fields http.Header, t Target) Site {
	transport := base.Clone()
	transport.DisableCompression = true
	defer transport.CloseIdleConnections()
	if t.Address != "" {
		dial := base.DialContext
		if dial == nil {
			dial = new(net.Dialer).DialContext
		}
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, t.Address) }
	}
	s := Site{URL: t.URL, Address: t.Address, Length: -1, Samples: make(map[int64][]byte)}
	a := prober{ctx, http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, fields, &s}
	if err := a.first(); err != nil {
		s.Problems = append(s.Problems, err.Error())
		return s
	}
	if s.Status != http.StatusOK {
		return s
	}
	if err := errors.Join(a.head(), a.ranges(), a.conditions(), a.codings()); err != nil {
		s.Problems = append(s.Problems, err.Error())
	}
	return s
}

// do sends a request, and returns the head of the response with at most most bytes of its content.
func (a *prober) do(method string, most int64, fields ...string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(a.ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, a.site.URL, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make the request: %w", err)
	}
	for name, values := range a.fields {
		r.Header[name] = values
	}
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := a.client.Do(r)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, nil, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close()
	var b bytes.Buffer
	_, err = io.CopyN(&b, response.Body, most)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("read the content: %w", err)
	}
	return response, b.Bytes(), nil
}

func (a *prober) first() error {
	r, b, err := a.do(http.MethodGet, sample, "Want-Repr-Digest", "sha-256=1")
	if err != nil {
		return err
	}
	s := a.site
	s.Status, s.Length, s.Server = r.StatusCode, r.ContentLength, r.Header.Get("Server")
	s.Validator, s.Digests = part.ParseValidator(r.Header), part.ParseDigests(r.Header, part.ReprDigest)
	s.Samples[0] = b
	return nil
}

func (a *prober) head() error {
	r, _, err := a.do(http.MethodHead, 0)
	if err != nil {
		return err
	}
	a.site.Head = r.StatusCode == http.StatusOK && r.ContentLength == a.site.Length && part.ParseValidator(r.Header) == a.site.Validator
	return nil
}

// span requests bytes [first, end), and reports whether the response is correct.
func (a *prober) span(first, end int64, fields ...string) (bool, []byte, error) {
	r, b, err := a.do(http.MethodGet, end-first+1, append(fields, "Range", fmt.Sprintf("bytes=%d-%d", first, end-1))...)
	if err != nil || r.StatusCode != http.StatusPartialContent {
		return false, nil, err
	}
	got, err := part.ParseContentRange(r.Header)
	valid := err == nil && got == part.ContentRange{First: first, Last: end - 1, Length: a.site.Length} && int64(len(b)) == end-first &&
		(!a.site.Validator.Strong() || part.ParseValidator(r.Header).IfRange() == a.site.Validator.IfRange())
	return valid, b, nil
}

func (a *prober) ranges() error {
	s := a.site
	if s.Length <= 0 {
		return nil
	}
	s.Ranges = true
	for _, first := range []int64{0, s.Length / 2, max(0, s.Length-sample)} {
		valid, b, err := a.span(first, min(s.Length, first+sample))
		if err != nil {
			return err
		}
		s.Ranges = s.Ranges && valid
		if valid {
			s.Samples[first] = b
		}
	}
	r, _, err := a.do(http.MethodGet, sample, "Range", fmt.Sprintf("bytes=%d-", s.Length))
	if err != nil {
		return err
	}
	behind, err := part.ParseContentRange(r.Header)
	s.Beyond = r.StatusCode == http.StatusRequestedRangeNotSatisfiable && err == nil && behind.First < 0 && behind.Length == s.Length
	return nil
}

func (a *prober) conditions() error {
	s := a.site
	if !s.Ranges || !s.Validator.Strong() {
		return nil
	}
	var err error
	if s.Kept, _, err = a.span(0, 1, "If-Range", s.Validator.IfRange()); err != nil {
		return err
	}
	r, _, err := a.do(http.MethodGet, 1, "Range", "bytes=0-0", "If-Range", `"a tag that no file has"`)
	if err != nil {
		return err
	}
	s.Dropped = r.StatusCode == http.StatusOK
	return nil
}

func (a *prober) codings() error {
	r, _, err := a.do(http.MethodGet, 1, "Accept-Encoding", "gzip, br, zstd")
	if err != nil {
		return err
	}
	s := a.site
	s.Recoded = r.StatusCode == http.StatusOK && r.Header.Get("Content-Encoding") != "" && r.Header.Get("Content-Encoding") != "identity"
	v := part.ParseValidator(r.Header)
	s.Shared = s.Recoded && v.Strong() && v.IfRange() == s.Validator.IfRange()
	return nil
}
