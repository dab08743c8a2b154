package forward_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"baton/resume"
	"baton/resume/forward"
)

// site breaks off the first answers to each GET of /file, and answers other paths with the request.
type site struct {
	file  []byte
	asked atomic.Int32
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/file" {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %v %q %v", r.Method, r.Host, b, r.Header.Get("Via") != "", r.Header.Get("X-Forwarded-For"), r.TLS != nil)
		return
	}
	w.Header().Set("ETag", `"one"`)
	if s.asked.Add(1) <= 3 {
		w = &breaking{w, 100_000}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.file))
}

type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	n := min(b.left, len(p))
	b.ResponseWriter.Write(p[:n])
	if b.left -= n; b.left == 0 {
		b.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// through is a client of a new proxy.
func through(t *testing.T, o forward.Options, server *httptest.Server) (*http.Client, *httptest.Server) {
	t.Helper()
	proxy := httptest.NewServer(forward.New(o))
	t.Cleanup(proxy.Close)
	at, _ := url.Parse(proxy.URL)
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(at)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, proxy
}

func newSite(t *testing.T, secure bool) (*site, *httptest.Server) {
	t.Helper()
	s := &site{file: bytes.Repeat([]byte("0123456789abcdef"), 30_000)}
	for i := range s.file {
		s.file[i] ^= byte(i >> 9)
	}
	server := httptest.NewUnstartedServer(s)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return s, server
}

func TestGoesOn(t *testing.T) {
	s, server := newSite(t, false)
	c, _ := through(t, forward.Options{}, server)
	response, err := c.Get(server.URL + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Equal(b, s.file) || s.asked.Load() != 4 || response.Header.Get("ETag") != `"one"` {
		t.Errorf("%d bytes, %v, %d requests", len(b), err, s.asked.Load())
	}
}

func TestPassesOn(t *testing.T) {
	_, server := newSite(t, false)
	c, _ := through(t, forward.Options{}, server)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/x", strings.NewReader("body"))
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, _ := io.ReadAll(response.Body)
	want := fmt.Sprintf(`PUT %s body true "192.0.2.1" false`, strings.TrimPrefix(server.URL, "http://"))
	if string(b) != want {
		t.Errorf("the server saw %s, want %s", b, want)
	}
}

// TestTunnel: what is in a tunnel breaks as it does without the proxy.
func TestTunnel(t *testing.T) {
	s, server := newSite(t, true)
	c, _ := through(t, forward.Options{}, server)
	response, err := c.Get(server.URL + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if b, err := io.ReadAll(response.Body); err == nil || len(b) == 0 || s.asked.Load() != 1 {
		t.Errorf("%d bytes, %v, %d requests", len(b), err, s.asked.Load())
	}
	response, err = c.Get(server.URL + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if b, _ := io.ReadAll(response.Body); !strings.HasPrefix(string(b), "GET 127.0.0.1") || !strings.HasSuffix(string(b), "true") {
		t.Errorf("the server saw %s", b)
	}
}

// TestUpgrade: a client that asks by http gets what the server has by https, and that goes on.
func TestUpgrade(t *testing.T) {
	s, server := newSite(t, true)
	base := resume.DefaultTransport(0)
	base.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	c, _ := through(t, forward.Options{Upgrade: []string{"127.0.0.1"}, Client: resume.Options{Base: base}}, server)
	response, err := c.Get("http" + strings.TrimPrefix(server.URL, "https") + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if b, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(b, s.file) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestRefuses(t *testing.T) {
	_, server := newSite(t, false)
	p := forward.New(forward.Options{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Most: 1})
	for _, tt := range []struct {
		name, remote, method, target string
		want                         int
	}{
		{"a client that is not listed", "198.51.100.1:1", "GET", server.URL + "/x", 403},
		{"a client elsewhere that asks for this host", "192.0.2.1:1", "GET", server.URL + "/x", 403},
		{"a tunnel to this host", "192.0.2.1:1", "CONNECT", strings.TrimPrefix(server.URL, "http://"), 403},
		{"a client on this host", "127.0.0.1:1", "GET", server.URL + "/x", 200},
		{"the same with a connection that is there", "192.0.2.1:1", "GET", server.URL + "/x", 403},
		{"no proxy's request", "127.0.0.1:1", "GET", "/x", 400},
		{"another scheme", "127.0.0.1:1", "GET", "ftp://127.0.0.1/x", 400},
		{"no server", "127.0.0.1:1", "GET", "http://127.0.0.1:1/x", 502},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.target, nil)
			r.RemoteAddr = tt.remote
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, tt.want)
			}
		})
	}
}

// TestLoop: a request for the proxy itself comes to an end.
func TestLoop(t *testing.T) {
	_, server := newSite(t, false)
	c, proxy := through(t, forward.Options{}, server)
	response, err := c.Get(strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1) + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusLoopDetected {
		t.Errorf("%s", response.Status)
	}
}

func TestCheck(t *testing.T) {
	for listen, valid := range map[string]bool{"127.0.0.1:8118": true, "[::1]:8118": true, "0.0.0.0:8118": false, "192.0.2.1:8118": false, "[::]:8118": false} {
		o := forward.Options{}
		err := o.Check(netip.MustParseAddrPort(listen))
		if (err == nil) != valid || err != nil && !errors.Is(err, forward.ErrOpen) {
			t.Errorf("%s: %v", listen, err)
		}
		o.Allow = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		if err := o.Check(netip.MustParseAddrPort(listen)); err != nil {
			t.Errorf("%s, with clients: %v", listen, err)
		}
	}
}

func TestServeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := forward.New(forward.Options{}).Serve(ctx, l); err != nil {
		t.Error(err)
	}
}
