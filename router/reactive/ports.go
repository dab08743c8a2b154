package reactive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
)

// dialer opens legs from local ports in turn. The kernel would soon choose a port again whose leg was handed over: its socket here has ended, and the
// surrogate still has the session.
type dialer struct {
	local       netip.Addr
	first, size uint32 // of the ports
	turn        atomic.Uint32
}

func newDialer(local netip.Addr) *dialer {
	first, last := localPorts()
	d := &dialer{local: local, first: first, size: last - first + 1}
	d.turn.Store(rand.Uint32N(d.size)) // an earlier process has begun elsewhere
	return d
}

// localPorts is the range from which the kernel chooses ports (ip(7)).
func localPorts() (first, last uint32) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &first, &last)
	}
	if err != nil || first == 0 || last < first || last > 65535 {
		return 32768, 60999 // Linux's default
	}
	return first, last
}

// Connect opens a leg from the next port that nobody has. Its error is that of the last port.
func (d *dialer) Connect(ctx context.Context, network, address string) (c net.Conn, err error) {
	for range d.size {
		port := d.first + d.turn.Add(1)%d.size
		one := net.Dialer{KeepAlive: -1, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(d.local, uint16(port)))} // nothing passes an idle leg
		if !d.local.IsValid() {
			one.LocalAddr = &net.TCPAddr{Port: int(port)}
		}
		one.SetMultipathTCP(false)
		if c, err = one.DialContext(ctx, network, address); !errors.Is(err, syscall.EADDRINUSE) {
			return c, err
		}
	}
	return nil, err
}
