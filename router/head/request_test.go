package head

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plain is a Request with strings, for tables.
type plain struct {
	Method, Target, Path, Query, Host string
	Form                              Form
	Version                           Version
	ContentLength                     int64
	KeepAlive, Upgrade, Expect        bool
}

func plainOf(r Request) plain {
	return plain{string(r.Method), string(r.Target), string(r.Path), string(r.Query), string(r.Host),
		r.Form, r.Version, r.ContentLength, r.KeepAlive, r.Upgrade, r.ExpectContinue}
}

func TestParseAccepts(t *testing.T) {
	tests := []struct {
		name, in string
		want     plain
	}{
		{"curl", "GET /video/a.mp4?t=1 HTTP/1.1\r\nHost: cdn.example.net\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n",
			plain{Method: "GET", Target: "/video/a.mp4?t=1", Path: "/video/a.mp4", Query: "t=1", Host: "cdn.example.net", Version: HTTP11, KeepAlive: true}},
		{"host with capitals and port", "GET / HTTP/1.1\r\nhOST:\tCDN.Example.NET:8080 \t\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "cdn.example.net", Version: HTTP11, KeepAlive: true}},
		{"host with a trailing dot and a port", "GET / HTTP/1.1\r\nHost: CDN.Example.net.:80\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "cdn.example.net", Version: HTTP11, KeepAlive: true}},
		{"absolute form with a trailing dot", "GET http://A.:80/ HTTP/1.1\r\nHost: b\r\n\r\n",
			plain{
				Method: "GET", Target: "http://A.:80/", Path: "/", Host: "a", Form: Absolute, Version: HTTP11, KeepAlive: true,
			}},
		{"host without port after its colon", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "a", Version: HTTP11, KeepAlive: true}},
		{"IPv6 host", "GET / HTTP/1.1\r\nHost: [2001:DB8::9]:80\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "[2001:db8::9]", Version: HTTP11, KeepAlive: true}},
		{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Version: HTTP11, KeepAlive: true}},
		{"1.0 without host", "GET / HTTP/1.0\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Version: HTTP10}},
		{"1.0 kept alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Version: HTTP10, KeepAlive: true}},
		{"close in a list", "GET / HTTP/1.1\r\nHost: a\r\nConnection: te , ,Close\r\nTE: trailers\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "a", Version: HTTP11}},
		{"close on a second line", "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "a", Version: HTTP11}},
		{"length", "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 0042\r\n\r\n",
			plain{Method: "POST", Target: "/f", Path: "/f", Host: "a", Version: HTTP11, ContentLength: 42, KeepAlive: true}},
		{"chunked", "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: X-Sum\r\n\r\n",
			plain{Method: "POST", Target: "/f", Path: "/f", Host: "a", Version: HTTP11, ContentLength: -1, KeepAlive: true}},
		{"expect", "PUT /f HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n",
			plain{Method: "PUT", Target: "/f", Path: "/f", Host: "a", Version: HTTP11, ContentLength: 1, KeepAlive: true, Expect: true}},
		{"upgrade", "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
			plain{Method: "GET", Target: "/ws", Path: "/ws", Host: "a", Version: HTTP11, KeepAlive: true, Upgrade: true}},
		{"absolute form replaces Host", "GET HTTP://Other.net:81/p?q HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "GET", Target: "HTTP://Other.net:81/p?q", Path: "/p", Query: "q", Host: "other.net", Form: Absolute, Version: HTTP11, KeepAlive: true}},
		{"absolute form without path", "GET http://a?q HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "GET", Target: "http://a?q", Path: "/", Query: "q", Host: "a", Form: Absolute, Version: HTTP11, KeepAlive: true}},
		{"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "OPTIONS", Target: "*", Path: "*", Host: "a", Form: Asterisk, Version: HTTP11, KeepAlive: true}},
		{"query is the first question mark's", "GET /a?b?c HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "GET", Target: "/a?b?c", Path: "/a", Query: "b?c", Host: "a", Version: HTTP11, KeepAlive: true}},
		{"path stays raw", "GET //a/../%2e%2E/b HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "GET", Target: "//a/../%2e%2E/b", Path: "//a/../%2e%2E/b", Host: "a", Version: HTTP11, KeepAlive: true}},
		{"what browsers send though they should not", "GET /\xc3\xa4?a=|{}^`\"<>\\%zz HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "GET", Target: "/\xc3\xa4?a=|{}^`\"<>\\%zz", Path: "/\xc3\xa4", Query: "a=|{}^`\"<>\\%zz", Host: "a", Version: HTTP11, KeepAlive: true}},
		{"any method", "M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "M-SEARCH", Target: "/", Path: "/", Host: "a", Version: HTTP11, KeepAlive: true}},
		{"an empty line before, RFC 9112 2.2", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "a", Version: HTTP11, KeepAlive: true}},
		{"obs-text and tab in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\t\xff\r\n\r\n",
			plain{Method: "GET", Target: "/", Path: "/", Host: "a", Version: HTTP11, KeepAlive: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.in + "body of the request\r\n\r\n"
			r, n, err := Parse([]byte(in))
			if err != nil {
				t.Fatal(err)
			}
			if n != len(tt.in) {
				t.Errorf("length = %d, want %d", n, len(tt.in))
			}
			if diff := cmp.Diff(tt.want, plainOf(r)); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
			prefixes(t, tt.in)
		})
	}
}

// prefixes checks that each prefix of an accepted head is incomplete, however it is segmented.
func prefixes(t *testing.T, in string) {
	t.Helper()
	for i := range len(in) {
		if _, n, err := Parse([]byte(in[:i])); !errors.Is(err, ErrIncomplete) || n != 0 {
			t.Fatalf("Parse of the first %d bytes = %d, %v, want 0, ErrIncomplete", i, n, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	get := func(headers string) string { return "GET / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" }
	target := func(s string) string { return "GET " + s + " HTTP/1.1\r\nHost: a\r\n\r\n" }
	host := func(s string) string { return "GET / HTTP/1.1\r\nHost: " + s + "\r\n\r\n" }
	tests := []struct {
		name, in string
		want     int
	}{
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"HTTP/0.9", "GET /\r\n", 400},
		{"HTTP/3.0", "GET / HTTP/3.0\r\n\r\n", 505},
		{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
		{"version in lower case", "GET / http/1.1\r\n\r\n", 400},
		{"version with three digits", "GET / HTTP/1.10\r\n\r\n", 400},
		{"version of letters", "GET / HTTP/x.y\r\n\r\n", 400},
		{"version missing", "GET / \r\n\r\n", 400},
		{"space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
		{"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"space before the method", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"method of no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"method too long", strings.Repeat("G", 33) + " / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
		{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
		{"two empty lines before", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"bare CR before", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"bare LF before", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"bare LF ends the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
		{"bare CR in the request line", "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"NUL in the target", target("/\x00"), 400},
		{"DEL in the target", target("/\x7f"), 400},
		{"fragment", target("/a#b"), 400},
		{"relative target", target("a"), 400},
		{"asterisk without OPTIONS", target("*"), 400},
		{"other scheme", target("ftp://a/"), 400},
		{"no authority", target("http:///a"), 400},
		{"scheme alone", target("http://"), 400},
		{"user information", target("http://u@a/"), 400},
		{"bad port in the target", target("http://a:b/"), 400},
		{"bad escape", target("/%4"), 400},
		{"bad escape in the middle", target("/%g0/"), 400},
		{"request line of 8193 bytes", target("/" + strings.Repeat("a", MaxLine+1-len("GET / HTTP/1.1"))), 414},
		{"request line without end", "GET /" + strings.Repeat("a", MaxLine), 414},

		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two Hosts", get("Host: a\r\n"), 400},
		{"two Hosts in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400},
		{"Host with a path", host("a/b"), 400},
		{"Host with user information", host("u@a"), 400},
		{"Host with a space", host("a b"), 400},
		{"Host with a list", host("a,b"), 400},
		{"Host with a port of letters", host("a:b"), 400},
		{"Host with a port too high", host("a:65536"), 400},
		{"Host of a port alone", host(":80"), 400},
		{"Host with two ports", host("a:1:2"), 400},
		{"Host of bare IPv6", host("::1"), 400},
		{"Host with open bracket", host("[::1"), 400},
		{"Host with zone", host("[fe80::1%25eth0]"), 400},
		{"Host with something after the bracket", host("[::1]x"), 400},
		{"Host with an escape", host("a%41"), 400},
		{"Host with obs-text", host("\xe4"), 400},

		{"bare LF ends a header", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
		{"bare LF ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400},
		{"bare CR in a header", get("X: a\rb\r\n"), 400},
		{"CR CR LF", get("X: a\r\r\n"), 400},
		{"NUL in a value", get("X: a\x00b\r\n"), 400},
		{"control byte in a value", get("X: \x01\r\n"), 400},
		{"NUL in a name", get("X\x00: a\r\n"), 400},
		{"space before the colon", get("X : a\r\n"), 400},
		{"tab before the colon", get("X\t: a\r\n"), 400},
		{"space before the colon of Content-Length", get("Content-Length : 5\r\n"), 400},
		{"no colon", get("X\r\n"), 400},
		{"empty name", get(": a\r\n"), 400},
		{"name above ASCII", get("\xe4: a\r\n"), 400},
		{"folded", get("X: a\r\n b\r\n"), 400},
		{"folded by a tab", get("X: a\r\n\tb\r\n"), 400},
		{"folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},

		{"two lengths that differ", get("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
		{"two lengths that agree", get("Content-Length: 5\r\ncontent-length: 5\r\n"), 400},
		{"list of lengths", get("Content-Length: 5, 5\r\n"), 400},
		{"negative length", get("Content-Length: -5\r\n"), 400},
		{"length with a sign", get("Content-Length: +5\r\n"), 400},
		{"length in hexadecimal", get("Content-Length: 0x5\r\n"), 400},
		{"length with a space", get("Content-Length: 5 5\r\n"), 400},
		{"empty length", get("Content-Length:\r\n"), 400},
		{"length of 2^63", get("Content-Length: 9223372036854775808\r\n"), 400},
		{"length and coding", get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"coding and length", get("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
		{"coding twice", get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"coding in 1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"coding before chunked", get("Transfer-Encoding: gzip, chunked\r\n"), 501},
		{"coding after chunked", get("Transfer-Encoding: chunked, gzip\r\n"), 400},
		{"coding that is no token", get("Transfer-Encoding: \"chunked\"\r\n"), 400},
		{"coding alike", get("Transfer-Encoding: xchunked\r\n"), 501},
		{"coding with parameter", get("Transfer-Encoding: chunked;a=b\r\n"), 400},
		{"empty coding", get("Transfer-Encoding:\r\n"), 400},
		{"coding identity", get("Transfer-Encoding: identity\r\n"), 400},
		{"length in the trailer", get("Transfer-Encoding: chunked\r\nTrailer: X, Content-Length\r\n"), 400},

		{"another expectation", get("Expect: 200-ok\r\n"), 417},
		{"two expectations", get("Expect: 100-continue, x\r\n"), 417},
		{"no expectation", get("Expect:\r\n"), 417},
		{"another expectation in 1.0", "GET / HTTP/1.0\r\nExpect: x\r\n\r\n", 417},

		{"101 headers", get(strings.Repeat("X: a\r\n", MaxHeaders)), 431},
		{"head of more than 32 KiB", get("X: " + strings.Repeat("a", MaxHead) + "\r\n"), 431},
		{"head of 32 KiB and a byte", get("X: " + strings.Repeat("a", MaxHead+1-len(get("X: \r\n"))) + "\r\n"), 431},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, n, err := Parse([]byte(tt.in))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Parse = %d, %v, want an *Error", n, err)
			}
			if e.Status != tt.want || n != 0 {
				t.Errorf("Parse = %d, %v, want 0 and status %d", n, e, tt.want)
			}
		})
	}
}

func TestParseAtLimits(t *testing.T) {
	request := "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n"
	tests := []struct{ name, in string }{
		{"request line of 8192 bytes", "GET /" + strings.Repeat("a", MaxLine-len("GET / HTTP/1.1")) + " HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"head of 32768 bytes", strings.Replace(request, "X: ", "X: "+strings.Repeat("a", MaxHead-len(request)), 1)},
		{"100 headers", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: a\r\n", MaxHeaders-1) + "\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, n, err := Parse([]byte(tt.in))
			if err != nil || n != len(tt.in) {
				t.Errorf("Parse = %d, %v, want %d, nil", n, err, len(tt.in))
			}
		})
	}
}

func TestFields(t *testing.T) {
	r, _, err := Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\nX-A:  1 \r\nx-a: 2\r\nEmpty:\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, value := range r.Fields.All() {
		got = append(got, fmt.Sprintf("%s=%s", name, value))
	}
	if diff := cmp.Diff([]string{"Host=a", "X-A=1", "x-a=2", "Empty="}, got); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
	for range r.Fields.All() {
		break // an early end must be possible
	}
	if value, ok := r.Fields.Get("X-a"); !ok || string(value) != "1" {
		t.Errorf("Get(X-a) = %q, %v, want the first, 1", value, ok)
	}
	if value, ok := r.Fields.Get("empty"); !ok || len(value) != 0 {
		t.Errorf("Get(empty) = %q, %v, want an empty value that is there", value, ok)
	}
	if _, ok := r.Fields.Get("X"); ok {
		t.Error("Get(X) found a header that is not there")
	}
}

// TestErrorsAreFinal: later bytes never change an error, so that a router may answer at once.
func TestErrorsAreFinal(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pieces := []string{"GET", " ", "/", "HTTP/1.1", "\r\n", "\r", "\n", "Host: a\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n",
		"\x00", "X: a\r\n", " b", ":", "GET / HTTP/1.1\r\n", "HTTP/2.0", "\r\n\r\n", strings.Repeat("a", 5000), strings.Repeat("X: a\r\n", 60)}
	refused := 0
	for range 3000 {
		var b strings.Builder
		if random.IntN(3) > 0 {
			b.WriteString("GET / HTTP/1.1\r\nHost: a\r\n")
		}
		for range random.IntN(12) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		in := []byte(b.String())
		_, _, whole := Parse(in)
		for _, i := range []int{random.IntN(len(in) + 1), random.IntN(len(in) + 1), random.IntN(len(in) + 1)} {
			_, n, err := Parse(in[:i])
			var e *Error
			switch {
			case errors.As(err, &e):
				refused++
				if err != whole {
					t.Fatalf("first %d bytes: %v, all %d: %v\n%q", i, err, len(in), whole, clip(in))
				}
			case err == nil && whole != nil:
				t.Fatalf("first %d bytes are accepted (%d), all are not: %v\n%q", i, n, whole, clip(in))
			}
		}
	}
	if refused == 0 {
		t.Error("no input was refused early")
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 400)] }

const typical = "GET /video/a.mp4?t=1 HTTP/1.1\r\nHost: cdn.example.net\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n" +
	"Accept: */*\r\nAccept-Encoding: gzip, deflate\r\nAccept-Language: en\r\nConnection: keep-alive\r\nCookie: a=b; c=d\r\n\r\n"

func TestParseDoesNotAllocate(t *testing.T) {
	in := []byte(typical)
	allocations := testing.AllocsPerRun(100, func() {
		if _, _, err := Parse(in); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("Parse allocates %v times, want 0", allocations)
	}
}

func BenchmarkParse(b *testing.B) {
	in := []byte(typical)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}
