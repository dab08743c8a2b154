package route

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"baton/nameserver/config"
)

// check is how one address of a surrogate is asked for its health.
type check struct {
	config.Health
	url    *url.URL
	client *http.Client
}

// newCheck makes a check of an address.
func newCheck(h config.Health, at netip.Addr) *check {
	c := &check{Health: h, url: &url.URL{Scheme: h.Scheme, Host: net.JoinHostPort(at.String(), strconv.Itoa(int(h.Port))), Path: h.Path}}
	if p, err := url.ParseRequestURI(h.Path); err == nil {
		c.url.Path, c.url.RawQuery = p.Path, p.RawQuery
	}
	c.client = &http.Client{
		Timeout: c.Timeout,
		// A check asks by a new connection: an old one may outlive the server's ability to accept others.
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: nil, DialContext: (&net.Dialer{Timeout: c.Timeout}).DialContext,
			// The check asks an address, and certificates are of names: they are the clients' matter.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: c.Host},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// ask asks once. A surrogate is healthy if it answers with 2xx or 3xx, body and all, in time.
func (c *check) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url.String(), nil)
	if err != nil {
		return err
	}
	req.Host = c.Host
	req.Header.Set("User-Agent", "baton-nameserver")
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s: %s", c.url, res.Status)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)); err != nil {
		return fmt.Errorf("GET %s: %w", c.url, err)
	}
	return nil
}

// watch asks again and again, and reports each change; the first answer counts at once.
func (c *check) watch(ctx context.Context, report func(error)) {
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	var row int
	var last error
	for first := true; ; first = false {
		err := c.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if (err == nil) == (last == nil) && !first {
			row++
		} else {
			row = 1
		}
		last = err
		if first || err == nil && row == c.Rise || err != nil && row >= c.Fall {
			report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
