package load

import (
	"strings"
	"testing"
)

func TestResponse(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nServer: x\r\nCONTENT-length: 5\r\n\r\nhello"
	tests := []struct {
		name, bytes string
		want        string // body; "-": any
		done        bool
		err         string
	}{
		{"whole", ok, "hello", true, ""},
		{"any body", ok, "-", true, ""},
		{"no body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", true, ""},
		{"short", ok[:len(ok)-1], "hello", false, ""},
		{"other bytes", ok, "hellO", false, "differs"},
		{"one byte over", ok + "x", "-", false, "after the end"},
		{"longer than wanted", ok, "hell", false, "after the end"},
		{"not HTTP", "SSH-2.0-OpenSSH_9\r\n\r\n", "-", false, "no HTTP response"},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", "-", false, "without content-length"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "-", false, "content-length"},
		{"endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headLimit), "-", false, "too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want []byte
			if tt.want != "-" {
				want = []byte(tt.want)
			}
			for _, piece := range []int{len(tt.bytes), 1, 7} {
				var r response
				var done bool
				var err error
				for rest := tt.bytes; len(rest) > 0 && err == nil; rest = rest[min(piece, len(rest)):] {
					done, err = r.take([]byte(rest[:min(piece, len(rest))]), want)
				}
				switch {
				case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
					t.Errorf("in pieces of %d: error %v, want %q", piece, err, tt.err)
				case err == nil && done != tt.done:
					t.Errorf("in pieces of %d: done %v, want %v", piece, done, tt.done)
				}
			}
		})
	}
}

func TestResponseFields(t *testing.T) {
	var r response
	if _, err := r.take([]byte("HTTP/1.1 302 Found\r\nconnection: Close\r\nlocation:  http://10.0.0.1/x \r\ncontent-length: 1\r\n\r\n"), nil); err != nil {
		t.Fatal(err)
	}
	if r.status != 302 || !r.closes || r.location != "http://10.0.0.1/x" || r.length != 1 {
		t.Errorf("read %+v", r)
	}
	to, err := location(r.location)
	if err != nil || to.String() != "10.0.0.1:80" {
		t.Errorf("location %v, %v", to, err)
	}
	if to, err := location("http://[fd01::2]:8080/"); err != nil || to.String() != "[fd01::2]:8080" {
		t.Errorf("location %v, %v", to, err)
	}
	if _, err := location("/relative"); err == nil {
		t.Error("a relative location has an address")
	}
}

func TestSharesAddUp(t *testing.T) {
	for whole := range 40 {
		for n := 1; n < 6; n++ {
			sum, least, most := 0, whole, 0
			for i := range n {
				part := share(whole, i, n)
				sum, least, most = sum+part, min(least, part), max(most, part)
			}
			if sum != whole || most-least > 1 {
				t.Errorf("%d in %d parts: sum %d, from %d to %d", whole, n, sum, least, most)
			}
		}
	}
}
