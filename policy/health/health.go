// Package health checks surrogates by requests: the name server and the controller ask them in the same way, and an operator writes the same keys.
package health

import (
	"cmp"
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

	"baton/document"
)

// Check is how surrogates are asked.
type Check struct {
	Scheme   string
	Port     uint16 // 0: that of the surrogate's address
	Path     string
	Host     string // of the request; "": the address
	Interval time.Duration
	Timeout  time.Duration
	Rise     int // successes in a row until it is up
	Fall     int // failures in a row until it is down
}

// Default is a check without keys.
var Default = Check{Scheme: "http", Path: "/", Interval: 2 * time.Second, Timeout: time.Second, Rise: 2, Fall: 3}

// longest is the bound of an interval, which catches typing errors.
const longest = time.Hour

// Decode decodes the mapping of a check.
func Decode(d *document.Decoder, path string, n *document.Node) *Check {
	c := Default
	d.Fields(path, n, []document.Key{
		{Name: "scheme", Default: "http", Help: "of the request; certificates are not checked", Decode: func(path string, n *document.Node) {
			c.Scheme = d.Choice(path, n, "is no scheme of a check", "http", "https")
		}},
		{Name: "port", Help: "of the request (default: the surrogate's, else 80, or 443 of https)",
			Decode: func(path string, n *document.Node) { c.Port = uint16(d.Integer(path, n, 1, 65535)) }},
		{Name: "path", Default: "/", Help: "of the request", Decode: func(path string, n *document.Node) { c.Path = target(d, path, n) }},
		{Name: "host", Help: "Host field of the request (default: the address)", Decode: func(path string, n *document.Node) { c.Host = d.Text(path, n) }},
		{Name: "interval", Default: "2s", Help: "between two checks",
			Decode: func(path string, n *document.Node) { c.Interval = d.Between(path, n, 100*time.Millisecond, longest) }},
		{Name: "timeout", Default: "1s", Help: "until an answer counts as none",
			Decode: func(path string, n *document.Node) { c.Timeout = d.Between(path, n, 10*time.Millisecond, time.Minute) }},
		{Name: "rise", Default: "2", Help: "good answers in a row until a surrogate is up",
			Decode: func(path string, n *document.Node) { c.Rise = d.Integer(path, n, 1, 100) }},
		{Name: "fall", Default: "3", Help: "bad ones in a row until it is down", Decode: func(path string, n *document.Node) { c.Fall = d.Integer(path, n, 1, 100) }},
	})
	if d.Err() == nil && c.Timeout > c.Interval {
		d.Refuse(document.Join(path, "timeout"), fmt.Sprintf("%v is longer than interval, %v", c.Timeout, c.Interval), "at most interval")
	}
	return &c
}

func target(d *document.Decoder, path string, n *document.Node) string {
	s := d.Text(path, n)
	if u, err := url.ParseRequestURI(s); d.Err() == nil && (err != nil || s[0] != '/' || u.Host != "") {
		d.WrongText(n, path, s, "is not the path of a URL", "such as /healthz")
	}
	return s
}

// at is where a surrogate is asked.
func (c *Check) at(a netip.AddrPort) *url.URL {
	port := cmp.Or(c.Port, a.Port())
	if port == 0 {
		port = map[string]uint16{"http": 80, "https": 443}[c.Scheme]
	}
	u := &url.URL{Scheme: c.Scheme, Host: net.JoinHostPort(a.Addr().String(), strconv.Itoa(int(port))), Path: c.Path}
	if p, err := url.ParseRequestURI(c.Path); err == nil {
		u.Path, u.RawQuery = p.Path, p.RawQuery
	}
	return u
}

func (c *Check) client() *http.Client {
	return &http.Client{
		Timeout: c.Timeout,
		// A check asks by a new connection: an old one may outlive the server's ability to accept others.
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: nil, DialContext: (&net.Dialer{Timeout: c.Timeout}).DialContext,
			// The check asks an address, and certificates are of names: they are the clients' matter.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: c.Host},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask asks once. A surrogate is healthy if it answers with 2xx or 3xx, body and all, in time.
func (c *Check) ask(ctx context.Context, client *http.Client, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Host = c.Host
	req.Header.Set("User-Agent", "baton")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s: %s", u, res.Status)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)); err != nil {
		return fmt.Errorf("GET %s: %w", u, err)
	}
	return nil
}

// Watch asks a surrogate again and again until the context ends, and reports each change; the first answer counts at once.
func (c *Check) Watch(ctx context.Context, at netip.AddrPort, report func(error)) {
	client, u := c.client(), c.at(at)
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	var row int
	var last error
	for first := true; ; first = false {
		err := c.ask(ctx, client, u)
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
