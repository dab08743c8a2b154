package vips

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"baton/router/outcome"
)

// lingerTime is how long packets of a closed connection still go to its socket.
const lingerTime = 15 * time.Second

// listener counts what is proxied, and ends the assignments of clients to sockets when their connections have ended.
type listener struct {
	net.Listener
	forgetClient func(client, vip netip.AddrPort)
	findReason   func(vip, client netip.AddrPort, c syscall.Conn, p *proxied) outcome.Outcome
	vip          netip.AddrPort
	proxied      *proxied

	mu   sync.Mutex
	last map[netip.AddrPort]*conn // by client
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	remote, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	v := &conn{Conn: c, l: l, client: netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())}
	if raw, ok := c.(syscall.Conn); ok {
		if why := l.findReason(l.vip, v.client, raw, l.proxied); why != "" {
			l.proxied.countConnection(why)
			v.counted.Store(true)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[v.client] = v
	return v, nil
}

// forget ends the client's assignment, unless it has reused the port.
func (l *listener) forget(v *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[v.client] == v {
		delete(l.last, v.client)
		l.forgetClient(v.client, l.vip)
	}
}

type conn struct {
	net.Conn
	l       *listener
	client  netip.AddrPort
	counted atomic.Bool // as proxied and alive
}

// NetConn is the connection as the kernel knows it.
func (c *conn) NetConn() net.Conn { return c.Conn }

// CloseWrite serves the server's lingering close.
func (c *conn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	if c.counted.CompareAndSwap(true, false) {
		c.l.proxied.live.Add(-1)
	}
	time.AfterFunc(lingerTime, func() { c.l.forget(c) })
	return err
}
