package reactive

import (
	"bytes"
	"strings"
	"testing"

	"baton/router/head"
)

func TestJudge(t *testing.T) {
	const get = "GET /a HTTP/1.1\r\nHost: a.example\r\n"
	for _, tt := range []struct {
		name, text string
		whole      bool
		why        string
	}{
		{"whole", get + "\r\n", true, ""},
		{"begun", get, false, ""},
		{"nothing", "", false, ""},
		{"pipelined", get + "\r\n" + get, false, "pipelined"},
		{"with its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", true, ""},
		{"body begun", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab", false, ""},
		{"more than its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcd", false, "pipelined"},
		{"long body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n", false, "body"},
		{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", false, "body"},
		{"upgrade", get + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", false, "upgrade"},
		{"expect", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", false, "expect"},
		{"malformed", "GET  / HTTP/1.1\r\n\r\n", false, "malformed"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", false, "malformed"},
		{"long head", get + "A: " + strings.Repeat("a", head.MaxHead), false, "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := judge([]byte(tt.text)); r.whole != tt.whole || r.why != tt.why {
				t.Errorf("whole %v, why %q", r.whole, r.why)
			}
		})
	}
}

func TestWithHost(t *testing.T) {
	for in, want := range map[string]string{
		"GET /Host:a HTTP/1.1\r\nX: Host: a\r\nhOsT:  a.example \r\nB: a.example\r\n\r\n": "GET /Host:a HTTP/1.1\r\nX: Host: a\r\nhOsT:  b.example:8080 \r\nB: a.example\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nHost: a":                  "POST / HTTP/1.1\r\nHost: b.example:8080\r\nContent-Length: 7\r\n\r\nHost: a",
		"GET / HTTP/1.0\r\n\r\n":                                "GET / HTTP/1.0\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n":             "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"\r\nGET / HTTP/1.1\r\nHost: a.example\r\nA: 1\r\n\r\n": "\r\nGET / HTTP/1.1\r\nHost: b.example:8080\r\nA: 1\r\n\r\n",
	} {
		r := judge([]byte(in))
		if !r.whole {
			t.Fatalf("%q: %q", in, r.why)
		}
		if got := r.withHost("b.example:8080"); string(got) != want {
			t.Errorf("%q\n%q, want\n%q", in, got, want)
		}
		if got := r.withHost(""); string(got) != in {
			t.Errorf("without a host: %q", got)
		}
	}
}

// FuzzWithHost: the changed request is one whole request with that host, the same otherwise.
func FuzzWithHost(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte("\r\nGET / HTTP/1.1\r\nA: b\r\nHost:\r\nHosts: a\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := judge(b)
		if !r.whole {
			return
		}
		got := r.withHost("new.example")
		if bytes.Equal(got, b) {
			return
		}
		c := judge(got)
		if !c.whole || string(c.Host) != "new.example" || !bytes.Equal(c.Target, r.Target) || c.ContentLength != r.ContentLength || c.KeepAlive != r.KeepAlive {
			t.Errorf("%q became %q: %+v", b, got, c)
		}
	})
}
