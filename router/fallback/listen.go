package fallback

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen opens a TCP listener on a VIP, whose address need not be local (IP_FREEBIND), and whose port may have connections of an
// earlier router (SO_REUSEADDR, set by net). MPTCP, on by default in Go, is off: an MPTCP connection refuses TCP_REPAIR and
// TCP_ULP. The caller owns the listener; Serve closes it.
func Listen(ctx context.Context, addr netip.AddrPort) (*net.TCPListener, error) {
	network, level, option := "tcp6", unix.SOL_IPV6, unix.IPV6_FREEBIND
	if addr.Addr().Unmap().Is4() {
		network, level, option = "tcp4", unix.SOL_IP, unix.IP_FREEBIND
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var setErr error
		if err := raw.Control(func(fd uintptr) {
			setErr = unix.SetsockoptInt(int(fd), level, option, 1)
		}); err != nil {
			return err
		}
		if setErr != nil {
			return fmt.Errorf("set freebind: %w", setErr)
		}
		return nil
	}}
	config.SetMultipathTCP(false)
	l, err := config.Listen(ctx, network, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()).String())
	if err != nil {
		return nil, fmt.Errorf("listen on VIP %s: %w", addr, err)
	}
	return l.(*net.TCPListener), nil
}
