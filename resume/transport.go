package resume

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"

	"baton/resume/part"
)

// Transport is an [http.RoundTripper] whose answers go on after breaks, for programs that have an [http.Client]: when a connection
// breaks within the content of an answer, reading its body goes on with what another connection brings, byte for byte.
//
// That is so for a GET without Range and conditions that is answered by a 200 with a strong validator. Everything else is as it is
// with Options.Base. An answer that cannot be gone on with ends with the error of the break, or an [*Error].
//
// Redirects are the http.Client's, and answers in a content coding are passed on as they are: unless the request has an Accept-Encoding
// none is asked for.
type Transport struct {
	options  Options
	rotation rotation
	mu       sync.Mutex
	idle     []place // the one that was used last at the end
}

// place is a lane whose last request was for a host.
type place struct {
	lane *lane
	host string
}

// idleLanes are kept at most, with a connection each.
const idleLanes = 64

// NewTransport takes a copy of the options, of which Restarts, Redirects, Final and Overlap are of no meaning here.
func NewTransport(o Options) *Transport {
	o = o.withDefaults()
	o.Redirects, o.Final, o.Overlap, o.Restarts = 0, false, 0, -1
	return &Transport{options: o}
}

// RoundTrip is that of http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	l := t.lane(r.URL)
	if !resumable(r) {
		response, err := l.transport.RoundTrip(r)
		if err != nil {
			t.leave(l, r.URL)
			return nil, err
		}
		if body, ok := response.Body.(io.ReadWriteCloser); ok { // after 101
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
	whole := *first.response // whose body is another one
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

// stream goes on with the first answer.
func (t *Transport) stream(ctx context.Context, cancel context.CancelFunc, r *http.Request, l *lane, first *try, fields http.Header, v part.Verdict) io.ReadCloser {
	c := &Client{t.options}
	// The URL has been asked for already: it is one that can be.
	s, err := c.prepare(ctx, Request{URLs: []string{r.URL.String()}, Header: fields})
	if err != nil {
		return first.response.Body
	}
	s.lane.close()
	s.lane = l
	stop := s.stop
	s.stop = func() { // the first answer is older than the stream
		stop()
		cancel()
	}
	s.take(first, v)
	return &body{Stream: s, leave: func(whole bool) {
		if !whole {
			s.lane.renew() // what is still on its way is of no use
		}
		cancel()
		t.leave(s.lane, r.URL)
	}}
}

// resumable tells whether a request is one whose answer can be gone on with.
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

// lane finds one whose last request was for the same host, or makes one.
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

// CloseIdleConnections is called by the http.Client's.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.idle {
		p.lane.close()
	}
	t.idle = nil
}

// returned is a body that gives its lane back when it is closed.
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

// upgraded is a connection that speaks something else now.
type upgraded struct {
	io.ReadWriteCloser
	leave func()
}

func (b *upgraded) Close() error {
	err := b.ReadWriteCloser.Close()
	b.leave()
	return err
}

// body is a stream as a body: it may be closed while it is read.
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
