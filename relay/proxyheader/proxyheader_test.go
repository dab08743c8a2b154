package proxyheader

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

var modes = []config.Mode{config.Proxy, config.SOCKS5, config.Connect}

// TestBounds: with Max bytes of a part every mode has decided, and no bound is below what its protocol allows.
func TestBounds(t *testing.T) {
	if want := 16 + int(proxyproto.MaxV2HeaderSize); maxProxyV2 != want {
		t.Errorf("headers of the PROXY protocol have %d bytes here, %d in the library", maxProxyV2, want)
	}
	name := strings.Repeat("a.", 126) + "a" // 253 bytes
	head := func(size int) string {
		const begin, end = "CONNECT a:1 HTTP/1.1\r\nX: ", "\r\n\r\n"
		return begin + strings.Repeat("x", size-len(begin)-len(end)) + end
	}
	const widest = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"
	version2 := func(length string, tlvs int) string {
		return proxyV2 + "\x21\x11" + length + "\x01\x01\x01\x01\x02\x02\x02\x02\x00\x01\x00\x02" + strings.Repeat("\x00", tlvs)
	}
	methods := "\x05\xff" + strings.Repeat("\x01", 254) + "\x00"
	tests := []struct {
		name  string
		mode  config.Mode
		bytes string
		want  error // nil: accepted whole
	}{
		{"longest line", config.Proxy, "PROXY TCP6 " + widest + " " + widest + " 65535 65535\r\n", nil},
		{"longest version 2", config.Proxy, version2("\x10\x00", 4084), nil},
		{"too long version 2", config.Proxy, version2("\x10\x01", 4085), ErrTooLong},
		{"all methods and the longest name", config.SOCKS5, methods + "\x05\x01\x00\x03\xfd" + name + "\x00\x50", nil},
		{"longest head", config.Connect, head(Max), nil},
		{"too long head", config.Connect, head(Max + 1), ErrTooLong},
		{"too long line", config.Connect, "CONNECT " + strings.Repeat("a", Max), ErrTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(tt.mode)
			n, _, done, err := p.Feed([]byte(tt.bytes + "data"))
			if !errors.Is(err, tt.want) || done != (tt.want == nil) || done && n != len(tt.bytes) {
				t.Errorf("%d of %d bytes, done %v, %v, want %v", n, len(tt.bytes), done, err, tt.want)
			}
		})
	}
	p := New(config.Connect)
	if _, reply, _, _ := p.Feed([]byte(head(Max + 1))); !bytes.HasPrefix(reply, []byte("HTTP/1.1 431 ")) {
		t.Errorf("the client is told %q", reply)
	}
}

// TestDecisionStands: what Feed has said it says again, and takes nothing more.
func TestDecisionStands(t *testing.T) {
	for _, tt := range []struct {
		mode  config.Mode
		bytes string
		done  bool
	}{
		{config.Proxy, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", true},
		{config.Proxy, "x", false},
		{config.SOCKS5, "\x05\x01\x00\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50", true},
		{config.SOCKS5, "\x04", false},
		{config.Connect, "CONNECT a:1 HTTP/1.1\r\n\r\n", true},
		{config.Connect, "\x00", false},
		{config.Transparent, "", true},
	} {
		p := New(tt.mode)
		_, _, done, first := p.Feed([]byte(tt.bytes))
		if done != tt.done || (first == nil) != done {
			t.Fatalf("%s %q: done %v, %v", tt.mode, tt.bytes, done, first)
		}
		target := p.Target
		for range 2 {
			n, reply, done, err := p.Feed([]byte(tt.bytes))
			if n != 0 || reply != nil || done != tt.done || err != first || p.Target != target {
				t.Errorf("%s %q again: %d, %q, %v, %v", tt.mode, tt.bytes, n, reply, done, err)
			}
		}
	}
}

// TestConnectReplies: an HTTP client can read every one of them to its end.
func TestConnectReplies(t *testing.T) {
	request := &http.Request{Method: http.MethodConnect}
	p := New(config.Connect)
	for s := trunkproto.Connected + 1; s <= trunkproto.Stopping+1; s++ {
		r := bufio.NewReader(bytes.NewReader(p.AppendRefused(nil, s)))
		response, err := http.ReadResponse(r, request)
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(response.Body); err != nil || body.Len() < 10 || r.Buffered() > 0 {
			t.Errorf("%v: body %q, error %v, %d bytes behind", s, body.String(), err, r.Buffered())
		}
		if response.StatusCode < 400 || !response.Close || !strings.HasPrefix(response.Header.Get("Proxy-Status"), "baton; error=") {
			t.Errorf("%v: %v", s, response)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(p.AppendGranted(nil, netip.AddrPort{}))), request)
	if err != nil || response.StatusCode != 200 || len(response.Header) != 0 {
		t.Errorf("granted: %v, %v", response, err)
	}
}

func TestNamesOfHosts(t *testing.T) {
	label := strings.Repeat("a", 63)
	for name, want := range map[string]bool{
		"a": true, "example.test": true, "xn--bcher-kva.example": true, "_service.a": true, "1.a": true, "3com": true, label + ".b": true,
		label + "." + label + "." + label + "." + label[:61]:       true,
		label + "." + label + "." + label + "." + label[:61] + "b": false,
		"": false, ".": false, "a..b": false, ".a": false, label + "a": false, "a b": false, "a:1": false, "ä": false, "1": false, "1.2.3": false,
		"a.1": false, "a/b": false, "a\n": false,
	} {
		if got := isName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
