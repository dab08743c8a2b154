package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"baton/anycast/config"
)

// maxBody is how much of a response is read, in bytes, so that a healthy connection is closed without a RST.
const maxBody = 64 << 10

// newProbe returns a function that probes once.
func newProbe(c *config.Check) func(ctx context.Context) error {
	switch {
	case c.HTTP != nil:
		return probeHTTP(c)
	case c.TCP != "":
		return func(ctx context.Context) error { return probeTCP(ctx, c.TCP) }
	}
	return func(ctx context.Context) error {
		_, err := run(ctx, c.Command)
		return err
	}
}

// probeHTTP accepts a status from 200 to 399. It does not follow redirects, which may lead elsewhere. Each check opens a new connection, to
// test accepting, too.
func probeHTTP(c *config.Check) func(ctx context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10}
	if c.Host != "" {
		name, _, err := net.SplitHostPort(c.Host)
		if err != nil { // it has no port
			name = c.Host
		}
		transport.TLSClientConfig = &tls.Config{ServerName: name}
	}
	return func(ctx context.Context) error {
		request := (&http.Request{
			Method: http.MethodGet, URL: c.HTTP, Host: c.Host, Header: http.Header{"User-Agent": {"baton-anycast"}, "Accept": {"*/*"}},
		}).WithContext(ctx)
		response, err := transport.RoundTrip(request)
		if err != nil {
			return late(ctx, err)
		}
		defer response.Body.Close()
		if response.StatusCode < 200 || response.StatusCode > 399 {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		if _, err := io.CopyN(io.Discard, response.Body, maxBody); err != nil && err != io.EOF {
			return late(ctx, fmt.Errorf("read the body: %w", err))
		}
		return nil
	}
}

func probeTCP(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return late(ctx, err)
	}
	return conn.Close()
}

// late replaces an error after the deadline by a plain message.
func late(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// maxOutput is how much of a program's output is kept, in bytes.
const maxOutput = 4 << 10

// run runs a program and returns its output. After the timeout it kills the program's process group.
func run(ctx context.Context, command []string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var out, complaints head
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a child process may still hold the pipe
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "", errors.New("it did not end in time")
	}
	if said := strings.TrimSpace(complaints.String() + out.String()); said != "" {
		first, _, _ := strings.Cut(said, "\n")
		return "", fmt.Errorf("%w: %.200q", err, first)
	}
	return "", err
}

// head keeps the first bytes written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	if free := maxOutput - h.Len(); free > 0 {
		h.Buffer.Write(p[:min(len(p), free)])
	}
	return len(p), nil
}
