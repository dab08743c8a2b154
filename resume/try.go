package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"baton/resume/part"
)

// try is one request on a lane, with its response.
type try struct {
	url     *url.URL
	lane    *lane
	began   time.Time
	cancel  context.CancelCauseFunc
	watch   *time.Timer // cancels; runs while waiting
	options *Options

	// What the trace has seen, of the last redirect.
	connected bool
	reused    bool
	address   string
	net       net.Conn
	connect   time.Duration
	first     time.Duration

	mu    sync.Mutex
	dials map[string]time.Time     // starts of handshakes, by address: several may run at a time
	took  map[string]time.Duration // completed ones

	response *http.Response
	status   int
}

// ask requests the missing part, and waits for the head of the response. The caller closes the try, unless there is an error.
func (l *lane) ask(ctx context.Context, o *Options, u *url.URL, fields http.Header, have *part.Have) (*try, *Error) {
	t := &try{url: u, lane: l, began: time.Now(), options: o, dials: make(map[string]time.Time), took: make(map[string]time.Duration)}
	ctx, t.cancel = context.WithCancelCause(ctx)
	t.watch = time.AfterFunc(headTime(o), func() { t.cancel(errStalled) })
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, t.trace()), http.MethodGet, u.String(), nil)
	if err != nil {
		t.close()
		return nil, t.failed(Unusable, fmt.Errorf("make the request: %w", err))
	}
	request.Header = fields.Clone()
	if request.Header == nil {
		request.Header = make(http.Header)
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
		request.Header.Del("Host")
	}
	if request.Header.Get("Accept-Encoding") == "" {
		request.Header.Set("Accept-Encoding", "identity")
	}
	have.Ask(request.Header)
	client := http.Client{Transport: l.transport, CheckRedirect: t.redirect}
	t.response, err = client.Do(request)
	t.watch.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // it repeats the URL
		}
		if errors.Is(err, io.EOF) {
			err = errUnanswered
		}
		kind := classify(err, t.connected)
		t.close()
		l.renew()
		return nil, t.failed(kind, fmt.Errorf("ask: %w", err))
	}
	t.status, t.first = t.response.StatusCode, time.Since(t.began)
	return t, nil
}

// headTime bounds the time for a head including handshakes, beyond the transport's timeouts: for a server that stalls there.
func headTime(o *Options) time.Duration {
	bound := 2 * o.Stall
	if d := o.Base.TLSHandshakeTimeout; d > 0 {
		bound += 2 * d
	}
	return bound
}

func (t *try) redirect(_ *http.Request, via []*http.Request) error {
	switch {
	case t.options.Redirects == 0:
		return http.ErrUseLastResponse
	case len(via) > t.options.Redirects:
		return fmt.Errorf("%w: more than %d", errRedirects, t.options.Redirects)
	}
	return nil
}

func (t *try) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { t.connected = false },
		ConnectStart: func(_, address string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.dials[address] = time.Now()
		},
		ConnectDone: func(_, address string, err error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if err == nil {
				t.took[address] = time.Since(t.dials[address])
			}
		},
		GotConn: func(i httptrace.GotConnInfo) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.connected, t.reused, t.net, t.address = true, i.Reused, i.Conn, i.Conn.RemoteAddr().String()
			if t.connect = t.took[t.address]; i.Reused {
				t.connect = 0
			}
		},
	}
}

// trip returns the shortest round trip seen.
func (t *try) trip() time.Duration {
	if c := underneath(t.net); c != nil {
		if trip := c.trip(); trip > 0 {
			return trip
		}
	}
	return t.connect
}

func (t *try) failed(kind Kind, err error) *Error {
	return &Error{Kind: kind, URL: t.url.String(), Server: t.address, Status: t.status, Err: err}
}

// answer converts the head for package part.
func (t *try) answer() part.Answer {
	return part.Answer{Status: t.status, Header: t.response.Header, Length: t.response.ContentLength}
}

// closes reports whether the content ends with the connection.
func (t *try) closes() bool {
	r := t.response
	return r.ProtoMajor == 1 && r.ContentLength < 0 && len(r.TransferEncoding) == 0
}

// close ends the try. It closes a connection whose content was not read completely; for HTTP/2 the lane does that in renew.
func (t *try) close() {
	t.watch.Stop()
	t.cancel(context.Canceled)
	if t.response != nil {
		t.response.Body.Close()
	}
}
