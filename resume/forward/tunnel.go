package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
)

// errOwn refuses other clients access to services that trust this host.
var errOwn = errors.New("other clients cannot reach this host's own addresses and networks")

// permit checks every connection by its address, after names are resolved.
func permit(ctx context.Context, _, address string, _ syscall.RawConn) error {
	if ctx.Value(remote{}) == nil {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address: %w", err)
	}
	if a := at.Addr().Unmap(); a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() || own(a) {
		return errOwn
	}
	return nil
}

// own reports whether an address is one of this host's.
func own(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, i := range all {
		if p, err := netip.ParsePrefix(i.String()); err == nil && p.Addr().Unmap() == a {
			return true
		}
	}
	return false
}

// tunnel connects the client to its target, unchanged.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	server, err := p.dialer.DialContext(r.Context(), "tcp", r.URL.Host)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "no tunnels over this connection", http.StatusNotImplemented)
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(server, buffered.Reader, client) })
	both.Go(func() { pass(client, bufio.NewReader(server), server) })
	both.Wait()
}

// pass copies one direction to its end: it passes a FIN on, and a break ends both directions.
func pass(to net.Conn, from *bufio.Reader, source net.Conn) {
	if _, err := from.WriteTo(to); err != nil {
		to.Close()
		source.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
