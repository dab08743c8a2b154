package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"baton/lab"
)

// crowd is clients that repeatedly connect and request one file a few times, while a test breaks something.
type crowd struct {
	t        *testing.T
	n        *network
	from     *lab.Host // nil: the network's client
	host     string    // of the requests
	path     string
	want     string // body
	requests int    // on each connection
	pause    time.Duration
	silence  bool // a surrogate stops sending: a response that it has begun stays its own, and may outlast its client's patience

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	rounds  []int          // connections of each client
	answers map[string]int // by surrogate
	refused map[int]int    // 502 and 503
	raced   int            // later requests on a closed connection: clients retry those
	held    int            // responses that stalled halfway
	lost    []error        // connections cut off or refused
}

// come starts that many clients, until the end of the test or leave.
func (c *crowd) come(t *testing.T, clients int) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c.t, c.cancel, c.rounds = t, cancel, make([]int, clients)
	c.answers, c.refused = make(map[string]int), make(map[int]int)
	for i := range clients {
		c.wg.Go(func() {
			for ctx.Err() == nil {
				c.visit(ctx)
				c.mu.Lock()
				c.rounds[i]++
				c.mu.Unlock()
				select {
				case <-time.After(c.pause):
				case <-ctx.Done():
				}
			}
		})
	}
	t.Cleanup(c.leave)
	return c
}

func (c *crowd) leave() {
	c.cancel()
	c.wg.Wait()
}

// visit is one connection.
func (c *crowd) visit(ctx context.Context) {
	from := c.from
	if from == nil {
		from = c.n.client
	}
	conn, err := dial(context.WithoutCancel(ctx), from, vip4)
	if err != nil {
		c.note(func() { c.lost = append(c.lost, fmt.Errorf("connect: %w", err)) })
		return
	}
	defer conn.Close()
	for i := range c.requests {
		_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", c.path, c.host)
		if err == nil {
			_, err = conn.r.Peek(1)
		}
		if err != nil && i > 0 && cutOff(err) {
			c.note(func() { c.raced++ })
			return
		}
		var got answer
		begun := err == nil
		if begun {
			got, err = conn.read("GET")
		}
		switch {
		case begun && c.silence && errors.Is(err, os.ErrDeadlineExceeded):
			c.note(func() { c.held++ })
			return
		case err != nil:
			if !cutOff(err) {
				c.t.Errorf("request %d of a connection: %v", i, err)
			}
			c.note(func() { c.lost = append(c.lost, fmt.Errorf("request %d: %w", i, err)) })
			return
		case got.StatusCode == http.StatusOK && got.body == c.want:
			c.note(func() { c.answers[got.surrogate]++ })
		case got.StatusCode == http.StatusBadGateway || got.StatusCode == http.StatusServiceUnavailable:
			c.note(func() { c.refused[got.StatusCode]++ })
		default:
			c.t.Errorf("request %d of a connection: %s from %q with %d bytes: %.100q", i, got.Status, got.surrogate, len(got.body), got.body)
			return
		}
		if got.Close {
			return
		}
	}
}

func (c *crowd) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// cutOff reports whether an error is the end of the connection.
func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// turns waits until each client has finished its connection and one more.
func (c *crowd) turns() {
	c.t.Helper()
	c.mu.Lock()
	before := append([]int(nil), c.rounds...)
	c.mu.Unlock()
	lab.Eventually(c.t, answersWithin, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range before {
			if c.rounds[i] < before[i]+2 {
				return fmt.Errorf("client %d has ended %d connections", i, c.rounds[i]-before[i])
			}
		}
		return nil
	})
}

// harm is the failures so far.
func (c *crowd) harm() (lost, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.refused {
		refused += n
	}
	return len(c.lost), refused
}

// unharmed fails the test for each connection cut off, and each 502 or 503.
func (c *crowd) unharmed() {
	c.t.Helper()
	if lost, refused := c.harm(); lost+refused > 0 {
		c.t.Errorf("%v", c)
	}
}

// answered waits until a surrogate has answered that many more requests.
func (c *crowd) answered(surrogate string, more int) {
	c.t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.answers[surrogate]
	}
	before := count()
	lab.Eventually(c.t, answersWithin, func() error {
		if got := count() - before; got < more {
			return fmt.Errorf("%s has answered %d requests more, want %d: %v", surrogate, got, more, c)
		}
		return nil
	})
}

func (c *crowd) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s: answers %v, refused %v, %d raced with a close, %d held, %d cut off: %v", c.host, c.answers, c.refused, c.raced, c.held, len(c.lost), errors.Join(c.lost[:min(len(c.lost), 5)]...))
}

// launch starts the router like start, and returns when it is ready, whatever its surrogates' state.
func (n *network) launch(config string) *running {
	n.t.Helper()
	r, path, err := n.prepare(config)
	if err != nil {
		n.t.Fatal(err)
	}
	if r.Process, err = n.router.Start(lab.Program{Path: path, Args: []string{"router", "run", "-c", r.file}}); err != nil {
		n.t.Fatal(err)
	}
	lab.Eventually(n.t, answersWithin, func() error {
		if !strings.Contains(r.Log(), "msg=ready") {
			return fmt.Errorf("router is not ready:\n%s", r.Log())
		}
		return nil
	})
	n.t.Cleanup(func() {
		if !n.t.Failed() {
			r.stop()
		}
	})
	return r
}
