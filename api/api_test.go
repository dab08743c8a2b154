package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var sameAddrs = cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{})

// daemon serves a Backend on a real socket and returns a client of it.
func daemon(t testing.TB, b Backend) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run", "router.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, b) }()
	c := NewClient(path)
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return c
}

func session(i int) RouterSession {
	return RouterSession{
		Client: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), uint16(i)), VIP: netip.MustParseAddrPort("10.9.9.9:80"),
		Surrogate: "s1", Leg: RouterLeg{netip.MustParseAddrPort("10.2.1.1:40000"), netip.MustParseAddrPort("10.2.1.2:80")},
		State: RouterSessionSpliced, Since: time.Unix(1700000000, 5).UTC(), IdleFor: 3 * time.Millisecond,
		Received: 1 << 40, Sent: uint64(i), Requests: 2,
	}
}

func TestEverythingArrives(t *testing.T) {
	status := RouterStatus{
		Process:    Process{Version: "v1", PID: 7, Started: time.Unix(1, 0).UTC(), Config: "router.yaml", Loaded: time.Unix(2, 0).UTC(), Kernel: "6.18.0"},
		Features:   []Feature{{"resets", false, "missing capability"}},
		Interfaces: []RouterInterface{{"eth0", true, ""}},
		VIPs: []RouterVIP{{netip.MustParseAddrPort("[2001:db8::9]:443"), "handoff", "http", true, 2, "hold", []RouterCertificate{{File: "/a.pem"}}, &RouterController{true, 8, 11, map[string]uint64{"undone": 2}},
			&RouterProxied{3, map[string]uint64{"interface": 50}, 51, []string{"eth1"}}, 3}},
		Pools: []RouterPool{{"video", "hash", "safe", []netip.Addr{netip.MustParseAddr("10.2.1.1")}, []RouterSurrogate{{
			Name: "s1", Address: netip.MustParseAddrPort("10.2.1.2:80"), Weight: 3, Origin: "api", Priority: 1, Changed: []string{"weight"}, Leaving: true, Phase: "up", Up: true, Draining: true,
			Since: time.Unix(3, 0).UTC(), LastError: "status 500", Proxied: "on 127.0.0.1", Sessions: 4, IdleLegs: 16,
			OpeningLegs: 5, LegsMode: "on-demand", LegsReason: "closes", Handoffs: 6, Recycled: 7, Failed: 8, BytesTo: 9, BytesFrom: 10,
			Certificates: []RouterCertificate{{"", "www.test", []string{"*.test"}, time.Unix(4, 0).UTC(), "h2", []string{"expires"}}},
		}}, []RouterSource{{"dns web.test:80", true, 2, time.Unix(5, 0).UTC(), time.Unix(6, 0).UTC(), "timeout", map[string]uint64{"timeout": 1}, 3}}}},
		LeftOut: []string{"x"}, Changes: []RouterChange{{Surrogate: "s9", Pool: "video", Address: netip.MustParseAddrPort("10.2.1.9:80"), Leaving: true}}, Merges: 4, MergesFailed: 1,
		Overlaps: []RouterOverlap{{netip.MustParseAddrPort("[2001:db8::9]:443"), "video", "shop", []string{"*.test"}}}, Warnings: []string{"router.yaml:1:1: x"},
		Sessions: 5, Limit: 100, Packets: map[string]uint64{"forwarded": 3},
	}
	counters := []Counter{{"drops", "Drops.", map[string]string{"reason": "no_flow"}, 1<<64 - 1}}
	question := RouterQuestion{
		URL: "http://cdn.example.net/video/a?b=c&d=%20", Method: "HEAD", Client: netip.MustParseAddr("2001:db8::1"),
		Headers: []RouterHeader{{"X-A", "1: 2"}, {"X-A", "é & ="}},
	}
	explanation := RouterExplanation{
		VIP: netip.MustParseAddrPort("10.9.9.9:80"), Mode: "handoff", Line: 12, Pool: "video", Policy: "hash", Surrogate: "s1",
		Address: netip.MustParseAddrPort("10.2.1.2:80"), Where: "kernel", Steps: []string{"host matches"},
		Candidates: []RouterCandidate{{"s1", true, ""}, {"s2", false, "down: status 500"}},
	}
	c := daemon(t, Backend{
		Part: RouterBackend{
			Status: func(context.Context) (RouterStatus, error) { return status, nil },
			Explain: func(_ context.Context, q RouterQuestion) (RouterExplanation, error) {
				if diff := cmp.Diff(question, q, sameAddrs); diff != "" {
					return RouterExplanation{}, errors.New(diff)
				}
				return explanation, nil
			},
			Drain: func(_ context.Context, r RouterDrainRequest) (RouterDrainResult, error) {
				return RouterDrainResult{r.Surrogate, !r.Undo, 9}, nil
			},
		},
		Counters: func(context.Context) ([]Counter, error) { return counters, nil },
		Reload: func(context.Context) (ReloadResult, error) {
			return ReloadResult{"router.yaml", []string{"pool video: s3 is new"}}, nil
		},
	})
	check := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got, sameAddrs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	ctx := t.Context()
	gotStatus, err := c.Router(ctx)
	check("router", status, gotStatus, err)
	gotProcess, err := c.Status(ctx)
	check("status", status.Process, gotProcess, err)
	gotCounters, err := c.Counters(ctx)
	check("counters", counters, gotCounters, err)
	gotExplanation, err := c.RouterExplain(ctx, question)
	check("explain", explanation, gotExplanation, err)
	drained, err := c.RouterDrain(ctx, RouterDrainRequest{Surrogate: "s1"})
	check("drain", RouterDrainResult{"s1", true, 9}, drained, err)
	drained, err = c.RouterDrain(ctx, RouterDrainRequest{Surrogate: "s1", Undo: true})
	check("undo", RouterDrainResult{"s1", false, 9}, drained, err)
	reloaded, err := c.Reload(ctx)
	check("reload", ReloadResult{"router.yaml", []string{"pool video: s3 is new"}}, reloaded, err)
	_, err = c.RouterExplain(ctx, RouterQuestion{URL: "http://h/"})
	if err == nil || !strings.Contains(err.Error(), "cdn.example.net") {
		t.Errorf("another question: %v, want the difference: this test must be able to fail", err)
	}
}

func TestSessions(t *testing.T) {
	const many = 50000
	tests := []struct {
		name string
		n    int
		err  error
		want string
	}{
		{"none", 0, nil, ""},
		{"many", many, nil, ""},
		{"fails before the first", 0, errors.New("map is gone"), "map is gone"},
		{"fails on the way", 3, errors.New("map is gone"), "map is gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := daemon(t, Backend{Part: RouterBackend{Sessions: func(_ context.Context, yield func(RouterSession) bool) error {
				for i := range tt.n {
					if !yield(session(i)) {
						return nil
					}
				}
				return tt.err
			}}})
			n := 0
			var last error
			for s, err := range c.RouterSessions(t.Context(), RouterSessionsQuery{}) {
				if err != nil {
					last = err
					continue
				}
				if diff := cmp.Diff(session(n), s, sameAddrs); diff != "" {
					t.Fatalf("session %d (-want +got):\n%s", n, diff)
				}
				n++
			}
			if n != tt.n {
				t.Errorf("sessions = %d, want %d", n, tt.n)
			}
			if (last == nil) != (tt.want == "") || (last != nil && !strings.Contains(last.Error(), tt.want)) {
				t.Errorf("error = %v, want %q", last, tt.want)
			}
		})
	}
}

// TestSessionsStop: a reader that has seen enough stops the walk through the table.
func TestSessionsStop(t *testing.T) {
	stopped := make(chan struct{})
	c := daemon(t, Backend{Part: RouterBackend{Sessions: func(_ context.Context, yield func(RouterSession) bool) error {
		defer close(stopped)
		for i := 0; yield(session(i)); i++ {
		}
		return nil
	}}})
	for _, err := range c.RouterSessions(t.Context(), RouterSessionsQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("the walk goes on")
	}
}

// TestSessionsCutOff: a daemon that dies on the way must not look like the end of the list.
func TestSessionsCutOff(t *testing.T) {
	c := daemon(t, Backend{Part: RouterBackend{Sessions: func(_ context.Context, yield func(RouterSession) bool) error {
		for i := range 200 {
			yield(session(i))
		}
		panic(http.ErrAbortHandler)
	}}})
	var last error
	for _, err := range c.RouterSessions(t.Context(), RouterSessionsQuery{}) {
		last = err
	}
	if last == nil {
		t.Error("no error after a list that was cut off")
	}
}

func TestErrors(t *testing.T) {
	c := daemon(t, Backend{
		Part: RouterBackend{
			Status: func(context.Context) (RouterStatus, error) { return RouterStatus{}, errors.New("no map") },
			Drain: func(_ context.Context, r RouterDrainRequest) (RouterDrainResult, error) {
				return RouterDrainResult{}, fmt.Errorf("drain %q: %w", r.Surrogate, ErrNotFound)
			},
			Explain: func(context.Context, RouterQuestion) (RouterExplanation, error) { return RouterExplanation{}, nil },
		},
		Reload: func(context.Context) (ReloadResult, error) {
			return ReloadResult{}, Refused(errors.New(`router.yaml:3: vips[0].mode: unknown mode "magic"`))
		},
	})
	ctx := t.Context()
	tests := []struct {
		name   string
		ask    func() error
		status int
		is     error
		text   string
	}{
		{"backend fails", func() error { _, err := c.Router(ctx); return err }, 500, nil, "no map"},
		{"what all parts have fails", func() error { _, err := c.Status(ctx); return err }, 500, nil, "no map"},
		{"unknown surrogate", func() error { _, err := c.RouterDrain(ctx, RouterDrainRequest{Surrogate: "s9"}); return err }, 404, ErrNotFound, `drain "s9"`},
		{"no surrogate", func() error { _, err := c.RouterDrain(ctx, RouterDrainRequest{}); return err }, 400, ErrInvalid, "surrogate is missing"},
		{"bad configuration", func() error { _, err := c.Reload(ctx); return err }, 409, ErrConflict, "router.yaml:3"},
		{"no url", func() error { _, err := c.RouterExplain(ctx, RouterQuestion{}); return err }, 400, ErrInvalid, "url is missing"},
		{"bad header", func() error {
			_, err := c.RouterExplain(ctx, RouterQuestion{URL: "http://h/", Headers: []RouterHeader{{"", "x"}}})
			return err
		}, 400, ErrInvalid, "header"},
		{"not supplied", func() error { _, err := c.Counters(ctx); return err }, 501, nil, "not supported"},
		{"another part's", func() error { _, err := c.Relay(ctx); return err }, 404, ErrNotFound, "this is baton router"},
		{"sessions not supplied", func() error {
			for _, err := range c.RouterSessions(ctx, RouterSessionsQuery{}) {
				return err
			}
			return nil
		}, 501, nil, "not supported"},
		{"unknown path", func() error { _, err := c.do(ctx, "GET", "/v2/x", nil); return err }, 404, ErrNotFound, "/v2/x"},
		{"wrong method", func() error { _, err := c.do(ctx, "GET", "/v1/router/drain", nil); return err }, 404, ErrNotFound, "/v1/router/drain"},
		{"misspelt field", func() error {
			_, err := c.do(ctx, "POST", "/v1/router/drain", map[string]any{"surrogate": "s1", "und": true})
			return err
		}, 400, ErrInvalid, "und"},
		{"bad client", func() error { _, err := c.do(ctx, "GET", "/v1/router/explain?url=x&client=nobody", nil); return err }, 400, ErrInvalid, "nobody"},
		{"huge body", func() error {
			_, err := c.do(ctx, "POST", "/v1/router/drain", map[string]any{"surrogate": strings.Repeat("x", 1<<20)})
			return err
		}, 400, ErrInvalid, "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.ask()
			var answered *Error
			if !errors.As(err, &answered) || answered.Status != tt.status || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("error = %#v, want status %d and %q", err, tt.status, tt.text)
			}
			for _, sentinel := range []error{ErrNotFound, ErrInvalid, ErrConflict} {
				if errors.Is(err, sentinel) != (sentinel == tt.is) {
					t.Errorf("errors.Is(%v) = %v", sentinel, errors.Is(err, sentinel))
				}
			}
		})
	}
}

func TestNotRunning(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	leaveStale(t, stale)
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none.sock"), filepath.Join(dir, "no", "folder.sock"), stale, plain} {
		c := NewClient(path)
		_, err := c.Status(t.Context())
		var not *NotRunningError
		if want := "nobody listens on " + path + ": is it running?"; !errors.As(err, &not) || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
		c.Close()
	}
}

// TestNotARouter: somebody else has the socket.
func TestNotARouter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<html>teapot", http.StatusTeapot)
	})}
	go server.Serve(l)
	defer server.Close()
	c := NewClient(path)
	defer c.Close()
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "is it Baton's?") {
		t.Errorf("error = %v, want one that doubts it", err)
	}
}

// leaveStale makes a socket file that nobody listens on, as a killed daemon does.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "router.sock")
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if file, err := os.Lstat(path); err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, error %v, want 0600", file, err)
	}
	if got := first.Addr().String(); got != path {
		t.Errorf("Addr = %s, want %s", got, path)
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second Listen = %v, want ErrInUse that names the path", err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first no longer answers: %v", err)
	} else {
		c.Close()
	}
	first.Close()
	first.Close() // is harmless
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v, want no file", err)
	}

	leaveStale(t, path)
	again, err := Listen(path)
	if err != nil {
		t.Fatalf("Listen over a stale socket = %v", err)
	}
	// Another daemon has replaced the file: closing ours leaves theirs.
	os.Remove(path)
	other, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("closing removed another daemon's socket: %v", err)
	}
	other.Close()

	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("Listen over a file = %v, want a refusal", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Error("the file has changed")
	}
	if _, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", 120))); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("a long path = %v, want an error that says how long it may be", err)
	}
}

// TestListenFullQueue: a daemon too busy to accept is alive.
func TestListenFullQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	waiting, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("Listen = %v, want ErrInUse", err)
	}
}

// TestListenRace: of daemons that start at the same time over a stale socket, one wins.
func TestListenRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	leaveStale(t, path)
	var mu sync.Mutex
	var won []net.Listener
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			l, err := Listen(path)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, l)
			} else if !errors.Is(err, ErrInUse) {
				t.Errorf("Listen = %v, want ErrInUse", err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d listen, want 1", len(won))
	}
	for _, l := range won {
		l.Close()
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if slices.ContainsFunc(left, func(os.DirEntry) bool { return true }) {
		t.Errorf("left behind: %v", left)
	}
}

// TestServeEnds: a list that is being read does not keep a daemon from ending.
func TestServeEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, Backend{Part: RouterBackend{Sessions: func(ctx context.Context, yield func(RouterSession) bool) error {
			for i := 0; yield(session(i)); i++ {
			}
			return nil
		}}})
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /v1/router/sessions HTTP/1.1\r\nHost: baton\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cancel() // the reader reads no more
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Serve goes on")
	}
}
