package head

import (
	"errors"
	"strings"
	"testing"
)

func TestParseResponseFraming(t *testing.T) {
	tests := []struct {
		name, method, in string
		want             Response
	}{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: Length, ContentLength: 5, KeepAlive: true}},
		{"length of zero", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: Length, KeepAlive: true}},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: Chunked, KeepAlive: true}},
		{"compressed, then chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: Chunked, KeepAlive: true}},
		{"compressed alone", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: UntilClose}},
		{"chunked in 1.0", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", Response{Status: 200, Version: HTTP10, Framing: UntilClose}},
		{"neither", "GET", "HTTP/1.1 200 OK\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: UntilClose}},
		{"close", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: Length, ContentLength: 5}},
		{"1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", Response{Status: 200, Version: HTTP10, Framing: Length, ContentLength: 5}},
		{"1.0 kept alive", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", Response{Status: 200, Version: HTTP10, Framing: Length, ContentLength: 5, KeepAlive: true}},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Response{Status: 200, Version: HTTP11, KeepAlive: true}},
		{"HEAD, chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Response{Status: 200, Version: HTTP11, KeepAlive: true}},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", Response{Status: 204, Version: HTTP11, KeepAlive: true}},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Response{Status: 304, Version: HTTP11, KeepAlive: true}},
		{"100", "PUT", "HTTP/1.1 100 Continue\r\n\r\n", Response{Status: 100, Version: HTTP11, KeepAlive: true, Interim: true}},
		{"101", "GET", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", Response{Status: 101, Version: HTTP11, Framing: UntilClose}},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", Response{Status: 200, Version: HTTP11, Framing: Length, ContentLength: 5, KeepAlive: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, n, err := ParseResponse([]byte(tt.in+"body"), tt.method)
			if err != nil {
				t.Fatal(err)
			}
			if n != len(tt.in) {
				t.Errorf("length = %d, want %d", n, len(tt.in))
			}
			if want := tt.in[strings.Index(tt.in, "\n")+1 : len(tt.in)-2]; string(got.Fields) != want {
				t.Errorf("Fields = %q, want %q", got.Fields, want)
			}
			got.Fields = nil
			if got.Status != tt.want.Status || got.Version != tt.want.Version || got.Framing != tt.want.Framing ||
				got.ContentLength != tt.want.ContentLength || got.KeepAlive != tt.want.KeepAlive || got.Interim != tt.want.Interim {
				t.Errorf("ParseResponse = %+v, want %+v", got, tt.want)
			}
			for i := range len(tt.in) {
				if _, _, err := ParseResponse([]byte(tt.in[:i]), tt.method); !errors.Is(err, ErrIncomplete) {
					t.Fatalf("first %d bytes: %v, want ErrIncomplete", i, err)
				}
			}
		})
	}
}

func TestParseResponseRefuses(t *testing.T) {
	tests := []struct{ name, in string }{
		{"no status", "HTTP/1.1 OK\r\n\r\n"},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
		{"status 099", "HTTP/1.1 099 OK\r\n\r\n"},
		{"status 600", "HTTP/1.1 600 OK\r\n\r\n"},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n"},
		{"bare LF", "HTTP/1.1 200 OK\n\n"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"},
		{"length and coding", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"},
		{"NUL", "HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n"},
		{"head too long", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", MaxHead) + "\r\n\r\n"},
		{"too many headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: a\r\n", MaxHeaders+1) + "\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, n, err := ParseResponse([]byte(tt.in), "GET")
			var e *Error
			if !errors.As(err, &e) || e.Status != 502 || n != 0 {
				t.Errorf("ParseResponse = %d, %v, want 0 and status 502", n, err)
			}
		})
	}
}
