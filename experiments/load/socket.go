package load

import (
	"fmt"
	"net/netip"
	"net/url"

	"golang.org/x/sys/unix"
)

// dial opens a TCP socket, plain or of MPTCP, and starts to connect it from a source; nil: the kernel's choice.
func dial(to netip.AddrPort, source unix.Sockaddr, multipath bool) (int, error) {
	protocol := unix.IPPROTO_TCP
	if multipath {
		protocol = unix.IPPROTO_MPTCP
	}
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	if source != nil {
		// The port is chosen by connect, for the whole 4-tuple: bind would need one that is free for every target.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err := unix.Bind(fd, source); err != nil {
			unix.Close(fd)
			return 0, fmt.Errorf("bind: %w", err)
		}
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return 0, fmt.Errorf("connect: %w", err)
	}
	return fd, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func socketError(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	return unix.Errno(n)
}

// location reads the server's address from the Location of a redirect; it must be numeric.
func location(s string) (netip.AddrPort, error) {
	u, err := url.Parse(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("location: %w", err)
	}
	address, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("location %q: %w", s, err)
	}
	port := uint16(80)
	if p := u.Port(); p != "" {
		if _, err := fmt.Sscan(p, &port); err != nil {
			return netip.AddrPort{}, fmt.Errorf("location %q: %w", s, err)
		}
	}
	return netip.AddrPortFrom(address, port), nil
}
