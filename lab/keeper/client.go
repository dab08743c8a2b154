package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"

	"baton/lab/topology"
)

// InvalidError is what a keeper refuses because of what it was asked.
type InvalidError struct{ Problem string }

func (e *InvalidError) Error() string { return e.Problem }

// Client asks the keeper of a lab.
type Client struct {
	record Record
	http   *http.Client
}

// NewClient makes a client; it connects when it asks. Close it.
func NewClient(r Record) *Client {
	var d net.Dialer
	return &Client{r, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", filepath.Join(r.Dir, socketFile))
		},
	}}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status asks how the lab is.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	s := &Status{}
	return s, c.ask(ctx, http.MethodGet, "/status", nil, s)
}

// Set changes the shape of a link and returns the link as it is then.
func (c *Client) Set(ctx context.Context, change Change) (*topology.Link, error) {
	k := &topology.Link{}
	return k, c.ask(ctx, http.MethodPost, "/set", change, k)
}

// Carrier pulls the cable of a link, or plugs it in.
func (c *Client) Carrier(ctx context.Context, link string, up bool) error {
	return c.ask(ctx, http.MethodPost, "/carrier", carrierChange{link, up}, &LinkStatus{})
}

// Capture streams the packets of an interface to w as a capture file, until the context has ended or there are count of
// them. Without an interface it is the only one of the host; a count of 0 is none.
func (c *Client) Capture(ctx context.Context, w io.Writer, host, name string, count int) error {
	q := url.Values{"host": {host}, "interface": {name}, "count": {strconv.Itoa(count)}}
	return c.stream(ctx, w, "/capture?"+q.Encode())
}

// stream copies an answer; the caller ends it by the context.
func (c *Client) stream(ctx context.Context, w io.Writer, target string) error {
	body, err := c.do(ctx, http.MethodGet, target, nil)
	if err == nil {
		defer body.Close()
		_, err = io.Copy(w, body)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (c *Client) ask(ctx context.Context, method, target string, body, into any) error {
	out, err := c.do(ctx, method, target, body)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := json.NewDecoder(out).Decode(into); err != nil {
		return fmt.Errorf("read the answer of lab %s: %w", c.record.Name, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, target string, body any) (io.ReadCloser, error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://keeper"+target, sent)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask lab %s: %w", c.record.Name, err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	var f failure
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&f); err != nil {
		f.Error = "it answers " + res.Status
	}
	if res.StatusCode == http.StatusBadRequest {
		return nil, &InvalidError{f.Error}
	}
	return nil, fmt.Errorf("lab %s: %s", c.record.Name, f.Error)
}
