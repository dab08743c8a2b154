package health

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ipLocalPortRange is IP_LOCAL_PORT_RANGE of linux/in.h, Linux 6.3.
const ipLocalPortRange = 51

// PortRange is the range of local ports for a connection, inclusive; 0, 0 leaves it to the kernel.
type PortRange func() (low, high uint16)

// Dialer dials without MPTCP, whose options middleboxes may drop, from the local ports of ports, which may be nil and is called
// for each connection. The range keeps off the leg pools' ports. The kernel uses only its intersection with
// net.ipv4.ip_local_port_range, and ignores it if that is empty.
func Dialer(ports PortRange) *net.Dialer {
	d := &net.Dialer{}
	d.SetMultipathTCP(false)
	if ports == nil {
		return d
	}
	d.Control = func(_, _ string, raw syscall.RawConn) error {
		low, high := ports()
		if low == 0 && high == 0 {
			return nil
		}
		var setErr error
		if err := raw.Control(func(fd uintptr) {
			setErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, ipLocalPortRange, int(uint32(high)<<16|uint32(low)))
		}); err != nil {
			return err
		}
		if setErr != nil {
			return fmt.Errorf("limit local ports to %d-%d: %w", low, high, setErr)
		}
		return nil
	}
	return d
}
