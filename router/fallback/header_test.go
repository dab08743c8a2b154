package fallback

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/pires/go-proxyproto"

	"baton/router/proxyheader"
)

// TestSecureHeader: the PROXY header of a client whose TLS the router ends has the name that it asked for. It has no ALPN, as the surrogate
// gets HTTP/1.1 whatever the client speaks.
func TestSecureHeader(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		got := make(chan *proxyproto.Header, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			h, err := proxyproto.Read(r)
			if err != nil {
				t.Error(err)
				return
			}
			got <- h
			if _, err := http.ReadRequest(r); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		}()
		s := Decision{Surrogate: "s", Address: netip.MustParseAddrPort(l.Addr().String()), Own: true, Header: proxyheader.V2}
		e := serve(t, Options{Decide: inOrder(s), Certificates: []tls.Certificate{sign(t, "cdn.test")}})
		if _, body := e.browser(t, nil, h2).get(t, "https://cdn.test/"); body != "ok" {
			t.Fatalf("HTTP/2 %t: %q", h2, body)
		}
		tlvs, err := (<-got).TLVs()
		if err != nil || tlvs[0].Type != proxyproto.PP2_TYPE_AUTHORITY || string(tlvs[0].Value) != "cdn.test" || len(tlvs) != 3 {
			t.Errorf("HTTP/2 %t: TLVs %+v: %v", h2, tlvs, err)
		}
	}
}
