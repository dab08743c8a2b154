package fallback

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestLastResponses: no request follows an ambiguous response, or one that offers to authenticate the connection.
func TestLastResponses(t *testing.T) {
	const chunks = "\r\n3\r\nabc\r\n0\r\n\r\n"
	for _, tt := range []struct {
		name, response string
		last           bool
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false},
		{"coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + chunks, false},
		{"interim", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + chunks, false},
		{"length and coding", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n" + chunks, true},
		{"coding and length", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 3\n" + chunks, true},
		{"interim, then both", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n" + chunks, true},
		{"offers for a request", "HTTP/1.1 200 OK\r\nWWW-Authenticate: Digest realm=\"a, b\", nonce=1, Basic realm=c,charset=x\r\nContent-Length: 3\r\n\r\nabc", false},
		{"offer for the connection", "HTTP/1.1 200 OK\r\nWWW-Authenticate: Basic realm=a, NTLM\r\nContent-Length: 3\r\n\r\nabc", true},
		{"another", "HTTP/1.1 200 OK\r\nProxy-Authenticate: Negotiate\r\nContent-Length: 3\r\n\r\nabc", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSurrogate(t, "s", says(tt.response))
			e := serve(t, Options{Decide: inOrder(s.decision())})
			for range 3 {
				c := e.dial(t)
				if _, err := io.WriteString(c, getRequest); err != nil {
					t.Fatal(err)
				}
				r := bufio.NewReader(c)
				res, body, err := readResponse(r, "GET")
				if err == nil && res.StatusCode == http.StatusEarlyHints {
					res, body, err = readResponse(r, "GET")
				}
				if err != nil || res.StatusCode != 200 || !strings.Contains(body, "abc") {
					t.Fatalf("%v, body %q, %v", res, body, err)
				}
			}
			want := 1
			if tt.last {
				want = 3
			}
			if got := s.connections(); got != want {
				t.Errorf("%d connections for 3 requests, want %d", got, want)
			}
		})
	}
}

// TestHeadConnChangesNothingElse: for any segmentation of a response, and any failure in it.
func TestHeadConnChangesNothingElse(t *testing.T) {
	const both = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
	for _, tt := range []struct{ name, in, want string }{
		{"whole", okResponse, okResponse},
		{"two", okResponse + okResponse, okResponse + okResponse},
		{"closed in the head", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Le"},
		{"closed behind a line", both, both},
		{"no HTTP", "SSH-2.0-x\r\n", "SSH-2.0-x\r\n"},
		{"no end", strings.Repeat("x", maxResponseHead+10), strings.Repeat("x", maxResponseHead+10)},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\n" + okResponse, "HTTP/1.1 100 Continue\r\n\r\n" + okResponse},
		{"ambiguous", both + "\r\n" + both + "\r\n", both + closing + "\r\n" + both + "\r\n"},
		{"ambiguous, bare LF", "HTTP/1.1 200 OK\na b: c\n\nbody", "HTTP/1.1 200 OK\na b: c\n" + closing + "\nbody"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, pieces := range map[string]func(io.Reader) io.Reader{
				"at once": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
			} {
				c := &headConn{Conn: reads{Reader: pieces(strings.NewReader(tt.in))}}
				c.expect(http.MethodGet)
				got, err := io.ReadAll(bufio.NewReaderSize(c, 16))
				if diff := cmp.Diff(tt.want, string(got)); err != nil || diff != "" {
					t.Errorf("%s: %v\n%s", name, err, diff)
				}
			}
		})
	}
}

type reads struct {
	net.Conn
	io.Reader
}

func (r reads) Read(p []byte) (int, error) { return r.Reader.Read(p) }
