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

// errOwn is for clients elsewhere that ask for what trusts whoever is on this host.
var errOwn = errors.New("an address of this host or its links is not for clients elsewhere")

// permit is asked for every connection, with its address: names have been resolved.
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

// own tells whether an address is one of this host's.
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

// tunnel joins the client to what it names, untouched.
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

// pass copies one direction to its end: a FIN is passed on, and a break ends both directions.
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
