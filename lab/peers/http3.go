package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"baton/lab"
)

// HTTP3 gets a URL from an address by HTTP/3, with quic-go on the host: Debian's curl has none.
func HTTP3(ctx context.Context, h *lab.Host, authorities *x509.CertPool, address netip.AddrPort, url string) (*http.Response, []byte, error) {
	conn, err := h.ListenPacket("udp", ":0")
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	transport := &quic.Transport{Conn: conn}
	defer transport.Close()
	client := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authorities},
		Dial: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return transport.DialEarly(ctx, net.UDPAddrFromAddrPort(address), t, q)
		},
	}
	defer client.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := client.RoundTrip(request)
	if err != nil {
		return nil, nil, fmt.Errorf("HTTP/3: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}
