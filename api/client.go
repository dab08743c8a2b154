package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// maxAnswer bounds an answer that is read at once, in octets.
const maxAnswer = 64 << 20

// Client sends requests to a daemon's control socket. Its methods return a *NotRunningError if nobody listens there and an
// *Error for an error of the daemon, and may be called from any goroutine.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client, which connects at its first request. The caller closes it.
func NewClient(path string) *Client {
	d := &net.Dialer{Timeout: 5 * time.Second}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		},
		ResponseHeaderTimeout: 30 * time.Second,
	}}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status returns the status that all parts have in common.
func (c *Client) Status(ctx context.Context) (Process, error) {
	return ask[Process](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Counters returns all counters.
func (c *Client) Counters(ctx context.Context) ([]Counter, error) {
	return ask[[]Counter](ctx, c, http.MethodGet, "/v1/counters", nil)
}

// Reload makes the process reread its configuration. The error is ErrConflict if the new one is not usable, and names file, line and
// key; the old one then stays in force.
func (c *Client) Reload(ctx context.Context) (ReloadResult, error) {
	return ask[ReloadResult](ctx, c, http.MethodPost, "/v1/reload", nil)
}

func lines[T any](ctx context.Context, c *Client, target string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		res, err := c.do(ctx, http.MethodGet, target, nil)
		if err != nil {
			yield(none, err)
			return
		}
		defer res.Body.Close()
		for in := bufio.NewReaderSize(res.Body, 1<<16); ; {
			item, err := line[T](in)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// line reads an item, or the error that ended the list early. At the end of the list it returns io.EOF.
func line[T any](in *bufio.Reader) (item T, err error) {
	text, err := in.ReadBytes('\n')
	if err == io.EOF && len(text) == 0 {
		return item, err
	} else if err == io.EOF {
		return item, fmt.Errorf("read the list: %w", io.ErrUnexpectedEOF) // within a line
	} else if err != nil {
		return item, fmt.Errorf("read the list: %w", err)
	}
	var ended errorBody
	if bytes.HasPrefix(text, []byte(`{"error":`)) && json.Unmarshal(text, &ended) == nil {
		return item, &Error{http.StatusInternalServerError, ended.Error}
	}
	if err := json.Unmarshal(text, &item); err != nil {
		return item, fmt.Errorf("read the list: %w", err)
	}
	return item, nil
}

func ask[R any](ctx context.Context, c *Client, method, target string, body any) (R, error) {
	var out R
	res, err := c.do(ctx, method, target, body)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&out); err != nil {
		return out, fmt.Errorf("read answer of %s to %s %s: %w", c.path, method, target, err)
	}
	return out, nil
}

// do returns a response of status 200, whose body the caller closes.
func (c *Client) do(ctx context.Context, method, target string, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://baton"+target, sent)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	res, err := c.http.Do(req)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTSOCK):
		return nil, &NotRunningError{c.path}
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("open control socket %s: permission denied: only its owner may, try as root", c.path)
	case err != nil:
		return nil, fmt.Errorf("send a request to %s: %w", c.path, err)
	case res.StatusCode == http.StatusOK:
		return res, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var answered errorBody
	if json.Unmarshal(text, &answered) != nil || answered.Error == "" {
		answered.Error = fmt.Sprintf("%s answered %s: is it Baton's?", c.path, res.Status)
	}
	return nil, &Error{res.StatusCode, answered.Error}
}
