package lab

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

// Dial connects from the host; network and address as for net.Dial, the address numeric. Multipath TCP stays off.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return h.DialFrom(ctx, network, "", address)
}

// DialFrom is Dial with a local address ("10.1.0.3:0", ":7000"; empty: the kernel's choice).
func (h *Host) DialFrom(ctx context.Context, network, local, address string) (net.Conn, error) {
	d := net.Dialer{}
	d.SetMultipathTCP(false)
	if local != "" {
		var err error
		if strings.HasPrefix(network, "udp") {
			d.LocalAddr, err = net.ResolveUDPAddr(network, local)
		} else {
			d.LocalAddr, err = net.ResolveTCPAddr(network, local)
		}
		if err != nil {
			return nil, err
		}
	}
	var c net.Conn
	err := h.Do(func() (err error) {
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Listen listens on the host. Multipath TCP stays off. The caller closes the listener.
func (h *Host) Listen(network, address string) (net.Listener, error) {
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(false)
	var ln net.Listener
	err := h.Do(func() (err error) {
		ln, err = lc.Listen(context.Background(), network, address)
		return err
	})
	return ln, err
}

// ListenPacket opens a datagram socket on the host. The caller closes it.
func (h *Host) ListenPacket(network, address string) (net.PacketConn, error) {
	var c net.PacketConn
	err := h.Do(func() (err error) {
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}

// HTTPClient returns a client whose connections come from the host; it follows no redirects and gives up after the
// timeout. Its idle connections close with the lab.
func (h *Host) HTTPClient(timeout time.Duration) *http.Client {
	transport := &http.Transport{DialContext: h.Dial, DisableCompression: true}
	h.lab.onClose(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport,
		Timeout:   timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}
