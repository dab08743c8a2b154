package load_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"baton/experiments/load"
)

func targetOf(t *testing.T, address net.Addr) []netip.AddrPort {
	t.Helper()
	a, err := netip.ParseAddrPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	return []netip.AddrPort{a}
}

var body = bytes.Repeat([]byte("0123456789abcdef"), 8)

func newServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	t.Cleanup(s.Close)
	return s
}

func serve(t *testing.T, h http.HandlerFunc) (targets []netip.AddrPort, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	s := newServer(t, h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	return targetOf(t, s.Listener.Addr()), connections
}

func static(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/128" {
		http.NotFound(w, r)
		return
	}
	w.Write(body)
}

func TestRequestsAndConnections(t *testing.T) {
	tests := []struct {
		name        string
		reuse       bool
		connections int
		want        int64 // connections that the server sees
	}{
		{"one request per connection", false, 8, 500},
		{"one at a time", false, 1, 500},
		{"keep-alive", true, 8, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets, seen := serve(t, static)
			r, err := load.Run(load.Options{Targets: targets, Sources: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")},
				Path: "/128", Body: body, Reuse: tt.reuse, Connections: tt.connections, Requests: 500})
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests != 500 || r.Errors != 0 || r.Bytes != 500*128 || r.Rate() <= 0 {
				t.Errorf("result %+v", r)
			}
			if seen.Load() != tt.want {
				t.Errorf("%d connections, want %d", seen.Load(), tt.want)
			}
			if n := r.Total.TotalCount(); n != 500 || r.FirstByte.TotalCount() != 500 || r.Connect.TotalCount() != tt.want {
				t.Errorf("%d totals, %d first bytes, %d connects", n, r.FirstByte.TotalCount(), r.Connect.TotalCount())
			}
			if n := r.Open.TotalCount(); n != 500-tt.want {
				t.Errorf("%d first bytes on connections that were open, want %d", n, 500-tt.want)
			}
		})
	}
}

func TestDurationEndsTheRun(t *testing.T) {
	targets, _ := serve(t, static)
	r, err := load.Run(load.Options{Targets: targets, Path: "/128", Body: body, Connections: 4, Duration: 50 * time.Millisecond})
	if err != nil || r.Requests == 0 || r.Errors != 0 {
		t.Fatalf("result %+v, %v", r, err)
	}
	if r.Elapsed < 50*time.Millisecond {
		t.Errorf("ended after %v", r.Elapsed)
	}
}

func TestFaultsAreCounted(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"status", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(503)
		}, "status 503"},
		{"wrong byte", func(w http.ResponseWriter, r *http.Request) {
			b := bytes.Clone(body)
			b[77] ^= 1
			w.Write(b)
		}, "differs"},
		{"wrong length", func(w http.ResponseWriter, r *http.Request) {
			w.Write(body[:127])
		}, "127 bytes, want 128"},
		{"cut short", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "128")
			w.Write(body[:50])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, ""},
		{"silent", func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // the client gives up
		}, "nothing came"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets, _ := serve(t, tt.handler)
			r, err := load.Run(load.Options{Targets: targets, Path: "/128", Body: body, Requests: 3, Timeout: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if r.Errors != 3 || r.Requests != 0 || !strings.Contains(r.First.Error(), tt.want) {
				t.Errorf("%d errors, %d requests, first %v; want 3 of %q", r.Errors, r.Requests, r.First, tt.want)
			}
		})
	}
}

func TestRefusedIsAnError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	targets := targetOf(t, ln.Addr())
	ln.Close()
	r, err := load.Run(load.Options{Targets: targets, Requests: 2, Size: -1})
	if err != nil || r.Errors != 2 || !strings.Contains(r.First.Error(), "refused") {
		t.Errorf("result %+v, %v", r, err)
	}
}

func TestRedirectIsFollowed(t *testing.T) {
	targets, _ := serve(t, static)
	from, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+targets[0].String()+r.URL.Path, http.StatusFound)
	})
	o := load.Options{Targets: from, Path: "/128", Body: body, Requests: 20, Connections: 2, Follow: true}
	var mu sync.Mutex // each worker tells of its own
	o.Each = func(x load.Exchange) {
		mu.Lock()
		defer mu.Unlock()
		if o.Follow && (x.Connected.Before(x.Due) || x.Asked.Before(x.Connected) || x.First.Before(x.Asked) || x.Ended.Before(x.First)) {
			t.Errorf("%+v", x)
		}
	}
	r, err := load.Run(o)
	if err != nil || r.Requests != 20 || r.Errors != 0 || r.Connect.TotalCount() != 40 || r.FirstByte.TotalCount() != 20 {
		t.Errorf("followed: result %+v, %v", r, err)
	}
	o.Follow = false
	if r, err = load.Run(o); err != nil || r.Errors != 20 {
		t.Errorf("not followed: result %+v, %v", r, err)
	}
}

func TestServerMayEndAConnectionBetweenRequests(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { // three responses, then silently gone
				defer c.Close()
				b := make([]byte, 4096)
				for range 3 {
					if _, err := c.Read(b); err != nil {
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 128\r\n\r\n"+string(body))
				}
			}()
		}
	}()
	r, err := load.Run(load.Options{Targets: targetOf(t, ln.Addr()), Body: body, Reuse: true, Requests: 30})
	if err != nil || r.Requests != 30 || r.Errors != 0 || r.Reopened == 0 {
		t.Errorf("result %+v, %v; want 30 requests over reopened connections", r, err)
	}
}

// TestClientEndsWithFIN: recycling of server legs depends on how a client leaves.
func TestClientEndsWithFIN(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ends := make(chan error, 10)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			if _, err := c.Read(b); err != nil {
				ends <- err
				continue
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 128\r\n\r\n"+string(body))
			_, err = c.Read(b)
			ends <- err
			c.Close()
		}
	}()
	if r, err := load.Run(load.Options{Targets: targetOf(t, ln.Addr()), Body: body, Requests: 10}); err != nil || r.Requests != 10 {
		t.Fatalf("result %+v, %v", r, err)
	}
	for range 10 {
		if err := <-ends; !errors.Is(err, io.EOF) {
			t.Errorf("the connection ended with %v, want a FIN", err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddr("::1")
	for name, o := range map[string]load.Options{
		"no targets": {Requests: 1},
		"no end":     {Targets: []netip.AddrPort{v4}},
		"families":   {Targets: []netip.AddrPort{v4}, Sources: []netip.Addr{v6}, Requests: 1},
		"both loops": {Targets: []netip.AddrPort{v4}, Requests: 1, Arrivals: 1, Think: 1},
		"negative":   {Targets: []netip.AddrPort{v4}, Requests: 1, Arrivals: -1},
		"backwards":  {Targets: []netip.AddrPort{v4}, Requests: 1, Think: -1},
	} {
		if _, err := load.Run(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestChosenSources: what is open from each source is what the choice is told.
func TestChosenSources(t *testing.T) {
	targets, _ := serve(t, static)
	sources := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
	chosen := make([]int, len(sources))
	r, err := load.Run(load.Options{Targets: targets, Sources: sources, Path: "/128", Body: body, Connections: 9, Requests: 300, Workers: 1,
		Choose: func(from []load.Underway, size int64) int {
			if len(from) != 2 || from[0].Connections > 3 || from[1].Connections > 6 || size != 128 {
				t.Errorf("%+v under way, want 3 and 6 at most, for %d bytes", from, size)
			}
			for _, f := range from {
				if f.Bytes > int64(f.Connections)*128 || f.Connections > 0 && f.Bytes == 0 {
					t.Errorf("%+v under way", from)
				}
			}
			best := 1
			if from[0].Connections*2 < from[1].Connections {
				best = 0
			}
			chosen[best]++
			return best
		}})
	if err != nil || r.Requests != 300 || r.Errors != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if chosen[0]+chosen[1] != 300 || chosen[0] < 50 || chosen[1] < 100 {
		t.Errorf("%v were chosen", chosen)
	}
}

func TestEachRequestIsTold(t *testing.T) {
	targets, _ := serve(t, static)
	for _, tt := range []struct {
		name, path string
		reuse      bool
		connected  int // requests that a connection was opened for
		fail       bool
	}{
		{"answered", "/128", false, 20, false},
		{"kept open", "/128", true, 1, false},
		{"refused", "/absent", false, 20, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var told, connected int
			began := time.Now()
			_, err := load.Run(load.Options{Targets: targets, Path: tt.path, Size: -1, Reuse: tt.reuse, Requests: 20, Workers: 1, Each: func(x load.Exchange) {
				told++
				if !x.Connected.IsZero() {
					connected++
					if x.Connected.Before(x.Due) || x.Ended.Before(x.Connected) {
						t.Errorf("%+v", x)
					}
				}
				if x.Asked.Before(x.Due) || x.Asked.Before(x.Connected) || x.First.Before(x.Asked) || x.Ended.Before(x.First) {
					t.Errorf("%+v", x)
				}
				if (x.Err != nil) != tt.fail || !tt.fail && x.Bytes != 128 || x.Due.Before(began) || x.Ended.Before(x.Due) {
					t.Errorf("%+v", x)
				}
			}})
			if err != nil || told != 20 || connected != tt.connected {
				t.Errorf("%d were told, %d of them of a connection, %v; want 20 and %d", told, connected, err, tt.connected)
			}
		})
	}
}
