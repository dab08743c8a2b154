package reactive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/api"
)

// stage is a router with a controller and a surrogate that a test plays.
type stage struct {
	t         *testing.T
	server    *Server
	pool      *Pool
	address   string
	surrogate net.Listener
	conns     chan *net.TCPConn // that the surrogate has accepted

	mu      sync.Mutex
	fail    map[string]error // by call
	proxied []api.ControllerProxied
	sizes   []api.ControllerRequestSize
	choose  func() api.RouterLeg
}

func (s *stage) SetRequestSize(_ context.Context, p api.ControllerRequestSize) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, p)
	if p.Leg.Local.IsValid() {
		return s.fail["leg size"]
	}
	return s.fail["size"]
}

func (s *stage) GetMatchingSession(context.Context, api.ControllerSessionKey) (api.ControllerMatch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.ControllerMatch{Surrogate: "se1", Host: "cache.example", Leg: s.choose()}, s.fail["match"]
}

func (s *stage) Proxied(_ context.Context, p api.ControllerProxied) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxied = append(s.proxied, p)
	return s.fail["proxied"]
}

func newStage(t *testing.T, o PoolOptions) *stage {
	t.Helper()
	s := &stage{t: t, conns: make(chan *net.TCPConn, 100), fail: map[string]error{}}
	listen := func() net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	s.surrogate = listen()
	t.Cleanup(func() { s.surrogate.Close() })
	go func() {
		for {
			c, err := s.surrogate.Accept()
			if err != nil {
				return
			}
			s.conns <- c.(*net.TCPConn)
		}
	}()
	s.pool = NewPool(o)
	t.Cleanup(s.pool.Close)
	s.pool.Set([]api.ControllerSurrogate{{Name: "se1", Address: addressOf(s.surrogate.Addr())}})
	s.choose = func() api.RouterLeg {
		s.pool.mu.Lock()
		defer s.pool.mu.Unlock()
		for key := range s.pool.legs {
			return key
		}
		return api.RouterLeg{}
	}
	l := listen()
	s.address = l.Addr().String()
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "proxied %s %d", r.URL.Path, len(body))
	}), ReadHeaderTimeout: time.Second}
	s.server = New(Options{Service: addressOf(l.Addr()), Controller: s, Pool: s.pool, Proxy: proxy, Head: 500 * time.Millisecond, Handoff: 500 * time.Millisecond})
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := errors.Join(s.server.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	return s
}

// legs waits for so many idle legs.
func (s *stage) legs(want int) {
	s.t.Helper()
	for range 500 {
		if s.pool.Idle() == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("%d legs, want %d", s.pool.Idle(), want)
}

// send dials and sends text.
func (s *stage) send(text string) *net.TCPConn {
	s.t.Helper()
	c, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// answer reads a response's body.
func (s *stage) answer(c net.Conn) string {
	s.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// chosenLeg waits for the surrogate's end of the leg with the request.
func (s *stage) chosenLeg() (*net.TCPConn, string) {
	s.t.Helper()
	found := make(chan *net.TCPConn, 100)
	text := make(chan string, 100)
	for range 2 {
		c := <-s.conns
		go func() {
			b := make([]byte, 4096)
			if n, err := c.Read(b); err == nil {
				found <- c
				text <- string(b[:n])
			}
		}()
	}
	select {
	case c := <-found:
		return c, <-text
	case <-time.After(10 * time.Second):
		s.t.Fatal("no request on a leg")
	}
	return nil, ""
}

func reset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
}

const getX = "GET /x HTTP/1.1\r\nHost: cdn.example\r\n\r\n"

func (s *stage) counts(handed uint64, proxied string) {
	s.t.Helper()
	for range 500 {
		if h, p := s.server.Counts(); h == handed && (proxied == "" && len(p) == 0 || p[proxied] == 1 && len(p) == 1) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	h, p := s.server.Counts()
	s.t.Errorf("%d handed over, proxied %v; want %d and %q", h, p, handed, proxied)
}

// TestHandedOver: the controller's resets are the end of a session, and the pool has a leg in place of the one that was used.
func TestHandedOver(t *testing.T) {
	s := newStage(t, PoolOptions{Size: 2})
	s.legs(2)
	c := s.send(getX)
	leg, text := s.chosenLeg()
	if text != strings.Replace(getX, "cdn.example", "cache.example", 1) {
		t.Errorf("the surrogate gets %q", text)
	}
	reset(t, c)
	reset(t, leg)
	s.counts(1, "")
	s.legs(2)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sizes) != 2 || s.sizes[0].Size != uint32(len(getX)) || s.sizes[0].Request != "GET /x" || s.sizes[0].Host != "cdn.example" ||
		s.sizes[1].Size != uint32(len(getX)+2) || len(s.proxied) != 0 {
		t.Errorf("%+v, proxied %+v", s.sizes, s.proxied)
	}
}

// TestUndone: the leg alone is reset, or nothing happens: the router serves the client.
func TestUndone(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn){
		"reset": func(leg *net.TCPConn) { reset(t, leg) }, "closed": func(leg *net.TCPConn) { leg.Close() }, "nothing": func(*net.TCPConn) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, PoolOptions{Size: 2})
			s.legs(2)
			c := s.send(getX)
			leg, _ := s.chosenLeg()
			end(leg)
			if got := s.answer(c); got != "proxied /x 0" {
				t.Error(got)
			}
			s.counts(0, "undone")
		})
	}
}

// TestLateResets: a session that the controller has handed over is not served, whatever the router has seen of it: a surrogate has the request already.
func TestLateResets(t *testing.T) {
	for name, tt := range map[string]struct {
		then    func(s *stage, c *net.TCPConn)
		handed  uint64
		proxied string
	}{
		"late": {func(s *stage, c *net.TCPConn) { reset(s.t, c) }, 1, ""},
		"lost": {func(*stage, *net.TCPConn) {}, 1, ""},
		"undone after all": {func(s *stage, c *net.TCPConn) {
			s.refuse("proxied", nil)
			if got := s.answer(c); got != "proxied /x 0" {
				s.t.Error(got)
			}
		}, 0, "undone"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, PoolOptions{Size: 2})
			s.legs(2)
			s.refuse("proxied", api.ControllerErrorf(api.ControllerConflict, "the session is being handed over"))
			c := s.send(getX)
			leg, _ := s.chosenLeg()
			reset(t, leg)
			s.claimed()
			tt.then(s, c)
			s.counts(tt.handed, tt.proxied)
		})
	}
}

// drowsy is a connection whose reader is not run for a while when it waits for a handoff to end.
type drowsy struct {
	*net.TCPConn
	reads int
	sleep time.Duration
}

func (d *drowsy) Read(b []byte) (int, error) {
	if d.reads++; d.reads == 2 {
		time.Sleep(d.sleep)
	}
	return d.TCPConn.Read(b)
}

// TestResetsOnBusyMachine: the controller is not asked about a session that was reset in time: by then it may know another one with the client's address.
func TestResetsOnBusyMachine(t *testing.T) {
	s := newStage(t, PoolOptions{Size: 2})
	s.legs(2)
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.address = l.Addr().String()
	c := s.send(getX)
	accepted, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	go s.server.serve(&drowsy{TCPConn: accepted, sleep: 10 * settle})
	leg, _ := s.chosenLeg()
	reset(t, c)
	reset(t, leg)
	s.counts(1, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.proxied) != 0 {
		t.Errorf("the controller is told %+v", s.proxied)
	}
}

func (s *stage) refuse(call string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[call] = err
}

// claimed waits until the router has told the controller that it serves a session itself.
func (s *stage) claimed() {
	s.t.Helper()
	for range 1000 {
		s.mu.Lock()
		n := len(s.proxied)
		s.mu.Unlock()
		if n > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatal("the router does not claim the session")
}

// TestRefused: whatever the controller refuses, the client gets its answer.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		call string
		err  error
		why  string
	}{
		{"size", api.ControllerErrorf(api.ControllerNotFound, "x"), "unknown"},
		{"size", api.ControllerErrorf(api.ControllerConflict, "x"), "conflict"},
		{"size", errors.New("not connected"), "controller"},
		{"match", api.ControllerErrorf(api.ControllerUnavailable, "x"), "no-surrogate"},
		{"leg size", api.ControllerErrorf(api.ControllerForbidden, "x"), "refused"},
		{"proxied", errors.New("not connected"), ""},
	} {
		t.Run(tt.call+" "+tt.why, func(t *testing.T) {
			s := newStage(t, PoolOptions{Size: 1})
			s.legs(1)
			s.mu.Lock()
			s.fail[tt.call] = tt.err
			if tt.why == "" {
				s.fail["size"], tt.why = tt.err, "controller"
			}
			s.mu.Unlock()
			if got := s.answer(s.send(getX)); got != "proxied /x 0" {
				t.Error(got)
			}
			s.counts(0, tt.why)
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.proxied) != 1 || s.proxied[0].Why != tt.why {
				t.Errorf("%+v", s.proxied)
			}
		})
	}
	s := newStage(t, PoolOptions{Size: 1})
	s.choose = func() api.RouterLeg {
		return api.RouterLeg{Local: netip.MustParseAddrPort("127.0.0.1:1"), Remote: netip.MustParseAddrPort("127.0.0.1:2")}
	}
	if got := s.answer(s.send(getX)); got != "proxied /x 0" {
		t.Error(got)
	}
	s.counts(0, "no-leg")
}

// TestUnfit: what cannot be handed over is proxied whole, with what was read of it.
func TestUnfit(t *testing.T) {
	for why, text := range map[string]string{
		"body":       "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000),
		"pipelined":  getX + getX,
		"incomplete": "GET /slow HTTP/1.1\r\nHost: a\r\n",
	} {
		t.Run(why, func(t *testing.T) {
			s := newStage(t, PoolOptions{Size: 1})
			c := s.send(text)
			if why == "incomplete" {
				time.Sleep(600 * time.Millisecond)
				if _, err := c.Write([]byte("\r\n")); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.answer(c); !strings.HasPrefix(got, "proxied /") || why == "body" && got != "proxied /b 70000" {
				t.Error(got)
			}
			s.counts(0, why)
			if len(s.sizes) > 0 {
				t.Errorf("reported: %+v", s.sizes)
			}
		})
	}
	s := newStage(t, PoolOptions{Size: 1})
	s.send("").Close()
	s.counts(0, "")
}

// TestRenew: all idle legs are replaced at once, so that a controller that has just begun sees them being opened.
func TestRenew(t *testing.T) {
	s := newStage(t, PoolOptions{Size: 3})
	s.legs(3)
	keys := func() map[api.RouterLeg]bool {
		s.pool.mu.Lock()
		defer s.pool.mu.Unlock()
		all := map[api.RouterLeg]bool{}
		for k := range s.pool.legs {
			all[k] = true
		}
		return all
	}
	before := keys()
	s.pool.Renew()
	s.legs(3)
	for k := range keys() {
		if before[k] {
			t.Errorf("%v is still there", k)
		}
	}
}

// TestPool: legs that the surrogate closes or that are too old are replaced, those of a surrogate that goes are closed.
func TestPool(t *testing.T) {
	s := newStage(t, PoolOptions{Size: 3, MaxAge: 200 * time.Millisecond})
	s.legs(3)
	first := <-s.conns
	reset(t, first)
	time.Sleep(300 * time.Millisecond)
	s.legs(3)
	s.pool.mu.Lock()
	opened := s.pool.opened
	s.pool.mu.Unlock()
	if opened < 6 {
		t.Errorf("%d legs were opened", opened)
	}
	s.pool.Set(nil)
	s.legs(0)
	if _, ok := s.pool.Take(api.RouterLeg{}); ok {
		t.Error("a leg that is not there was taken")
	}
	s.surrogate.Close()
	s.pool.Set([]api.ControllerSurrogate{{Name: "se1", Address: addressOf(s.surrogate.Addr())}})
	time.Sleep(50 * time.Millisecond)
	s.pool.Close() // while it tries
}
