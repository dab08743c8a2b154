package sockdiag

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// CanDestroy returns why connections of this host cannot be ended.
func CanDestroy() error {
	c, err := Open()
	if err != nil {
		return err
	}
	return errors.Join(c.Probe(), c.Close())
}

// Probe returns an error if the kernel cannot end sockets, or the user may not.
func (c *Conn) Probe() error {
	nobody := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0) // no connection has port 0
	err := c.Destroy([]Socket{{Local: nobody, Remote: nobody, Cookie: 1}})[0]
	switch {
	case errors.Is(err, ErrGone):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("the kernel cannot end sockets (CONFIG_INET_DIAG_DESTROY): %w", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("missing capability: CAP_NET_ADMIN (to end connections): %w", err)
	}
	return fmt.Errorf("end a socket that does not exist: %w", err)
}

// ErrForever says that the kernel must only end connections that an application still has open: for an orphan it discards the send
// queue and with it all timers, so the connection stays forever (fixed by "tcp: fix forever orphan socket caused by tcp_abort",
// Linux 6.11 and the stable releases of that time).
var ErrForever = errors.New("this kernel keeps connections that the application has closed forever if one tries to end them")

// ProbeOrphans returns ErrForever for such a kernel, and another error if the test fails. It opens a connection over loopback.
func (c *Conn) ProbeOrphans() error {
	o, err := newOrphan()
	if err != nil {
		return fmt.Errorf("try to end a connection that its application has closed: %w", err)
	}
	defer o.close()
	if err := c.Destroy([]Socket{o.socket})[0]; err != nil {
		return fmt.Errorf("end a connection that its application has closed: %w", err)
	}
	if err := c.Destroy([]Socket{o.socket})[0]; errors.Is(err, ErrGone) {
		return nil
	}
	return ErrForever
}

// orphan returns a connection in the state FIN-WAIT-1: its application has closed it, and there is more to send than its peer reads.
type orphan struct {
	socket         Socket
	listener, peer int
}

// patience bounds what takes microseconds unless a firewall interferes.
const patience = 1 // second

func newOrphan() (_ *orphan, err error) {
	o := &orphan{listener: -1, peer: -1}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	local := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if o.listener, err = newSocket(unix.SO_RCVTIMEO); err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Bind(o.listener, local), unix.Listen(o.listener, 1)); err != nil {
		return nil, err
	}
	at, err := unix.Getsockname(o.listener)
	if err != nil {
		return nil, err
	}
	if o.peer, err = newSocket(unix.SO_SNDTIMEO); err != nil {
		return nil, err
	}
	if err := errors.Join(unix.SetsockoptInt(o.peer, unix.SOL_SOCKET, unix.SO_RCVBUF, 1), unix.Connect(o.peer, at)); err != nil {
		return nil, err
	}
	fd, from, err := unix.Accept4(o.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return nil, err
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 64<<10))
	}
	if err := errors.Join(unix.Close(fd), unless(err, unix.EAGAIN)); err != nil {
		return nil, err
	}
	o.socket = Socket{Local: addrPort(at), Remote: addrPort(from), Cookie: cookie}
	return o, nil
}

func newSocket(timeout int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, timeout, &unix.Timeval{Sec: patience}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

func addrPort(a unix.Sockaddr) netip.AddrPort {
	a4 := a.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(a4.Addr), uint16(a4.Port))
}

func (o *orphan) close() {
	for _, fd := range []int{o.listener, o.peer} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
