package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// TestProxyHeader: nginx learns each client's address from the header that goes before its first byte, and no other byte of the
// stream is changed: with and without offloads, loss, reordering and duplication, over HTTP and TLS, spliced and by sockets.
func TestProxyHeader(t *testing.T) {
	t.Parallel() // judges by results
	for _, link := range []struct {
		name     string
		options  lab.LinkOptions
		sessions int
	}{
		{"offloads", lab.LinkOptions{}, 150},
		{"no offloads", lab.LinkOptions{NoOffloads: true}, 50},
		{"loss", lab.LinkOptions{AtoB: lossy, BtoA: lossy, NoOffloads: true}, 100},
	} {
		t.Run(link.name, func(t *testing.T) { proxyHeader(t, link.options, link.sessions) })
	}
}

func proxyHeader(t *testing.T, o lab.LinkOptions, sessions int) {
	n := &network{Lab: lab.New(t), t: t}
	n.router, n.client = n.Host("router"), n.Host("client")
	n.router.Forward()
	front := n.Link(clientEnd(n.client, 0), routerEnd(n.router, 0), o)
	n.front = front.B
	toRouter(n.client, 0)
	s := n.site("s", o)
	ca := peers.NewAuthority(n.Lab)
	certificate, key := ca.Sign("s.test")
	peers.Nginx(s.Host, peers.NginxOptions{Connections: 2000, Server: fmt.Sprintf(`
	listen 8080 proxy_protocol; listen [::]:8080 proxy_protocol; listen 443 ssl proxy_protocol; listen [::]:443 ssl proxy_protocol;
	ssl_certificate %s; ssl_certificate_key %s;
	location = /who { return 200 "$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port"; }`, certificate, key)})
	var vips, pools strings.Builder
	var addresses []string
	add := func(kind, mode, protocol, address string, port int, v6 bool) {
		addresses = append(addresses, address)
		name := fmt.Sprintf("%s-%s-%v", kind, protocol, v6)
		fmt.Fprintf(&vips, "  - {address: %q, mode: %s, interfaces: [%s], protocol: %s, routes: [{pool: %s}]}\n", address, mode, n.front.Name, protocol, name)
		if mode == "proxy" {
			return // the same pool
		}
		fmt.Fprintf(&pools, "  %s: {client_address: %s, surrogates: [{name: %s, address: %q}]}\n", name, kind, name,
			netip.AddrPortFrom(s.address(v6).Addr(), uint16(port)))
	}
	for i, kind := range []string{"proxy-v1", "proxy-v2"} {
		for j, mode := range []string{"handoff", "proxy"} {
			last := 9 + 2*i + j
			add(kind, mode, "http", fmt.Sprintf("10.9.9.%d:80", last), 8080, false)
			add(kind, mode, "http", fmt.Sprintf("[fd09::%x]:80", last), 8080, true)
			add(kind, mode, "tls", fmt.Sprintf("10.9.9.%d:443", last), 443, false)
			add(kind, mode, "tls", fmt.Sprintf("[fd09::%x]:443", last), 443, true)
		}
	}
	r := n.start("vips:\n" + vips.String() + "pools:\n" + pools.String())
	var work errgroup.Group
	for _, vip := range addresses {
		work.Go(func() error {
			for i := range sessions / len(addresses) * 2 {
				if err := n.asks(t, vip, i%3); err != nil {
					return fmt.Errorf("%s, session %d: %w", vip, i, err)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	if o.AtoB == (emulator.Shape{}) {
		return
	}
	if verdicts := r.verdicts(); verdicts["inserted_again"] == 0 {
		t.Errorf("no header was made again: %v", verdicts)
	}
}

// asks makes requests on a connection, one and as many as more, and compares what the server knows of the client.
func (n *network) asks(t *testing.T, vip string, more int) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := n.client.Dial(ctx, "tcp", vip)
	if err != nil {
		return err
	}
	defer c.Close()
	local := c.LocalAddr().(*net.TCPAddr).AddrPort()
	if strings.HasSuffix(vip, ":443") {
		secured := tls.Client(c, &tls.Config{ServerName: "s.test", InsecureSkipVerify: true})
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		c = secured
	}
	r := bufio.NewReader(c)
	for i := range 1 + more {
		request := "GET /who HTTP/1.1\r\nHost: s.test\r\n\r\n"
		if i == 0 && more == 2 { // whose decision is user space's
			request = "POST /who HTTP/1.1\r\nHost: s.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
		}
		if _, err := io.WriteString(c, request); err != nil {
			return err
		}
		got, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(got.Body)
		if err != nil {
			return err
		}
		at := netip.MustParseAddrPort(vip)
		if want := fmt.Sprintf("%s %d %s %d", local.Addr().Unmap(), local.Port(), at.Addr(), at.Port()); string(body) != want {
			return fmt.Errorf("the server knows %q, want %q", body, want)
		}
	}
	return nil
}
