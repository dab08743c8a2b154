package fallback

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// refusals are requests that must not reach a surrogate, and their responses.
var refusals = []struct {
	name, request string
	status        int
}{
	{"length and coding", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"coding and length", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400},
	{"two lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", 400},
	{"the same length twice", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400},
	{"a list of lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4, 4\r\n\r\nabcd", 400},
	{"signed length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\nabcd", 400},
	{"hexadecimal length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x4\r\n\r\nabcd", 400},
	{"empty length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n", 400},
	{"length over 63 bits", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775808\r\n\r\n", 400},
	{"two codings", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"unknown coding", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
	{"coding before chunked", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
	{"coding with a vertical tab", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", 400},
	{"coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"space before the colon", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 4\r\n\r\nabcd", 400},
	{"folded line", "GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n Content-Length: 4\r\n\r\n", 400},
	{"folded first line", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
	{"bare CR in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\rContent-Length: 4\r\n\r\n", 400},
	{"bare CR before CRLF", "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", 400},
	{"bare LF", "GET / HTTP/1.1\nHost: h\n\n", 400},
	{"bare LF at the end", "GET / HTTP/1.1\r\nHost: h\r\n\n", 400},
	{"bare CR in the request line", "GET /\rx HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"NUL in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\x002\r\n\r\n", 400},
	{"NUL in a name", "GET / HTTP/1.1\r\nHost: h\r\nX\x00A: 1\r\n\r\n", 400},
	{"NUL in the target", "GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"NUL in Host", "GET / HTTP/1.1\r\nHost: h\x00\r\n\r\n", 400},
	{"no colon", "GET / HTTP/1.1\r\nHost: h\r\nnonsense\r\n\r\n", 400},
	{"empty name", "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", 400},
	{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", 400},
	{"Host with a path", "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", 400},
	{"Host with a user", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400},
	{"absolute form with a user", "GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"two spaces", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"tab for space", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"target without a slash", "GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"bad escape", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"asterisk with GET", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"HTTP/0.9", "GET /\r\n\r\n", 400},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
	{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505},
	{"lower-case version", "GET / http/1.1\r\nHost: h\r\n\r\n", 400},
	{"CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", 501},
	{"unknown expectation", "GET / HTTP/1.1\r\nHost: h\r\nExpect: magic\r\n\r\n", 417},
	{"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"three empty lines first", "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
	{"header too large", "GET / HTTP/1.1\r\nHost: h\r\nX-A: " + strings.Repeat("a", 5000) + "\r\n\r\n", 431},
	{"too many headers", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("A: b\r\n", 1000) + "\r\n", 431},
	{"request line too long", "GET /" + strings.Repeat("a", 5000) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414},
	{"101 header lines", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("A: b\r\n", 100) + "\r\n", 431},
	{"a byte of TLS, then nothing", "\x16", 400},
	{"not HTTP", "\x16\x03\x01" + strings.Repeat("\x00", 5000), 400},
	{"HEAD", "HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
}

func TestRefusals(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.decision()), MaxHead: 4096})
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			c := e.dial(t)
			io.WriteString(c, tt.request)
			c.CloseWrite()
			r := bufio.NewReader(c)
			method := "GET"
			if strings.HasPrefix(tt.request, "HEAD") {
				method = "HEAD"
			}
			res, body, err := readResponse(r, method)
			if err != nil {
				t.Fatal(err)
			}
			isOwn(t, res, body, tt.status)
			if rest, err := io.ReadAll(r); len(rest) != 0 || err != nil {
				t.Errorf("after the answer: %q, error %v, want the connection closed cleanly", rest, err)
			}
		})
	}
	if s.connections() != 0 {
		t.Errorf("the surrogate received %q", s.got())
	}
	if got := len(e.refusedWith()); got != len(refusals) {
		t.Errorf("Refused hook = %d times, want %d", got, len(refusals))
	}
}

// TestEmptyLineAhead: some clients end a body with a CRLF too many.
func TestEmptyLineAhead(t *testing.T) {
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, okResponse)
		}
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	r := bufio.NewReader(c)
	for range 3 {
		io.WriteString(c, "\r\n"+getRequest)
		if _, body, err := readResponse(r, "GET"); err != nil || body != "ok" {
			t.Fatalf("response %q, error %v, want ok", body, err)
		}
	}
}

// TestRefusalKeepsOrder: a refused request after good ones is answered in its turn, and what follows it never.
func TestRefusalKeepsOrder(t *testing.T) {
	release := make(chan struct{})
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			<-release
			io.WriteString(c, okResponse)
		}
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	c := e.dial(t)
	io.WriteString(c, "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"+getRequest+refusals[0].request+"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
	poll(t, "the first request is at the surrogate", func() bool { return s.got() != "" })
	close(release)
	r := bufio.NewReader(c)
	for range 2 {
		if _, body, err := readResponse(r, "GET"); err != nil || body != "ok" {
			t.Fatalf("response %q, error %v, want ok", body, err)
		}
	}
	res, body, err := readResponse(r, "GET")
	if err != nil {
		t.Fatal(err)
	}
	isOwn(t, res, body, 400)
	if rest, _ := io.ReadAll(r); len(rest) != 0 {
		t.Errorf("after the refusal: %q, want nothing", rest)
	}
	if strings.Contains(s.got(), "smuggled") {
		t.Error("the request behind the refused one reached the surrogate")
	}
}

func TestMalformedChunks(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.decision())})
	const head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, body := range map[string]string{
		"bare LF after the size": "4\nabcd\r\n0\r\n\r\n",
		"no CRLF after data":     "4\r\nabcdX\r\n0\r\n\r\n",
		"negative size":          "-4\r\nabcd\r\n0\r\n\r\n",
		"no size":                "\r\nabcd\r\n0\r\n\r\n",
		"bare CR in extension":   "4;a\rb\r\nabcd\r\n0\r\n\r\n",
		"bare LF in extension":   "4;a\nb\r\nabcd\r\n0\r\n\r\n",
		"NUL in extension":       "4;a\x00\r\nabcd\r\n0\r\n\r\n",
		"size over 60 bits":      "1000000000000000\r\nabcd",
		"0x prefix":              "0x4\r\nabcd\r\n0\r\n\r\n",
		"bare LF in a trailer":   "0\r\nX-A: b\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			res, got, err := e.ask(t, "POST", head+body+"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			isOwn(t, res, got, 400)
		})
	}
	if strings.Contains(s.got(), "smuggled") {
		t.Error("the request behind a malformed body reached the surrogate")
	}
	if got := e.failed(); len(got) != 0 {
		t.Errorf("failures = %q, want none: the client's doing", got)
	}
}

// TestAnyFragmentation: the segmentation makes no difference.
func TestAnyFragmentation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
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
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	e := serve(t, Options{Decide: inOrder(s.decision())})
	for range 30 {
		var wire bytes.Buffer
		var want []string
		for range 1 + rng.IntN(6) {
			body := strings.Repeat("x\r\n0\r\n\r\n", rng.IntN(40))
			want = append(want, body)
			if rng.IntN(2) == 0 {
				fmt.Fprintf(&wire, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				continue
			}
			wire.WriteString("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
			for len(body) > 0 {
				n := 1 + rng.IntN(len(body))
				fmt.Fprintf(&wire, "%x;e=1\r\n%s\r\n", n, body[:n])
				body = body[n:]
			}
			wire.WriteString("0\r\nX-T: 1\r\n\r\n")
		}
		c := e.dial(t)
		go func(b []byte, cuts *rand.Rand) {
			for len(b) > 0 {
				n := min(len(b), 1+cuts.IntN(50))
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
				b = b[n:]
			}
		}(wire.Bytes(), rand.New(rand.NewPCG(seed, rng.Uint64())))
		r := bufio.NewReader(c)
		for i, w := range want {
			if res, got, err := readResponse(r, "PUT"); err != nil || res.StatusCode != 200 || got != w {
				t.Fatalf("response %d: %v %q, error %v, want %q", i, res, got, err, w)
			}
		}
		c.Close()
	}
}

func TestVerdictAnswers(t *testing.T) {
	tests := []struct {
		name, sent string
		verdict    Verdict
	}{
		{"whole request", getRequest, Verdict{404, "no route matches"}},
		{"half a head", "GET / HT", Verdict{408, "request header not received in time"}},
		{"nothing yet", "", Verdict{503, "no surrogate is up"}},
		{"head and some body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\nabc", Verdict{413, "request too large"}},
		{"not HTTP", "\x16\x03\x01\x00", Verdict{400, "not HTTP"}},
		{"bad gateway", getRequest, Verdict{502, "the surrogate closed"}},
		{"too long", getRequest, Verdict{414, "request line too long"}},
		{"too large", getRequest, Verdict{431, ""}},
	}
	s := newSurrogate(t, "s", says(okResponse))
	verdicts := NewVerdicts(16, time.Minute)
	e := serve(t, Options{Decide: inOrder(s.decision()), Verdicts: verdicts})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0") // a free port, known before connecting
			if err != nil {
				t.Fatal(err)
			}
			local := l.Addr().(*net.TCPAddr)
			l.Close()
			verdicts.Put(local.AddrPort(), tt.verdict)
			d := net.Dialer{LocalAddr: local}
			c, err := d.Dial("tcp4", e.addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(10 * time.Second))
			io.WriteString(c, tt.sent)
			r := bufio.NewReader(c)
			res, body, err := readResponse(r, "GET")
			if err != nil {
				t.Fatal(err)
			}
			isOwn(t, res, body, tt.verdict.Status)
			if !strings.Contains(body, tt.verdict.Reason) {
				t.Errorf("body %q does not name %q", body, tt.verdict.Reason)
			}
			if !res.Close {
				t.Error("the answer does not say Connection: close")
			}
		})
	}
	if s.connections() != 0 {
		t.Errorf("the surrogate received %q", s.got())
	}
	if verdicts.Len() != 0 {
		t.Errorf("verdicts left = %d, want 0: each is used once", verdicts.Len())
	}
	if _, body, err := e.ask(t, "GET", getRequest); err != nil || body != "ok" {
		t.Errorf("a client without a verdict: %q, error %v", body, err)
	}
}

func TestVerdictsBoundedAndExpiring(t *testing.T) {
	now := time.Unix(1000, 0)
	v := NewVerdicts(3, 10*time.Second)
	v.now = func() time.Time { return now }
	client := func(port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)
	}
	for port := range uint16(5) {
		v.Put(client(port), Verdict{400 + int(port), ""})
		now = now.Add(time.Second)
	}
	if v.Len() != 3 {
		t.Fatalf("Len = %d, want 3", v.Len())
	}
	if _, ok := v.Take(client(1)); ok {
		t.Error("the second oldest is still there")
	}
	v.Put(client(2), Verdict{500, "newer"}) // in place of 402, and younger than 403
	v.Put(client(9), Verdict{409, ""})
	if _, ok := v.Take(client(3)); ok {
		t.Error("403 is still there, want the oldest gone")
	}
	mapped := netip.AddrPortFrom(netip.MustParseAddr("::ffff:192.0.2.1"), 2)
	if got, ok := v.Take(mapped); !ok || got.Status != 500 {
		t.Errorf("Take(2) = %v %v, want 500", got, ok)
	}
	if _, ok := v.Take(client(2)); ok {
		t.Error("taken twice")
	}
	now = now.Add(9 * time.Second)
	if _, ok := v.Take(client(4)); ok {
		t.Error("404 is there after its life")
	}
	if v.Len() != 1 || len(v.byAddr) != 1 {
		t.Errorf("Len = %d, keys = %d, want 1", v.Len(), len(v.byAddr))
	}
}

func TestTimeouts(t *testing.T) {
	short := Timeouts{Head: 150 * time.Millisecond, Idle: 300 * time.Millisecond, Stall: 200 * time.Millisecond}
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			switch req.URL.Path {
			case "/stall":
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
				io.Copy(io.Discard, r)
			case "/ws":
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
				io.Copy(c, r)
			default:
				io.WriteString(c, okResponse)
			}
		}
	})
	e := serve(t, Options{Decide: inOrder(s.decision()), Timeouts: Timeouts{
		Head: short.Head, Idle: short.Idle, Stall: short.Stall, FirstByte: 200 * time.Millisecond,
	}})
	closes := func(t *testing.T, r io.Reader) {
		t.Helper()
		if rest, err := io.ReadAll(r); len(rest) != 0 || (err != nil && isTimeout(err)) {
			t.Errorf("read %q, error %v, want the connection closed", rest, err)
		}
	}
	t.Run("nothing sent", func(t *testing.T) { closes(t, e.dial(t)) })
	t.Run("trickling header is 408", func(t *testing.T) {
		c := e.dial(t)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for _, b := range []byte(getRequest[:len(getRequest)-2] + strings.Repeat("X-A: b\r\n", 1000)) {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					c.Write([]byte{b})
				}
			}
		}()
		res, body, err := readResponse(bufio.NewReader(c), "GET")
		if err != nil {
			t.Fatal(err)
		}
		isOwn(t, res, body, 408)
	})
	t.Run("slow second header is 408", func(t *testing.T) {
		c := e.dial(t)
		io.WriteString(c, getRequest+"GET / HTTP/1.1\r\n")
		r := bufio.NewReader(c)
		if _, body, err := readResponse(r, "GET"); err != nil || body != "ok" {
			t.Fatalf("first response %q, error %v", body, err)
		}
		res, body, err := readResponse(r, "GET")
		if err != nil {
			t.Fatal(err)
		}
		isOwn(t, res, body, 408)
	})
	t.Run("idle keep-alive is closed", func(t *testing.T) {
		c := e.dial(t)
		io.WriteString(c, getRequest)
		r := bufio.NewReader(c)
		if _, body, err := readResponse(r, "GET"); err != nil || body != "ok" {
			t.Fatalf("response %q, error %v", body, err)
		}
		closes(t, r)
	})
	t.Run("stalled body is 408", func(t *testing.T) {
		res, body, err := e.ask(t, "POST", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
		if err != nil {
			t.Fatal(err)
		}
		isOwn(t, res, body, 408)
	})
	t.Run("stalled response is cut", func(t *testing.T) {
		_, body, err := e.ask(t, "GET", "GET /stall HTTP/1.1\r\nHost: h\r\n\r\n")
		if err == nil || body != "abc" {
			t.Errorf("response %q, error %v, want abc and an early end", body, err)
		}
	})
	t.Run("idle upgraded connection is closed, a busy one lives", func(t *testing.T) {
		c := e.dial(t)
		io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		r := bufio.NewReader(c)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
			t.Fatalf("response %v, error %v, want 101", res, err)
		}
		for start := time.Now(); time.Since(start) < 2*short.Stall; {
			io.WriteString(c, "x")
			if b, err := r.ReadByte(); err != nil || b != 'x' {
				t.Fatalf("echo after %v: %q, error %v", time.Since(start), b, err)
			}
		}
		closes(t, r)
	})
}

func TestConnectionLimit(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.decision()), MaxConnections: 2})
	a, b := e.dial(t), e.dial(t)
	io.WriteString(a, getRequest)
	io.WriteString(b, getRequest)
	for _, c := range []net.Conn{a, b} {
		if _, body, err := readResponse(bufio.NewReader(c), "GET"); err != nil || body != "ok" {
			t.Fatalf("response %q, error %v", body, err)
		}
	}
	third := e.dial(t) // waits in the listen queue
	io.WriteString(third, getRequest)
	third.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, _, err := readResponse(bufio.NewReader(third), "GET"); err == nil {
		t.Fatal("a third connection was served")
	}
	a.Close()
	third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, body, err := readResponse(bufio.NewReader(third), "GET"); err != nil || body != "ok" {
		t.Errorf("after one has closed: %q, error %v, want ok", body, err)
	}
}

func TestListenFreebind(t *testing.T) {
	for _, addr := range []string{"192.0.2.77:0", "[2001:db8::77]:0"} {
		l, err := Listen(t.Context(), netip.MustParseAddrPort(addr))
		if err != nil {
			if strings.Contains(addr, "[") {
				if probe, perr := net.Listen("tcp6", "[::1]:0"); perr != nil {
					t.Skipf("no IPv6 here: %v", perr)
				} else {
					probe.Close()
				}
			}
			t.Fatalf("Listen(%s) = %v, want a listener on an address that is not the host's", addr, err)
		}
		if got := l.Addr().String(); !strings.HasPrefix(got, strings.TrimSuffix(addr, "0")) {
			t.Errorf("address = %s, want %s", got, addr)
		}
		l.Close()
	}
}
