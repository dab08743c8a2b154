package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"baton/router/proxyheader"
)

// maxCheckBody is how much of a check's response is read, in bytes, so that a good connection closes without an RST.
const maxCheckBody = 64 << 10

// newProbe makes the function of one check. Status 200 to 399 is success. Redirects are not followed, as they may lead elsewhere.
// Each check uses a new connection, which also tests accepting.
func newProbe(ports PortRange) func(ctx context.Context, t Target) error {
	transport := &http.Transport{
		DialContext:            proxyheader.Own(Dialer(ports).DialContext, headerOf),
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return func(ctx context.Context, t Target) error {
		ctx, cancel := context.WithTimeout(ctx, t.Check.Timeout)
		defer cancel()
		_, err := request(ctx, transport, t, "http", t.Check.Host)
		return err
	}
}

// request makes the request of a check, and returns the fields of the response.
func request(ctx context.Context, transport *http.Transport, t Target, scheme, host string) (http.Header, error) {
	path, query, _ := strings.Cut(t.Check.Path, "?")
	if path == "" {
		path = "/"
	}
	req := (&http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Scheme: scheme, Host: t.Address.String(), Opaque: path, RawQuery: query},
		Host:   host,
		Header: http.Header{"User-Agent": {"baton-health"}, "Accept": {"*/*"}},
	}).WithContext(expecting(ctx, t))
	started := time.Now()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, failure(ctx, t, err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 399 {
		return nil, fmt.Errorf("check %s: status %d", t.Address, res.StatusCode)
	}
	if _, err := io.CopyN(io.Discard, res.Body, maxCheckBody); err != nil && err != io.EOF {
		return nil, fmt.Errorf("check %s: body broke off after %s", t.Address, time.Since(started).Round(time.Millisecond))
	}
	return res.Header, nil
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
