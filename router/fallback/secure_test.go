package fallback

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"baton/router/config"
)

// sign makes a certificate for the names, signed by itself.
func sign(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// browser is a client of HTTPS that keeps its connections, and counts them.
type browser struct {
	http.Client
	dialled atomic.Int32
}

func (e *testee) browser(t testing.TB, config *tls.Config, h2 bool) *browser {
	b := &browser{}
	if config == nil {
		config = &tls.Config{}
	}
	config.InsecureSkipVerify = true
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			b.dialled.Add(1)
			return (&net.Dialer{}).DialContext(ctx, "tcp", e.addr.String())
		},
		TLSClientConfig: config, ForceAttemptHTTP2: h2, DisableCompression: true,
	}
	b.Transport = transport
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(transport.CloseIdleConnections)
	return b
}

func (b *browser) get(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	res, err := b.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestSecure(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2]
		t.Run(want, func(t *testing.T) {
			a, b := newSurrogate(t, "a", says(okResponse)), newSurrogate(t, "b", says("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n2nd"))
			e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: func(_ netip.AddrPort, r *http.Request, _ netip.AddrPort, _ []string) Decision {
				if strings.HasPrefix(r.URL.Path, "/b") {
					return b.decision()
				}
				return a.decision()
			}})
			c := e.browser(t, nil, h2)
			for _, tt := range []struct{ target, body string }{{"/a%2Fb%2f~?q=;x&y=%zz", "ok"}, {"/b", "2nd"}, {"/a?", "ok"}} {
				res, body := c.get(t, "https://cdn.test"+tt.target)
				if res.Proto != want || res.StatusCode != 200 || body != tt.body {
					t.Errorf("%s: %s %d %q, want %s and %q", tt.target, res.Proto, res.StatusCode, body, want, tt.body)
				}
			}
			if n := c.dialled.Load(); n != 1 {
				t.Errorf("%d connections, want one", n)
			}
			got, err := http.ReadRequest(bufio.NewReader(strings.NewReader(a.got())))
			if err != nil {
				t.Fatal(err)
			}
			if got.RequestURI != "/a%2Fb%2f~?q=;x&y=%zz" || got.Host != "cdn.test" || got.Proto != "HTTP/1.1" {
				t.Errorf("the surrogate got %s of %s by %s", got.RequestURI, got.Host, got.Proto)
			}
			header := http.Header{"User-Agent": {"Go-http-client/" + want[5:]}, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"cdn.test"}, "X-Forwarded-Proto": {"https"}}
			if header["User-Agent"][0] = strings.TrimSuffix(header["User-Agent"][0], "."); fmt.Sprint(got.Header) != fmt.Sprint(header) {
				t.Errorf("header = %v, want %v", got.Header, header)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if len(e.exchanges) != 3 || e.exchanges[1].Surrogate != "b" || e.exchanges[1].Request.Proto != want || e.exchanges[1].Sent != 3 || !e.exchanges[1].Client.IsValid() {
				t.Errorf("exchanges %+v", e.exchanges)
			}
		})
	}
}

func TestSecureRedirect(t *testing.T) {
	e := serve(t, Options{Mode: config.Redirect, Certificates: []tls.Certificate{sign(t, "cdn.test")},
		Decide: inOrder(Decision{Surrogate: "s", Address: netip.MustParseAddrPort("10.2.1.2:443"), Public: "https://s.test"})})
	for _, h2 := range []bool{false, true} {
		res, _ := e.browser(t, nil, h2).get(t, "https://cdn.test/a?b")
		if res.StatusCode != 302 || res.Header.Get("Location") != "https://s.test/a?b" || res.ProtoMajor != map[bool]int{false: 1, true: 2}[h2] {
			t.Errorf("%s %d to %q", res.Proto, res.StatusCode, res.Header.Get("Location"))
		}
	}
}

// TestSecureBodies: bodies in both directions, of known length and not, at once on one connection.
func TestSecureBodies(t *testing.T) {
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			if req.ContentLength >= 0 {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			} else {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			}
		}
	})
	e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: inOrder(s.decision())})
	sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for _, h2 := range []bool{false, true} {
		c := e.browser(t, nil, h2)
		done := make(chan error, 8)
		for i := range cap(done) {
			go func() {
				var body io.Reader = bytes.NewReader(sent)
				if i%2 == 0 {
					body = io.MultiReader(body) // of unknown length
				}
				res, err := c.Post("https://cdn.test/", "", body)
				if err == nil {
					defer res.Body.Close()
					var got []byte
					if got, err = io.ReadAll(res.Body); err == nil && !bytes.Equal(got, sent) {
						err = fmt.Errorf("status %d, %d bytes", res.StatusCode, len(got))
					}
				}
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Errorf("h2 %v: %v", h2, err)
			}
		}
	}
}

// TestSecureUpgrade: a protocol switch over TLS.
func TestSecureUpgrade(t *testing.T) {
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(c, r)
	})
	e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: inOrder(s.decision())})
	c := tls.Client(e.dial(t), &tls.Config{InsecureSkipVerify: true, ServerName: "cdn.test"})
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: cdn.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(c)
	readHeadOf(r)
	io.WriteString(c, "hello\n")
	if got, err := r.ReadString('\n'); got != "hello\n" {
		t.Errorf("echo %q, %v", got, err)
	}
}

func TestSecureCertificates(t *testing.T) {
	a, b, c := sign(t, "a.test"), sign(t, "*.b.test"), sign(t, "a.test")
	gate := make(chan struct{})
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none")
		<-gate
		io.WriteString(c, "two")
	})
	e := serve(t, Options{Certificates: []tls.Certificate{a, b}, Decide: inOrder(s.decision())})
	shown := func(name string, config *tls.Config) tls.ConnectionState {
		t.Helper()
		config.InsecureSkipVerify, config.ServerName, config.MaxVersion = true, name, tls.VersionTLS12
		conn := tls.Client(e.dial(t), config)
		if err := conn.Handshake(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer conn.Close()
		return conn.ConnectionState()
	}
	for name, want := range map[string]*tls.Certificate{"a.test": &a, "x.b.test": &b, "x.y.b.test": &a, "c.test": &a, "": &a} {
		if got := shown(name, &tls.Config{}).PeerCertificates[0]; !got.Equal(want.Leaf) {
			t.Errorf("%q: certificate for %v, want that for %v", name, got.DNSNames, want.Leaf.DNSNames)
		}
	}
	kept := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	shown("a.test", kept)
	download, err := e.browser(t, nil, true).Get("https://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer download.Body.Close()
	e.SetCertificates([]tls.Certificate{c})
	if got := shown("a.test", &tls.Config{}).PeerCertificates[0]; !got.Equal(c.Leaf) {
		t.Error("a new connection is shown the old certificate")
	}
	if !shown("a.test", kept).DidResume {
		t.Error("a session of before is not resumed")
	}
	close(gate)
	if got, err := io.ReadAll(download.Body); string(got) != "onetwo" {
		t.Errorf("the download brings %q, %v", got, err)
	}
}

// TestSecureFailures: clients that do not get through a handshake.
func TestSecureFailures(t *testing.T) {
	var reasons = make(chan string, 10)
	e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: inOrder(), Timeouts: Timeouts{Head: 100 * time.Millisecond}})
	e.Server.hooks.Handshake = func(reason string) { reasons <- reason }
	for _, tt := range []struct {
		name, sent, reason, answer string
	}{
		{"plain HTTP", getRequest, "not_tls", "HTTP/1.1 400 Bad Request\r\n"},
		{"not TLS", "\x00\x01\x02\x03\x04\x05\x06", "not_tls", ""},
		{"silent", "", "timeout", ""},
		{"half a hello", "\x16\x03\x01\x01\x00\x01", "timeout", ""},
		{"SSL 3.0", "\x16\x03\x00\x00\x2f\x01\x00\x00\x2b\x03\x00" + strings.Repeat("r", 32) + "\x00\x00\x04\x00\x05\x00\x0a\x01\x00", "handshake_failed", "\x15\x03"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := e.dial(t)
			io.WriteString(c, tt.sent)
			answer, _ := io.ReadAll(c)
			if !strings.HasPrefix(string(answer), tt.answer) || tt.answer == "" && len(answer) > 0 && answer[0] != 0x15 {
				t.Errorf("answer %q, want %q", answer, tt.answer)
			}
			if got := <-reasons; got != tt.reason {
				t.Errorf("reason %s, want %s", got, tt.reason)
			}
		})
	}
	if got := e.refusedWith(); !slices.Equal(got, []int{400}) {
		t.Errorf("refused with %v, want 400 once", got)
	}
}

// framer is a client of HTTP/2 that sends what it likes.
type framer struct {
	*http2.Framer
	t     testing.TB
	reset map[uint32]bool // streams
}

func (e *testee) framer(t testing.TB, settings ...http2.Setting) *framer {
	t.Helper()
	c := tls.Client(e.dial(t), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, ServerName: "cdn.test"})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, http2.ClientPreface)
	f := &framer{http2.NewFramer(c, c), t, make(map[uint32]bool)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.WriteSettings(settings...)
	return f
}

// open sends a request's fields, names and values in turn.
func (f *framer) open(stream uint32, ends bool, fields ...string) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: ends}); err != nil {
		f.t.Fatal(err)
	}
}

// outcome is the status of a stream, or "reset".
func (f *framer) outcome(stream uint32) string {
	f.t.Helper()
	for {
		if f.reset[stream] {
			return "reset"
		}
		frame, err := f.ReadFrame()
		if err != nil {
			f.t.Fatalf("stream %d: %v", stream, err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamID == stream {
				return frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			f.reset[frame.StreamID] = true
		case *http2.GoAwayFrame:
			f.t.Fatalf("stream %d: the connection is over: %v", stream, frame)
		}
	}
}

// TestStrictHTTP2: what a surrogate could read differently is refused, and the connection goes on.
func TestStrictHTTP2(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: inOrder(s.decision()), MaxHead: 8 << 10})
	f := e.framer(t)
	request := func(method, path string, more ...string) []string {
		return append([]string{":method", method, ":scheme", "https", ":authority", "cdn.test", ":path", path}, more...)
	}
	for i, tt := range []struct {
		name   string
		fields []string
		want   []string // any of these
	}{
		{"good", request("GET", "/a", "x-end", "1"), []string{"200"}},
		{"same host", request("GET", "/a", "host", "cdn.test"), []string{"200"}},
		{"space in the path", request("GET", "/a HTTP/1.1 x"), []string{"400"}},
		{"method of two words", request("GET /x", "/a"), []string{"400", "reset"}},
		{"another host", request("GET", "/a", "host", "evil.test"), []string{"400"}},
		{"space in the authority", []string{":method", "GET", ":scheme", "https", ":authority", "a b", ":path", "/"}, []string{"400"}},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "cdn.test:443"}, []string{"501", "405"}},
		{"coding", request("GET", "/a", "transfer-encoding", "chunked"), []string{"400", "reset"}},
		{"two lengths", request("GET", "/a", "content-length", "0", "content-length", "1"), []string{"400", "reset"}},
		{"long path", request("GET", "/"+strings.Repeat("a", 8200)), []string{"414", "431"}},
		{"good again", request("GET", "/a"), []string{"200"}},
	} {
		stream := uint32(2*i + 1)
		f.open(stream, true, tt.fields...)
		if got := f.outcome(stream); !slices.Contains(tt.want, got) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := s.got(); strings.Count(got, "GET ") != 3 {
		t.Errorf("the surrogate got\n%s", got)
	}
}

// TestStalledStreams: a stream that does not move ends, and the others of its connection go on.
func TestStalledStreams(t *testing.T) {
	large := "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200000)
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			if req.URL.Path == "/slow" { // moves more often than Stall, for longer than it
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n")
				for range 6 {
					time.Sleep(100 * time.Millisecond)
					io.WriteString(c, "x")
				}
				continue
			}
			if _, err := io.WriteString(c, large); err != nil {
				return
			}
		}
	})
	const stall = 300 * time.Millisecond
	e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: inOrder(s.decision()), Timeouts: Timeouts{Stall: stall}})
	fields := func(method, path string) []string {
		return []string{":method", method, ":scheme", "https", ":authority", "cdn.test", ":path", path}
	}
	f := e.framer(t)
	f.open(1, true, fields("GET", "/large")...) // its window is never opened
	if got := f.outcome(1); got != "200" {
		t.Fatalf("download: %s", got)
	}
	f.open(3, false, fields("POST", "/")...) // without its body
	if got := f.outcome(3); got != "408" && got != "reset" {
		t.Errorf("upload: %s", got)
	}
	if got := f.outcome(1); got != "reset" {
		t.Errorf("download: %s, want it reset", got)
	}
	f.WriteWindowUpdate(0, 1<<20)
	started := time.Now()
	f.open(5, true, fields("GET", "/slow")...)
	if got := f.outcome(5); got != "200" {
		t.Errorf("slow: %s", got)
	}
	for bytes := 0; bytes < 6; {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("slow: %v after %v", err, time.Since(started))
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			if frame.StreamID == 5 {
				bytes += len(frame.Data())
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == 5 {
				t.Fatalf("slow: reset after %v", time.Since(started))
			}
		}
	}
	poll(t, "all requests are over", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.exchanges) == 3
	})
}

// TestSecureShutdown: a shutdown lets a request of HTTP/2 end, and does not wait for handshakes.
func TestSecureShutdown(t *testing.T) {
	asked, gate := make(chan struct{}), make(chan struct{})
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		close(asked)
		<-gate
		io.WriteString(c, okResponse)
	})
	e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")}, Decide: inOrder(s.decision())})
	silent := e.dial(t)
	c := e.browser(t, nil, true)
	got := make(chan string, 1)
	go func() {
		res, err := c.Get("https://cdn.test/")
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		got <- string(body)
	}()
	<-asked
	time.AfterFunc(50*time.Millisecond, func() { close(gate) })
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // less than a handshake may take
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if body := <-got; body != "ok" {
		t.Errorf("the request brings %q", body)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection is still there")
	}
}
