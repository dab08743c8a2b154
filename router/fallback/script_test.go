package fallback

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// surrogate is a scripted TCP server: each connection is handed to script.
type surrogate struct {
	name string
	addr netip.AddrPort

	mu       sync.Mutex
	received bytes.Buffer // all connections'
	accepted int
}

func newSurrogate(t testing.TB, name string, script func(c *net.TCPConn, r *bufio.Reader)) *surrogate {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &surrogate{name: name, addr: l.Addr().(*net.TCPAddr).AddrPort()}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.accepted++
			s.mu.Unlock()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			wg.Go(func() {
				defer stop()
				defer c.Close()
				script(c.(*net.TCPConn), bufio.NewReader(io.TeeReader(c, s)))
			})
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); wg.Wait() })
	return s
}

func (s *surrogate) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received.Write(p)
}

func (s *surrogate) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received.String()
}

func (s *surrogate) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// readHeadOf reads only a request's head.
func readHeadOf(r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "\r\n" {
			return
		}
	}
}

// says answers every request without a body with the same bytes.
func says(response string) func(*net.TCPConn, *bufio.Reader) {
	return func(c *net.TCPConn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
		}
	}
}

// saysAndCloses answers one request with bytes and closes.
func saysAndCloses(response string) func(*net.TCPConn, *bufio.Reader) {
	return func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.WriteString(c, response)
	}
}

func resets(c *net.TCPConn, r *bufio.Reader) {
	readHeadOf(r)
	c.SetLinger(0)
}

const okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// refusing returns an address on which nothing listens.
func refusing(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// testee is a Server on loopback with a record of its hooks' calls.
type testee struct {
	*Server
	addr netip.AddrPort

	mu        sync.Mutex
	exchanges []Exchange
	failures  []string // surrogate:kind
	refusals  []int
	open      int
}

// inOrder chooses the first surrogate that is not excluded.
func inOrder(surrogates ...Decision) Decide {
	return func(_ netip.AddrPort, _ *http.Request, _ netip.AddrPort, exclude []string) Decision {
		for _, d := range surrogates {
			if !slices.Contains(exclude, d.Surrogate) {
				return d
			}
		}
		return Decision{Status: http.StatusServiceUnavailable, Reason: "no surrogate is up"}
	}
}

func (s *surrogate) decision() Decision { return Decision{Surrogate: s.name, Address: s.addr} }

func serve(t testing.TB, o Options) *testee {
	t.Helper()
	l, err := Listen(context.Background(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	e := &testee{addr: l.Addr().(*net.TCPAddr).AddrPort()}
	o.VIP = e.addr
	o.Log = slog.New(slog.DiscardHandler)
	o.Hooks = Hooks{
		Connection: func(delta int) { e.mu.Lock(); e.open += delta; e.mu.Unlock() },
		Request:    func(x Exchange) { e.mu.Lock(); e.exchanges = append(e.exchanges, x); e.mu.Unlock() },
		Failure:    func(s string, k FailureKind) { e.mu.Lock(); e.failures = append(e.failures, s+":"+k); e.mu.Unlock() },
		Refused:    func(status int, _ string) { e.mu.Lock(); e.refusals = append(e.refusals, status); e.mu.Unlock() },
	}
	e.Server, err = New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		e.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Errorf("Serve = %v, want nil after Shutdown", err)
		}
		poll(t, "all connections are off the books", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.open == 0
		})
	})
	return e
}

func (e *testee) failed() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.failures)
}

func (e *testee) refusedWith() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.refusals)
}

func (e *testee) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp4", e.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// ask sends bytes on a new connection and reads one response to a request of that method.
func (e *testee) ask(t testing.TB, method, octets string) (*http.Response, string, error) {
	t.Helper()
	c := e.dial(t)
	if _, err := io.WriteString(c, octets); err != nil {
		t.Fatal(err)
	}
	return readResponse(bufio.NewReader(c), method)
}

func readResponse(r *bufio.Reader, method string) (*http.Response, string, error) {
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// isOwn checks the common properties of the router's own responses.
func isOwn(t testing.TB, res *http.Response, body string, status int) {
	t.Helper()
	if res.StatusCode != status {
		t.Errorf("status = %d (%q), want %d", res.StatusCode, body, status)
	}
	if got := res.Header.Get("Server"); got != "baton" {
		t.Errorf("Server = %q, want baton", got)
	}
	if res.Request.Method != http.MethodHead && !strings.HasPrefix(body, fmt.Sprintf("%d ", status)) {
		t.Errorf("body = %q, want one that names the reason", body)
	}
}

func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
