package head

import (
	"bufio"
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzParse compares accepted heads with net/http, which must accept them too, with the same method, host and length, so that two
// parsers never see two requests in the same bytes.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		typical,
		"POST http://a:80/%20?x HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n\r\n",
		"OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
		"\r\nPUT / HTTP/1.1\r\nHost: [::1]:80\r\nExpect: 100-continue\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
		"GET /\r HTTP/1.1\n",
		"0 / HTTP/1.0\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(agree)
}

// TestAgreesWithNetHTTP is FuzzParse on requests composed of borderline pieces of the grammar.
func TestAgreesWithNetHTTP(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	accepted := 0
	for range 20000 {
		var b strings.Builder
		b.WriteString(pick("GET", "GET", "HEAD", "OPTIONS", "PRI", "!x"))
		b.WriteByte(' ')
		b.WriteString(pick("/", "/", "*", "//", "http://", "HTTPS://", "///"))
		for range random.IntN(5) {
			b.WriteString(pick("a", "B", ".", ":", ":80", "[::1]", "[", "]", "%41", "%", "/", "//", "?", "*", "|", "\\", "\xff", "[::ffff:1.2.3.4]", "=", ";", "+", "~", "!", "[:::::]", "[1:2]", "%00", "%25", "@"))
		}
		b.WriteString(pick(" HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.0\r\n"))
		for range 1 + random.IntN(4) {
			b.WriteString(pick("Host: ", "host:", "Connection: ", "Content-Length: ", "Transfer-Encoding: ", "Expect: ", "Upgrade: ", "Trailer: ", "X-Y: ", "Pragma: ", "Cookie: "))
			for range random.IntN(3) {
				b.WriteString(pick("a", "B.c", ":80", "[::1]", "close", "keep-alive", "chunked", ",", " ", "5", "0", "100-continue", "\t", "\xff", "Content-Length", "no-cache", "%41", "*"))
			}
			b.WriteString("\r\n")
		}
		b.WriteString("\r\n")
		in := []byte(b.String())
		if _, _, err := Parse(in); err == nil {
			accepted++
		}
		agree(t, in)
		if t.Failed() {
			t.Fatalf("request: %q", in)
		}
	}
	t.Logf("%d accepted", accepted)
	if accepted < 500 {
		t.Errorf("only %d of 20000 requests were accepted and compared", accepted)
	}
}

func agree(t *testing.T, in []byte) {
	before := bytes.Clone(in)
	r, n, err := Parse(in)
	if !bytes.Equal(before, in) {
		t.Fatal("Parse changed its input")
	}
	var e *Error
	switch {
	case errors.Is(err, ErrIncomplete):
		return
	case errors.As(err, &e):
		if n != 0 || e.Status < 400 || e.Status > 599 {
			t.Fatalf("Parse = %d, %v", n, e)
		}
		return
	case err != nil:
		t.Fatalf("Parse = %v, want ErrIncomplete or an *Error", err)
	}
	if n < 16 || n > len(in) || string(in[n-4:n]) != "\r\n\r\n" {
		t.Fatalf("length %d of %d is not behind an empty line", n, len(in))
	}
	if _, again, err := Parse(in[:n]); err != nil || again != n {
		t.Fatalf("Parse of the head alone = %d, %v, want %d", again, err, n)
	}
	if _, _, err := Parse(in[:n-1]); !errors.Is(err, ErrIncomplete) {
		t.Fatalf("Parse of all but a byte = %v, want ErrIncomplete", err)
	}
	whole := bytes.TrimPrefix(in[:n], []byte("\r\n"))
	std, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(whole)))
	if err != nil {
		t.Fatalf("net/http refuses what Parse accepts: %v\n%q", err, whole)
	}
	if std.Method != string(r.Method) {
		t.Errorf("method %q, net/http %q", r.Method, std.Method)
	}
	if std.RequestURI != string(r.Target) {
		t.Errorf("target %q, net/http %q", r.Target, std.RequestURI)
	}
	if std.ContentLength != r.ContentLength {
		t.Errorf("length %d, net/http %d", r.ContentLength, std.ContentLength)
	}
	if r.Form == Origin && std.URL.RawQuery != string(r.Query) {
		t.Errorf("query %q, net/http %q", r.Query, std.URL.RawQuery)
	}
	if got, want := string(r.Host), strings.TrimSuffix(hostAlone(std.Host), "."); got != want {
		t.Errorf("host %q, net/http %q", got, want)
	}
	if std.Close == r.KeepAlive {
		t.Errorf("keep alive %v, net/http closes %v", r.KeepAlive, std.Close)
	}
}

// hostAlone strips the port, in another way than HostOf.
func hostAlone(s string) string {
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		s = s[:i]
	}
	return strings.ToLower(s)
}

// FuzzParseResponse compares accepted response heads with net/http.
func FuzzParseResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), true)
	f.Add([]byte("HTTP/1.0 304 \r\nConnection: keep-alive\r\n\r\n"), false)
	f.Fuzz(func(t *testing.T, in []byte, headMethod bool) {
		method := "GET"
		if headMethod {
			method = "HEAD"
		}
		r, n, err := ParseResponse(in, method)
		var e *Error
		if err != nil {
			if n != 0 || !errors.Is(err, ErrIncomplete) && !errors.As(err, &e) {
				t.Fatalf("ParseResponse = %d, %v", n, err)
			}
			return
		}
		std, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in[:n])), &http.Request{Method: method})
		if err != nil {
			// net/http supports no coding but chunked; ours is then UntilClose or Chunked by RFC 9112 section 6.3.
			if _, coded := r.Fields.Get("Transfer-Encoding"); coded {
				return
			}
			t.Fatalf("net/http refuses what ParseResponse accepts: %v\n%q", err, in[:n])
		}
		if std.StatusCode != r.Status {
			t.Errorf("status %d, net/http %d", r.Status, std.StatusCode)
		}
		if r.Framing == Length && std.ContentLength != r.ContentLength {
			t.Errorf("length %d, net/http %d", r.ContentLength, std.ContentLength)
		}
		if r.Framing == Chunked && len(std.TransferEncoding) != 1 {
			t.Errorf("chunked, net/http %v", std.TransferEncoding)
		}
	})
}
