package health

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"baton/router/proxyheader"
)

// maxCheckBody is how much of a check's response is read, in bytes, so that a good connection closes without an RST.
const maxCheckBody = 64 << 10

// maxCheckHead is how much of a response is read before its body, in bytes, interim responses included.
const maxCheckHead = 128 << 10

// readers have the buffers of responses: every check of plain HTTP reads one.
var readers = sync.Pool{New: func() any { return bufio.NewReader(nil) }}

// newProbe makes the function of one check. Status 200 to 399 is success. Redirects are not followed, as they may lead
// elsewhere. Each check uses a new connection, which also tests accepting. It needs no http.Transport, which starts two
// goroutines for each.
func newProbe(ports PortRange) func(ctx context.Context, t Target) error {
	dial := proxyheader.Own(Dialer(ports).DialContext, headerOf)
	return func(ctx context.Context, t Target) error {
		ctx, cancel := context.WithTimeout(ctx, t.Check.Timeout)
		defer cancel()
		c, err := dial(expecting(ctx, t), "tcp", t.Address.String())
		if err != nil {
			return failure(ctx, t, err)
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		req := newRequest(ctx, t, "http", t.Check.Host)
		req.Close = true
		return exchangeCheck(ctx, t, c, req)
	}
}

// exchangeCheck makes a check's request over its connection, and judges the response.
func exchangeCheck(ctx context.Context, t Target, c net.Conn, req *http.Request) error {
	if err := req.Write(c); err != nil {
		return failure(ctx, t, err)
	}
	started := time.Now()
	r := readers.Get().(*bufio.Reader)
	limited := &io.LimitedReader{R: c, N: maxCheckHead}
	r.Reset(limited)
	defer func() {
		r.Reset(nil)
		readers.Put(r)
	}()
	for {
		res, err := http.ReadResponse(r, req)
		if err != nil {
			return failure(ctx, t, err)
		}
		if isFinal := res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols; isFinal {
			limited.N = math.MaxInt64 // judgeResponse bounds the content, whose chunks may take more
			return judgeResponse(t, res, started)
		}
	}
}

// newRequest is the request of a check.
func newRequest(ctx context.Context, t Target, scheme, host string) *http.Request {
	path, query, _ := strings.Cut(t.Check.Path, "?")
	if path == "" {
		path = "/"
	}
	return (&http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Scheme: scheme, Host: t.Address.String(), Opaque: path, RawQuery: query},
		Host:   host,
		Header: http.Header{"User-Agent": {"baton-health"}, "Accept": {"*/*"}},
	}).WithContext(ctx)
}

// requestCheck makes a check over a transport, and returns the fields of the response.
func requestCheck(ctx context.Context, transport *http.Transport, t Target, scheme, host string) (http.Header, error) {
	started := time.Now()
	res, err := transport.RoundTrip(newRequest(ctx, t, scheme, host))
	if err != nil {
		return nil, failure(ctx, t, err)
	}
	return res.Header, judgeResponse(t, res, started)
}

// judgeResponse reads the response to a check, whose body it closes. The error is why the check fails.
func judgeResponse(t Target, res *http.Response, started time.Time) error {
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 399 {
		return fmt.Errorf("check %s: status %d", t.Address, res.StatusCode)
	}
	if _, err := io.CopyN(io.Discard, res.Body, maxCheckBody); err != nil && err != io.EOF {
		return fmt.Errorf("check %s: body broke off after %s", t.Address, time.Since(started).Round(time.Millisecond))
	}
	return nil
}

type headerKey struct{}

// expecting has a check's connections begin with the header that the surrogate expects.
func expecting(ctx context.Context, t Target) context.Context {
	return context.WithValue(ctx, headerKey{}, t.Header)
}

func headerOf(ctx context.Context) proxyheader.Version {
	return ctx.Value(headerKey{}).(proxyheader.Version)
}

// failure says why a check failed.
func failure(ctx context.Context, t Target, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("check %s: no answer within %s", t.Address, t.Check.Timeout)
	}
	return fmt.Errorf("check %s: %w", t.Address, err)
}

// connectTimeout bounds the probe of a surrogate without a check.
const connectTimeout = time.Second

// newConnect makes the probe of a surrogate without a check: it connects.
func newConnect(ports PortRange) func(ctx context.Context, t Target) error {
	dialer := Dialer(ports)
	return func(ctx context.Context, t Target) error {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		c, err := dialer.DialContext(ctx, "tcp", t.Address.String())
		switch {
		case err == nil:
			return c.Close()
		case ctx.Err() != nil:
			return errors.New("timeout")
		case errors.Is(err, syscall.ECONNREFUSED):
			return errors.New("refused")
		}
		return err
	}
}
