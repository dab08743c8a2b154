package proxyheader

import (
	"testing"

	"baton/relay/config"
)

func BenchmarkFeed(b *testing.B) {
	for _, bb := range []struct {
		name  string
		mode  config.Mode
		bytes string
	}{
		{"proxy v1", config.Proxy, "PROXY TCP4 192.0.2.1 198.51.100.7 50000 443\r\n"},
		{"proxy v2", config.Proxy, proxyV2 + "\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x07\xc3\x50\x01\xbb"},
		{"socks5 address", config.SOCKS5, "\x05\x01\x00\x05\x01\x00\x01\xc6\x33\x64\x07\x01\xbb"},
		{"socks5 name", config.SOCKS5, "\x05\x01\x00\x05\x01\x00\x03\x0cexample.test\x01\xbb"},
		{"connect", config.Connect, "CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\nUser-Agent: curl/7.88.1\r\n" +
			"Proxy-Connection: Keep-Alive\r\n\r\n"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			in := []byte(bb.bytes)
			b.ReportAllocs()
			for b.Loop() {
				p := New(bb.mode)
				if n, _, done, err := p.Feed(in); n != len(in) || !done {
					b.Fatal(n, err)
				}
			}
		})
	}
}
