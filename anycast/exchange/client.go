package exchange

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Client is a client of one site. Its methods may be called from any goroutine.
type Client struct {
	name string
	base *url.URL
	http *http.Client
}

// NewClient makes a client of the site with a name, which its certificate must have. It connects on the first request. Close it.
func NewClient(own *Identity, name string, base *url.URL) *Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &Client{name: name, base: base, http: &http.Client{
		Transport: &http.Transport{
			DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				d := &tls.Dialer{NetDialer: dialer, Config: own.client(name)}
				return d.DialContext(ctx, network, address)
			},
			MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Report fetches the site's report.
func (c *Client) Report(ctx context.Context) (Report, error) {
	return c.do(ctx, http.MethodGet, "/v1/report", nil)
}

// Propose sends the site a proposal.
func (c *Client) Propose(ctx context.Context, p Proposal) (Report, error) {
	return c.do(ctx, http.MethodPut, "/v1/proposal", p)
}

// Instruct forwards an operator's instruction to the site.
func (c *Client) Instruct(ctx context.Context, i Instruction) (Report, error) {
	return c.do(ctx, http.MethodPost, "/v1/instruction", i)
}

// RefusedError is an error response of a site.
type RefusedError struct {
	Site    string
	Status  int // HTTP
	Message string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("site %s refuses with status %d: %.200s", e.Site, e.Status, e.Message)
}

func (c *Client) do(ctx context.Context, method, path string, body any) (Report, error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return Report{}, fmt.Errorf("encode the request to site %s: %w", c.name, err)
		}
		payload = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), payload)
	if err != nil {
		return Report{}, fmt.Errorf("request to site %s: %w", c.name, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Report{}, fmt.Errorf("request to site %s: %w", c.name, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return Report{}, fmt.Errorf("read the report of site %s: %w", c.name, err)
	}
	if response.StatusCode != http.StatusOK {
		var r refusal
		_ = json.Unmarshal(text, &r) // a response from another server has no Error
		return Report{}, &RefusedError{c.name, response.StatusCode, r.Error}
	}
	return parse(text, c.name)
}

// parse reads a site's report.
func parse(text []byte, site string) (Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return Report{}, fmt.Errorf("read the report of site %s: %w", site, err)
	}
	if err := r.check(site); err != nil {
		return Report{}, fmt.Errorf("the report of site %s: %w", site, err)
	}
	return r, nil
}
