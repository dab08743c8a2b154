package resume

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"

	"baton/resume/part"
)

// Transport is an [http.RoundTripper] whose response bodies resume after breaks, for programs with an [http.Client]: when a connection
// breaks within the content, reading the body continues over another connection, byte for byte.
//
// This applies to a GET without Range and conditions that is answered by a 200 with a strong validator. Everything else passes unchanged
// through Options.Base. A body that cannot be resumed ends with the error of the break, or an [*Error].
//
// The http.Client handles redirects. Responses with a content coding are passed unchanged: without an Accept-Encoding in the request none
// is requested.
type Transport struct {
	options  Options
	rotation rotation
	mu       sync.Mutex
	idle     []place // the most recently used one is last
}

// place is a lane with the host of its last request.
type place struct {
	lane *lane
	host string
}

// idleLanes is the most idle lanes, with a connection each.
const idleLanes = 64

// NewTransport copies the options. Restarts, Redirects, Final and Overlap have no effect here.
func NewTransport(o Options) *Transport {
	o = o.withDefaults()
	o.Redirects, o.Final, o.Overlap, o.Restarts = 0, false, 0, -1
	return &Transport{options: o}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	l := t.lane(r.URL)
	if !resumable(r) {
		response, err := l.transport.RoundTrip(r)
		if err != nil {
			t.leave(l, r.URL)
			return nil, err
		}
		if body, ok := response.Body.(io.ReadWriteCloser); ok { // after a 101
			response.Body = &upgraded{body, func() { t.leave(l, r.URL) }}
		} else {
			response.Body = &returned{ReadCloser: response.Body, leave: func() { t.leave(l, r.URL) }}
		}
		return response, nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	fields := r.Header.Clone()
	if r.Host != "" && r.Host != r.URL.Host {
		fields.Set("Host", r.Host)
	}
	have := part.Fresh()
	first, fault := l.ask(ctx, &t.options, r.URL, fields, &have)
	if fault != nil {
		cancel()
		t.leave(l, r.URL)
		return nil, fault
	}
	whole := *first.response // with another body
	response := &whole
	response.Request = r
	v := part.Judge(have, first.answer())
	if v.Action != part.Append || response.StatusCode != http.StatusOK || !v.Have.Validator.Strong() || len(response.Trailer) > 0 {
		response.Body = &returned{ReadCloser: response.Body, leave: func() { first.close(); cancel(); t.leave(l, r.URL) }}
		return response, nil
	}
	response.Body = t.stream(ctx, cancel, r, l, first, fields, v)
	return response, nil
}

// stream continues the first response.
func (t *Transport) stream(ctx context.Context, cancel context.CancelFunc, r *http.Request, l *lane, first *try, fields http.Header, v part.Verdict) io.ReadCloser {
	c := &Client{t.options}
	// The URL was requested before, so it is valid.
	s, err := c.prepare(ctx, Request{URLs: []string{r.URL.String()}, Header: fields})
	if err != nil {
		return first.response.Body
	}
	s.lane.close()
	s.lane = l
	stop := s.stop
	s.stop = func() { // the first response is older than the stream
		stop()
		cancel()
	}
	s.take(first, v)
	return &body{Stream: s, leave: func(whole bool) {
		if !whole {
			s.lane.renew() // data in flight is useless
		}
		cancel()
		t.leave(s.lane, r.URL)
	}}
}

// resumable reports whether a request's response can be resumed.
func resumable(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != "" || r.Body != nil && r.Body != http.NoBody {
		return false
	}
	for _, name := range []string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Upgrade"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return true
}

// lane returns one whose last request was to the same host, or a new one.
func (t *Transport) lane(u *url.URL) *lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.idle) - 1; i >= 0; i-- {
		if p := t.idle[i]; p.host == u.Host {
			t.idle = append(t.idle[:i], t.idle[i+1:]...)
			return p.lane
		}
	}
	return newLane(t.options.Base, &t.rotation, 0)
}

func (t *Transport) leave(l *lane, u *url.URL) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, place{l, u.Host})
	if len(t.idle) > idleLanes {
		t.idle[0].lane.close()
		t.idle = t.idle[1:]
	}
}

// CloseIdleConnections is called by http.Client.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.idle {
		p.lane.close()
	}
	t.idle = nil
}

// returned is a body that returns its lane when it is closed.
type returned struct {
	io.ReadCloser
	once  sync.Once
	leave func()
}

func (b *returned) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.leave)
	return err
}

// upgraded is a connection that has switched protocols.
type upgraded struct {
	io.ReadWriteCloser
	leave func()
}

func (b *upgraded) Close() error {
	err := b.ReadWriteCloser.Close()
	b.leave()
	return err
}

// body is a stream as a body, which may be closed during a read.
type body struct {
	*Stream
	reading sync.Mutex
	once    sync.Once
	leave   func(whole bool)
}

func (b *body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.Stream.Read(p)
}

func (b *body) Close() error {
	b.stop()
	b.reading.Lock()
	defer b.reading.Unlock()
	b.once.Do(func() {
		whole := b.have.Done() && b.wide == nil
		l := b.lane
		if b.wide != nil {
			if last := b.wide.close(); last != nil {
				l = last
			}
			b.wide = nil
		}
		b.Stream.leave(false)
		b.lane = l
		b.leave(whole)
	})
	return nil
}
