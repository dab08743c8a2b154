package health

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ipLocalPortRange is IP_LOCAL_PORT_RANGE of linux/in.h, Linux 6.3.
const ipLocalPortRange = 51

// PortRange says which local ports a connection may use, both ends included; 0, 0 leaves it to the kernel.
type PortRange func() (low, high uint16)

// Dialer makes connections without MPTCP, whose options a surrogate's middleboxes may drop, and whose local ports come from ports, which may be nil. The range
// keeps them off the ports that the leg pools own. The kernel heeds only the part of it that lies within
// net.ipv4.ip_local_port_range, and ignores it when there is none. The range is asked for at each connection.
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
