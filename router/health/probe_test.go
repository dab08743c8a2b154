package health

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCheckOutcomes runs each check against a raw TCP server.
func TestCheckOutcomes(t *testing.T) {
	tests := []struct {
		name, response string
		hold           bool // keep the connection open after the response
		failure        string
	}{
		{"200", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true, ""},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", true, ""},
		{"redirect is not followed", "HTTP/1.1 301 Moved\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n", true, ""},
		{"HTTP/1.0 until close", "HTTP/1.0 200 OK\r\n\r\nok", false, ""},
		{"large body is not read to its end", "HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" + strings.Repeat("x", 70000), true, ""},
		{"tiny chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1\r\nx\r\n", 40_000) + "0\r\n\r\n", true, ""},
		{"after early hints", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true, ""},
		{"hints for ever", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 8000), true, "malformed HTTP"},
		{"head too long", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200_000) + "\r\n\r\n", true, "EOF"},
		{"404", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", true, "status 404"},
		{"503", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", true, "status 503"},
		{"silence", "", true, "no answer within 100ms"},
		{"closes", "", false, "EOF"},
		{"not HTTP", "SSH-2.0-x\r\n", false, "malformed HTTP"},
		{"body breaks off", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab", false, "broke off"},
		{"body stalls", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab", true, "broke off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer l.Close()
			wg.Go(func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(5 * time.Second))
				http.ReadRequest(bufio.NewReader(c))
				io.WriteString(c, tt.response)
				if tt.hold {
					io.Copy(io.Discard, c)
				}
			})
			check := quick()
			check.Timeout = 100 * time.Millisecond
			err = newProbe(nil)(t.Context(), Target{Name: "s", Address: l.Addr().(*net.TCPAddr).AddrPort(), Check: check})
			if (err == nil) != (tt.failure == "") || (err != nil && !strings.Contains(err.Error(), tt.failure)) {
				t.Errorf("check = %v, want %q", err, tt.failure)
			}
		})
	}
}

// BenchmarkCheck is the cost of a check and of its answer, by net/http's server.
func BenchmarkCheck(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	defer s.Close()
	probe, target := newProbe(nil), Target{Name: "s", Address: addrOf(s), Check: quick()}
	b.ReportAllocs()
	for b.Loop() {
		if err := probe(b.Context(), target); err != nil {
			b.Fatal(err)
		}
	}
}
