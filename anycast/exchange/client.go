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

// Client asks one site. Its methods may be called from any goroutine.
type Client struct {
	name string
	base *url.URL
	http *http.Client
}

// NewClient makes a client of the site that has the name, in its certificate too. It connects when it asks. Close it.
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

// Report asks how the site is.
func (c *Client) Report(ctx context.Context) (Report, error) {
	return c.ask(ctx, http.MethodGet, "/v1/report", nil)
}

// Propose sends the site a proposal.
func (c *Client) Propose(ctx context.Context, p Proposal) (Report, error) {
	return c.ask(ctx, http.MethodPut, "/v1/proposal", p)
}

// Instruct forwards an operator's instruction to the site.
func (c *Client) Instruct(ctx context.Context, i Instruction) (Report, error) {
	return c.ask(ctx, http.MethodPost, "/v1/instruction", i)
}

// RefusedError is what a site answered instead of its report.
type RefusedError struct {
	Site    string
	Status  int // HTTP
	Message string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("site %s refuses with status %d: %.200s", e.Site, e.Status, e.Message)
}

func (c *Client) ask(ctx context.Context, method, path string, say any) (Report, error) {
	var body io.Reader
	if say != nil {
		text, err := json.Marshal(say)
		if err != nil {
			return Report{}, fmt.Errorf("encode what is said to site %s: %w", c.name, err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), body)
	if err != nil {
		return Report{}, fmt.Errorf("ask site %s: %w", c.name, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Report{}, fmt.Errorf("ask site %s: %w", c.name, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return Report{}, fmt.Errorf("read the report of site %s: %w", c.name, err)
	}
	if response.StatusCode != http.StatusOK {
		var r refusal
		_ = json.Unmarshal(text, &r) // somebody else's answer has no Error
		return Report{}, &RefusedError{c.name, response.StatusCode, r.Error}
	}
	return parse(text, c.name)
}

// parse reads a report that is to be of a site.
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
