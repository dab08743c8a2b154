package health

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"baton/router/config"
)

// record keeps transitions as "name:from>to".
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(t Transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := fmt.Sprintf("%s:%s>%s", t.Surrogate, t.From.Phase, t.To.Phase)
	if t.From.Draining != t.To.Draining {
		line += fmt.Sprintf(" draining=%v", t.To.Draining)
	}
	r.lines = append(r.lines, line)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

func start(t *testing.T, o Options) (*Checker, *record) {
	t.Helper()
	before := runtime.NumGoroutine()
	seen := &record{}
	if o.OnChange == nil {
		o.OnChange = seen.add
	}
	o.Log = slog.New(slog.DiscardHandler)
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		c.Close() // is harmless
		poll(t, "no goroutine is left", func() bool {
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			if runtime.NumGoroutine() <= before {
				return true
			}
			buf := make([]byte, 1<<20)
			return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "health.(*Checker)")
		})
	})
	return c, seen
}

func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func addrOf(s *httptest.Server) netip.AddrPort { return s.Listener.Addr().(*net.TCPAddr).AddrPort() }

func quick() *config.Health {
	return &config.Health{Path: "/healthz?deep=1", Host: "cdn.example.net", Interval: 5 * time.Millisecond, Timeout: 2 * time.Second, Rise: 2, Fall: 3}
}

func TestCheckerFollowsASurrogate(t *testing.T) {
	var status atomic.Int32
	status.Store(200)
	asked := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Method + " " + r.RequestURI + " " + r.Host + " " + r.UserAgent() + fmt.Sprint(" close=", r.Close):
		default:
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer s.Close()
	c, seen := start(t, Options{Targets: []Target{{Name: "s1", Address: addrOf(s), Check: quick()}}})
	poll(t, "up", func() bool { return c.State("s1").Up })
	if got, want := <-asked, "GET /healthz?deep=1 cdn.example.net baton-health close=true"; got != want {
		t.Errorf("check = %q, want %q", got, want)
	}
	status.Store(500)
	poll(t, "down", func() bool { return c.State("s1").Phase == Down })
	if got := c.State("s1"); got.Failures < 3 || !strings.Contains(got.LastError, "status 500") {
		t.Errorf("state = %+v, want 3 failures or more of status 500", got)
	}
	status.Store(302)
	poll(t, "up again", func() bool { return c.State("s1").Up })
	if got, want := seen.all(), []string{"s1:checking>up", "s1:up>down", "s1:down>up"}; !slices.Equal(got, want) {
		t.Errorf("transitions = %q, want %q", got, want)
	}
}

func TestCheckRefused(t *testing.T) {
	s := httptest.NewServer(nil)
	addr := addrOf(s)
	s.Close()
	c, _ := start(t, Options{Targets: []Target{{Name: "s1", Address: addr, Check: quick()}}})
	poll(t, "down", func() bool { return c.State("s1").Phase == Down })
	if got := c.State("s1").LastError; !strings.Contains(got, "refused") {
		t.Errorf("LastError = %q, want one that says refused", got)
	}
}

func TestReportedFailures(t *testing.T) {
	t.Run("until the next active success", func(t *testing.T) {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer s.Close()
		c, seen := start(t, Options{Targets: []Target{{Name: "s1", Address: addrOf(s), Check: quick()}, {Name: "other"}}})
		poll(t, "up", func() bool { return c.State("s1").Up })
		for range 3 {
			c.ReportFailure("s1", "handoff")
		}
		poll(t, "down and up again", func() bool { return len(seen.all()) >= 3 })
		if got, want := seen.all()[:3], []string{"s1:checking>up", "s1:up>down", "s1:down>up"}; !slices.Equal(got, want) {
			t.Errorf("transitions = %q, want %q", got, want)
		}
	})
	t.Run("for a backoff", func(t *testing.T) {
		c, seen := start(t, Options{
			Targets: []Target{{Name: "s1"}, {Name: "s2"}},
			Passive: Passive{Failures: 2, Backoff: 30 * time.Millisecond},
		})
		if !c.State("s1").Up {
			t.Fatal("not up at the start, want so without active checks")
		}
		began := time.Now()
		c.ReportFailure("s1", "handoff")
		c.ReportFailure("nobody", "handoff")
		c.ReportFailure("s1", "handoff")
		if got := c.State("s1"); got.Up || got.LastError != "handoff" {
			t.Errorf("state = %+v, want down for handoff", got)
		}
		poll(t, "up again", func() bool { return c.State("s1").Up })
		if took := time.Since(began); took < 30*time.Millisecond {
			t.Errorf("up after %v, want 30 ms or more", took)
		}
		poll(t, "told", func() bool { return len(seen.all()) == 2 })
		if got, want := seen.all(), []string{"s1:up>down", "s1:down>up"}; !slices.Equal(got, want) {
			t.Errorf("transitions = %q, want %q", got, want)
		}
	})
}

// TestSuspected: sessions fail in ways that clients can cause; only the result of a probe counts.
func TestSuspected(t *testing.T) {
	t.Run("with a check", func(t *testing.T) {
		var asked atomic.Int64
		var ill atomic.Bool
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if ill.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		defer s.Close()
		check := quick()
		check.Interval = time.Hour
		c, _ := start(t, Options{Targets: []Target{{Name: "s1", Address: addrOf(s), Check: check}}})
		poll(t, "up", func() bool { return c.State("s1").Up })
		for range 100 {
			c.Suspect("s1")
			c.Suspect("nobody")
		}
		poll(t, "probed", func() bool { return asked.Load() == 2 })
		if got := c.State("s1"); !got.Up || got.LastError != "" {
			t.Errorf("state = %+v, want up", got)
		}
		ill.Store(true)
		c.Suspect("s1")
		poll(t, "down", func() bool { return !c.State("s1").Up })
		if got := asked.Load(); got != 5 {
			t.Errorf("asked %d times, want 5: 3 failures in a row", got)
		}
	})
	t.Run("without", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		checks := make(chan error, 10)
		c, _ := start(t, Options{
			Targets: []Target{{Name: "s1", Address: l.Addr().(*net.TCPAddr).AddrPort()}},
			OnCheck: func(_ string, _ time.Duration, err error) { checks <- err },
		})
		c.Suspect("s1")
		if err := <-checks; err != nil {
			t.Errorf("probe: %v", err)
		}
		l.Close()
		for range 10 { // its pool's only one
			c.ReportFailure("s1", "refused")
		}
		if !c.State("s1").Up {
			t.Error("reports have taken the last surrogate down")
		}
		poll(t, "down", func() bool { return !c.State("s1").Up })
		if err := <-checks; err == nil || err.Error() != "refused" || c.State("s1").LastError != "refused" {
			t.Errorf("probe: %v, state %+v, want refused", err, c.State("s1"))
		}
	})
}

func TestDrain(t *testing.T) {
	c, seen := start(t, Options{Targets: []Target{{Name: "s1"}}})
	if err := c.Drain("s1", true); err != nil {
		t.Fatal(err)
	}
	c.Drain("s1", true) // changes and reports nothing
	if got := c.State("s1"); !got.Up || !got.Draining || got.Usable() {
		t.Errorf("state = %+v, want up, draining, not usable", got)
	}
	c.Drain("s1", false)
	if !c.State("s1").Usable() {
		t.Error("not usable after undo")
	}
	if err := c.Drain("s9", true); !errors.Is(err, ErrUnknown) {
		t.Errorf("Drain(s9) = %v, want ErrUnknown", err)
	}
	if got, want := seen.all(), []string{"s1:up>up draining=true", "s1:up>up draining=false"}; !slices.Equal(got, want) {
		t.Errorf("transitions = %q, want %q", got, want)
	}
}

func TestUpdate(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer s.Close()
	slow := quick()
	slow.Interval = time.Hour
	names := []string{"kept", "changed", "unchecked", "moved", "gone"}
	var targets []Target
	for _, name := range names {
		targets = append(targets, Target{Name: name, Address: addrOf(s), Check: slow})
	}
	c, _ := start(t, Options{Targets: targets})
	poll(t, "all up", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !c.State(name).Up })
	})
	before := make(map[string]State)
	for _, name := range names {
		c.Drain(name, true)
		before[name] = c.State(name)
	}

	same, other := *slow, *slow // same: an equal configuration, reread
	other.Fall++
	if err := c.Update([]Target{
		{Name: "kept", Address: addrOf(s), Check: &same}, {Name: "changed", Address: addrOf(s), Check: &other},
		{Name: "unchecked", Address: addrOf(s)}, {Name: "moved", Address: silent(t), Check: slow}, {Name: "new"},
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept", "changed", "unchecked"} {
		if got, was := c.State(name), before[name]; !got.Up || !got.Draining || !got.Since.Equal(was.Since) {
			t.Errorf("%s = %+v, want it up since %v, and draining", name, got, was.Since)
		}
	}
	if got := c.State("moved"); got.Phase != Checking || !got.Draining {
		t.Errorf("moved = %+v, want it checking, and draining", got)
	}
	if got := c.States(); len(got) != 5 || !got["new"].Up {
		t.Errorf("states = %+v, want five, and new up", got)
	}
	if got := c.State("gone"); got != (State{}) {
		t.Errorf("gone = %+v, want nothing", got)
	}
	if err := c.Update([]Target{{Name: "x"}, {Name: "x"}}); err == nil || len(c.States()) != 5 {
		t.Errorf("two of a name: %v, states %d; want an error and no change", err, len(c.States()))
	}
	if err := c.Update([]Target{{Name: "x", Check: &config.Health{}}}); err == nil {
		t.Error("a check without an interval was accepted")
	}
}

// silent is the address of a server that accepts nobody.
func silent(t *testing.T) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// TestOnChangeMayCallBack: OnChange is called without a lock, and in order.
func TestOnChangeMayCallBack(t *testing.T) {
	seen := &record{}
	var c *Checker
	ready := make(chan struct{})
	c, _ = start(t, Options{Targets: []Target{{Name: "s1"}, {Name: "s2"}}, OnChange: func(tr Transition) {
		<-ready
		c.State(tr.Surrogate)
		if tr.Surrogate == "s1" {
			c.Drain("s2", tr.To.Draining)
		}
		seen.add(tr)
	}})
	close(ready)
	c.Drain("s1", true)
	c.Drain("s1", false)
	want := []string{"s1:up>up draining=true", "s2:up>up draining=true", "s1:up>up draining=false", "s2:up>up draining=false"}
	if got := seen.all(); !slices.Equal(got, want) {
		t.Errorf("transitions = %q, want %q", got, want)
	}
}

// TestCloseInterruptsACheck: closing does not wait for a surrogate that never answers.
func TestCloseInterruptsACheck(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := quick()
	check.Timeout = time.Hour
	c, _ := start(t, Options{Targets: []Target{{Name: "s1", Address: l.Addr().(*net.TCPAddr).AddrPort(), Check: check}}})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	done := make(chan struct{})
	go func() { c.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Close still waits")
	}
	if got := c.State("s1").Phase; got != Checking {
		t.Errorf("phase = %s, want checking: the check has no outcome", got)
	}
	if err := c.Update(nil); err == nil {
		t.Error("Update after Close succeeded")
	}
}

// TestDialerKeepsToPorts needs Linux 6.3 (IP_LOCAL_PORT_RANGE).
func TestDialerKeepsToPorts(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			if strings.Contains(address, "::") {
				t.Logf("SKIP %s: %v", address, err)
				continue
			}
			t.Fatal(err)
		}
		const low, high = 40000, 40063 // within the default ip_local_port_range
		asked := 0
		d := Dialer(func() (uint16, uint16) { asked++; return low, high })
		for range 10 {
			c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if port := c.LocalAddr().(*net.TCPAddr).Port; port < low || port > high {
				t.Errorf("local port = %d, want %d to %d", port, low, high)
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		if asked != 10 {
			t.Errorf("range asked for %d times, want at each connection", asked)
		}
		l.Close()
	}
}

func TestOnCheck(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	told := make(chan error, 100)
	start(t, Options{Targets: []Target{{Name: "s1", Address: addrOf(s), Check: quick()}}, OnCheck: func(name string, took time.Duration, err error) {
		if name != "s1" || took <= 0 {
			t.Errorf("OnCheck(%s, %v)", name, took)
		}
		select {
		case told <- err:
		default:
		}
	}})
	if err := <-told; err != nil {
		t.Errorf("outcome = %v, want nil", err)
	}
}

// TestManyAtOnce is for the race detector.
func TestManyAtOnce(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	fast := quick()
	fast.Interval = time.Millisecond
	c, _ := start(t, Options{Targets: []Target{{Name: "a", Address: addrOf(s), Check: fast}, {Name: "p"}}, Passive: Passive{Failures: 1, Backoff: time.Millisecond}})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 100 {
				c.ReportFailure([]string{"a", "p"}[n%2], "handoff")
				c.State("a")
				c.Drain("p", n%3 == i%3)
				if n%50 == 0 {
					c.Update([]Target{{Name: "a", Address: addrOf(s), Check: fast}, {Name: "p"}})
				}
			}
		})
	}
	wg.Wait()
	c.Drain("p", false)
	poll(t, "both usable in the end", func() bool { return c.State("a").Usable() && c.State("p").Usable() })
}
