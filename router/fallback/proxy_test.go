package fallback

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/router/config"
)

const getRequest = "GET /a HTTP/1.1\r\nHost: cdn.example.net\r\n\r\n"

func TestSurrogateScripts(t *testing.T) {
	const post = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
	const emptyPost = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
	const put = "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
	silent := func(c *net.TCPConn, r *bufio.Reader) { io.Copy(io.Discard, r) }
	tests := []struct {
		name    string
		request string
		first   func(*net.TCPConn, *bufio.Reader) // nil: refuses
		status  int
		own     bool // answered by the router
		body    string
		broken  bool // the body ends early
		failure string
	}{
		{name: "answers", request: getRequest, first: says(okResponse), status: 200, body: "ok"},
		{name: "refuses GET", request: getRequest, status: 200, body: "2nd", failure: "refused"},
		{name: "refuses POST, body not yet read", request: post, status: 200, body: "2nd", failure: "refused"},
		{name: "resets GET before headers", request: getRequest, first: resets, status: 200, body: "2nd", failure: "reset"},
		{name: "closes on GET before headers", request: getRequest, first: saysAndCloses(""), status: 200, body: "2nd", failure: "reset"},
		{name: "resets POST after its body", request: post, first: resets, status: 502, own: true, failure: "reset"},
		{name: "closes on an empty POST", request: emptyPost, first: saysAndCloses(""), status: 502, own: true, failure: "reset"},
		{name: "resets PUT after its body", request: put, first: resets, status: 502, own: true, failure: "reset"},
		{name: "closes within the head", request: getRequest, first: saysAndCloses("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"), status: 502, own: true, failure: "reset"},
		{name: "speaks no HTTP", request: getRequest, first: saysAndCloses("SSH-2.0-OpenSSH_9.2\r\n"), status: 502, own: true, failure: "malformed"},
		{name: "conflicting lengths in the response", request: getRequest, first: saysAndCloses("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!"), status: 502, own: true, failure: "malformed"},
		{name: "closes mid-body", request: getRequest, first: saysAndCloses("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), status: 200, body: "half", broken: true},
		{name: "closes mid-chunk", request: getRequest, first: saysAndCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf"), status: 200, body: "half", broken: true},
		{name: "never answers GET", request: getRequest, first: silent, status: 200, body: "2nd", failure: "timeout"},
		{name: "never answers POST", request: post, first: silent, status: 504, own: true, failure: "timeout"},
		{name: "chunked", request: getRequest, first: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n"), status: 200, body: "abcd"},
		{name: "until close", request: getRequest, first: saysAndCloses("HTTP/1.1 200 OK\r\n\r\nall of it"), status: 200, body: "all of it"},
		{name: "204", request: getRequest, first: says("HTTP/1.1 204 No Content\r\n\r\n"), status: 204},
		{name: "304", request: getRequest, first: says("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"), status: 304},
		{name: "HEAD", request: "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n", first: says("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"), status: 200},
		{name: "HTTP/1.0 client", request: "GET /a HTTP/1.0\r\n\r\n", first: says(okResponse), status: 200, body: "ok"},
		{name: "103 before 200", request: getRequest, first: says("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + okResponse), status: 200, body: "ok"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := Decision{Surrogate: "s1", Address: refusing(t)}
			if tt.first != nil {
				first = newSurrogate(t, "s1", tt.first).decision()
			}
			second := newSurrogate(t, "s2", says("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n2nd"))
			e := serve(t, Options{Decide: inOrder(first, second.decision()), Timeouts: Timeouts{FirstByte: 200 * time.Millisecond}})
			method, _, _ := strings.Cut(tt.request, " ")
			c := e.dial(t)
			io.WriteString(c, tt.request)
			r := bufio.NewReader(c)
			res, body, err := readResponse(r, method)
			for err == nil && res.StatusCode < 200 {
				res, body, err = readResponse(r, method)
			}
			if (err != nil) != tt.broken {
				t.Fatalf("reading the response: %v, want broken = %v", err, tt.broken)
			}
			if res == nil {
				return // cut off before the head left the buffer
			}
			if tt.own {
				isOwn(t, res, body, tt.status)
				if second.connections() != 0 {
					t.Error("the second surrogate was asked too")
				}
			} else if res.StatusCode != tt.status || body != tt.body {
				t.Errorf("response = %d %q, want %d %q", res.StatusCode, body, tt.status, tt.body)
			}
			var want []string
			if tt.failure != "" {
				want = []string{"s1:" + tt.failure}
			}
			if got := e.failed(); !slices.Equal(got, want) {
				t.Errorf("failures = %q, want %q", got, want)
			}
		})
	}
}

func TestHeadKeepsLength(t *testing.T) {
	s := newSurrogate(t, "s", says("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	res, _, err := e.ask(t, "HEAD", "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n")
	if err != nil || res.ContentLength != 12345 {
		t.Errorf("HEAD: length %v, error %v, want 12345", res, err)
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	var all []Decision
	for i := range 6 {
		all = append(all, Decision{Surrogate: fmt.Sprint("s", i), Address: refusing(t)})
	}
	e := serve(t, Options{Decide: inOrder(all...), Attempts: 4})
	res, body, err := e.ask(t, "GET", getRequest)
	if err != nil {
		t.Fatal(err)
	}
	isOwn(t, res, body, http.StatusBadGateway)
	if got := len(e.failed()); got != 4 {
		t.Errorf("attempts = %d, want 4", got)
	}
}

func TestDecisionAnswers(t *testing.T) {
	tests := []struct {
		name     string
		decision Decision
		status   int
		retry    string
	}{
		{"none up", Decision{Status: 503, Reason: "no surrogate of pool video is up"}, 503, "5"},
		{"nothing decided", Decision{}, 503, "5"},
		{"impossible status", Decision{Status: 7, Reason: "a mistake"}, 500, ""},
		{"no route", Decision{Status: 404, Reason: "no route matches"}, 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := serve(t, Options{Decide: inOrder(tt.decision)})
			res, body, err := e.ask(t, "GET", getRequest)
			if err != nil {
				t.Fatal(err)
			}
			isOwn(t, res, body, tt.status)
			if got := res.Header.Get("Retry-After"); got != tt.retry {
				t.Errorf("Retry-After = %q, want %q", got, tt.retry)
			}
			if !strings.Contains(body, tt.decision.Reason) {
				t.Errorf("body %q does not name the reason %q", body, tt.decision.Reason)
			}
		})
	}
}

// TestRequestAsSent: the surrogate receives what the client sent, except hop-by-hop and X-Forwarded fields.
func TestRequestAsSent(t *testing.T) {
	tests := []struct{ name, target, want string }{
		{"plain", "/a?b=c", "/a?b=c"},
		{"odd escapes", "/a|b%2Fc%2f%7e?q=;x&y=%zz", "/a|b%2Fc%2f%7e?q=;x&y=%zz"},
		{"empty query", "/a?", "/a?"},
		{"dots and slashes", "/a/../b//c/.", "/a/../b//c/."},
		{"two slashes first", "//a/b?x=;", "//a/b?x=;"},
		{"absolute form", "http://cdn.example.net/a?b", "/a?b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSurrogate(t, "s", says(okResponse))
			e := serve(t, Options{Decide: inOrder(s.decision())})
			res, body, err := e.ask(t, "GET", "GET "+tt.target+" HTTP/1.1\r\nHost: cdn.example.net\r\nX-Forwarded-For: 6.6.6.6\r\n"+
				"Forwarded: for=6.6.6.6\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nProxy-Authorization: x\r\nX-End: 2\r\n\r\n")
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("response %v %q, error %v", res, body, err)
			}
			got, err := http.ReadRequest(bufio.NewReader(strings.NewReader(s.got())))
			if err != nil {
				t.Fatal(err)
			}
			if got.RequestURI != tt.want || got.Host != "cdn.example.net" {
				t.Errorf("target = %q of %q, want %q of cdn.example.net", got.RequestURI, got.Host, tt.want)
			}
			want := http.Header{
				"X-End": {"2"}, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"cdn.example.net"}, "X-Forwarded-Proto": {"http"},
			}
			if fmt.Sprint(got.Header) != fmt.Sprint(want) {
				t.Errorf("header = %v, want %v", got.Header, want)
			}
		})
	}
}

func TestRedirect(t *testing.T) {
	addr := netip.MustParseAddrPort("10.2.1.2:8080")
	tests := []struct {
		name, request, public, location string
		status                          int
	}{
		{"GET", "GET /v/1?q=%41 HTTP/1.1\r\nHost: h\r\n\r\n", "https://s1.example.net", "https://s1.example.net/v/1?q=%41", 302},
		{"HEAD", "HEAD /v HTTP/1.1\r\nHost: h\r\n\r\n", "https://s1.example.net/", "https://s1.example.net/v", 302},
		{"POST", "POST /v HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab", "", "http://10.2.1.2:8080/v", 307},
		{"absolute form", "GET http://h/v?x HTTP/1.1\r\nHost: h\r\n\r\n", "", "http://10.2.1.2:8080/v?x", 302},
		{"no authority from the target", "GET //evil.example/ HTTP/1.1\r\nHost: h\r\n\r\n", "", "http://10.2.1.2:8080//evil.example/", 302},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "", "http://10.2.1.2:8080/", 307},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := serve(t, Options{Mode: config.Redirect, Decide: inOrder(Decision{Surrogate: "s1", Address: addr, Public: tt.public})})
			method, _, _ := strings.Cut(tt.request, " ")
			res, body, err := e.ask(t, method, tt.request)
			if err != nil {
				t.Fatal(err)
			}
			isOwn(t, res, body, tt.status)
			if got := res.Header.Get("Location"); got != tt.location {
				t.Errorf("Location = %q, want %q", got, tt.location)
			}
		})
	}
}

func TestResponseTrailers(t *testing.T) {
	s := newSurrogate(t, "s", says("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 42\r\n\r\n"))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	res, body, err := e.ask(t, "GET", getRequest)
	if err != nil || body != "ab" || res.Trailer.Get("X-Sum") != "42" {
		t.Errorf("body %q, trailer %v, error %v, want ab and X-Sum: 42", body, res.Trailer, err)
	}
}

func TestRequestTrailers(t *testing.T) {
	sum := make(chan string, 1)
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		sum <- req.Trailer.Get("X-Sum")
		io.WriteString(c, okResponse)
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	_, body, err := e.ask(t, "POST", "POST /a HTTP/1.1\r\nHost: h\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 42\r\n\r\n")
	if err != nil || body != "ok" {
		t.Fatalf("body %q, error %v", body, err)
	}
	if got := <-sum; got != "42" {
		t.Errorf("trailer at the surrogate = %q, want 42", got)
	}
}

func TestUpgrade(t *testing.T) {
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(c, r)
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x00early") // data right after the head
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("response %v, error %v, want 101", res, err)
	}
	for i := range 50 {
		message := fmt.Sprintf("\x81 frame %d \r\n\r\n", i)
		if i == 0 {
			message = "\x00early"
		} else {
			io.WriteString(c, message)
		}
		got := make([]byte, len(message))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != message {
			t.Fatalf("echo %d = %q, error %v, want %q", i, got, err, message)
		}
	}
	c.Close()
	poll(t, "the upgraded exchange is over and counted", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.exchanges) == 1 && e.exchanges[0].Status == 101
	})
}

// TestUpgradeDeclined: bytes after a declined upgrade were not checked, so they are not served.
func TestUpgradeDeclined(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+
		"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
	r := bufio.NewReader(c)
	res, body, err := readResponse(r, "GET")
	if err != nil || res.StatusCode != 200 || body != "ok" {
		t.Fatalf("response %v %q, error %v, want 200 ok", res, body, err)
	}
	if _, err := http.ReadResponse(r, nil); err == nil {
		t.Error("a second response came, want the connection closed")
	}
	if strings.Contains(s.got(), "smuggled") {
		t.Error("the surrogate received the unchecked request")
	}
}

func TestUpgradeToHTTP2IsStripped(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	_, body, err := e.ask(t, "GET", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n")
	if err != nil || body != "ok" {
		t.Fatalf("body %q, error %v", body, err)
	}
	if got := strings.ToLower(s.got()); strings.Contains(got, "upgrade") || strings.Contains(got, "http2") {
		t.Errorf("the surrogate received %q", got)
	}
}

// TestUploadStreams: the surrogate has the first half while the client holds back the second.
func TestUploadStreams(t *testing.T) {
	const half = 8 << 20
	reached := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		io.CopyN(h, r.Body, half)
		close(reached)
		io.Copy(h, r.Body)
		fmt.Fprintf(w, "%x", h.Sum(nil))
	}))
	defer s.Close()
	addr := s.Listener.Addr().(*net.TCPAddr).AddrPort()
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			reached = make(chan struct{})
			e := serve(t, Options{Decide: inOrder(Decision{Surrogate: "s", Address: addr})})
			body := make([]byte, 2*half)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			src := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
			src.Read(body)
			pr, pw := io.Pipe()
			go func() {
				pw.Write(body[:half])
				<-reached
				pw.Write(body[half:])
				pw.Close()
			}()
			req, _ := http.NewRequest("POST", "http://"+e.addr.String()+"/up", pr)
			if !chunked {
				req.ContentLength = 2 * half
			}
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			res, err := (&http.Client{Transport: tr, Timeout: 20 * time.Second}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if want := fmt.Sprintf("%x", sha256.Sum256(body)); string(got) != want {
				t.Errorf("digest at the surrogate = %s, want %s", got, want)
			}
		})
	}
}

func TestClientGoneCancelsUpstream(t *testing.T) {
	cancelled := make(chan struct{})
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.Copy(io.Discard, r) // ends when the router closes
		close(cancelled)
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, getRequest)
	poll(t, "the request is at the surrogate", func() bool { return strings.Contains(s.got(), "GET /a") })
	c.Close()
	select {
	case <-cancelled:
	case <-time.After(10 * time.Second):
		t.Fatal("the surrogate's connection is still open")
	}
	if got := e.failed(); len(got) != 0 {
		t.Errorf("failures = %q, want none: the client's doing", got)
	}
}

func TestKeepAliveBothSides(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	r := bufio.NewReader(c)
	for i := range 20 {
		io.WriteString(c, getRequest)
		if _, body, err := readResponse(r, "GET"); err != nil || body != "ok" {
			t.Fatalf("request %d: %q, error %v", i, body, err)
		}
	}
	if got := s.connections(); got != 1 {
		t.Errorf("connections to the surrogate = %d, want 1", got)
	}
}

func TestPipelinedRequestsInOrder(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	}))
	defer s.Close()
	e := serve(t, Options{Decide: inOrder(Decision{Surrogate: "s", Address: s.Listener.Addr().(*net.TCPAddr).AddrPort()})})
	c := e.dial(t)
	io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\r\n"+
		"POST /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\nGET /4 HTTP/1.1\r\nHost: h\r\n\r\n")
	r := bufio.NewReader(c)
	for _, want := range []string{"/1 ", "/2 abc", "/3 de", "/4 "} {
		if _, got, err := readResponse(r, "GET"); err != nil || got != want {
			t.Fatalf("response %q, error %v, want %q", got, err, want)
		}
	}
}

func TestShutdownLetsRequestsEnd(t *testing.T) {
	release := make(chan struct{})
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		<-release
		io.WriteString(c, okResponse)
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, getRequest)
	poll(t, "the request is at the surrogate", func() bool { return s.got() != "" })
	down := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		down <- e.Shutdown(ctx)
	}()
	poll(t, "the listener is closed", func() bool {
		probe, err := net.Dial("tcp4", e.addr.String())
		if err == nil {
			probe.Close()
		}
		return err != nil
	})
	close(release)
	if _, body, err := readResponse(bufio.NewReader(c), "GET"); err != nil || body != "ok" {
		t.Errorf("response %q, error %v, want ok", body, err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown = %v, want nil", err)
	}
}
