package vips

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// incomingInterface returns the index of the interface on which the last packet of a connection's handshake came in, as
// the kernel keeps it for the socket's control messages (tcp_v4_syn_recv_sock, tcp_v6_syn_recv_sock).
func incomingInterface(c syscall.Conn) (ifindex int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { ifindex, err = interfaceOf(int(fd)) })
	return ifindex, errors.Join(failed, err)
}

func interfaceOf(fd int) (int, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return 0, fmt.Errorf("read the socket's family: %w", err)
	}
	level, want, read, kind, at := unix.SOL_IP, unix.IP_PKTINFO, unix.IP_PKTOPTIONS, unix.IP_PKTINFO, 0
	if family == unix.AF_INET6 {
		// the index follows the address in in6_pktinfo
		level, want, read = unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, unix.IPV6_2292PKTOPTIONS
		kind, at = unix.IPV6_PKTINFO, net.IPv6len
	}
	if err := unix.SetsockoptInt(fd, level, want, 1); err != nil {
		return 0, fmt.Errorf("ask for the incoming interface: %w", err)
	}
	var room [256]byte
	size := uint32(len(room))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(read),
		uintptr(unsafe.Pointer(&room[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("read the incoming interface: %w", errno)
	}
	all, err := unix.ParseSocketControlMessage(room[:size])
	if err != nil {
		return 0, fmt.Errorf("read the incoming interface: %w", err)
	}
	for _, m := range all {
		if m.Header.Level == int32(level) && m.Header.Type == int32(kind) && len(m.Data) >= at+4 {
			return int(binary.NativeEndian.Uint32(m.Data[at:])), nil
		}
	}
	return 0, errors.New("the kernel does not tell the incoming interface")
}

// devices remembers the interfaces and addresses of this host: a lookup takes longer than accepting a connection.
type devices struct {
	mu    sync.Mutex
	until time.Time // interfaces may be renamed, and addresses come and go
	names map[int]string
	own   map[netip.Addr]bool
}

// devicesLife is how long interfaces and addresses are taken to be the same.
const devicesLife = 10 * time.Second

// lookUp returns the name of an interface, "" if there is none, and whether an address is of this host.
func (d *devices) lookUp(ifindex int, address netip.Addr, now time.Time) (name string, isOwn bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !now.Before(d.until) || d.names[ifindex] == "" {
		d.readLocked()
		d.until = now.Add(devicesLife)
	}
	return d.names[ifindex], d.own[address.WithZone("")]
}

func (d *devices) readLocked() {
	d.names, d.own = make(map[int]string), make(map[netip.Addr]bool)
	all, _ := net.Interfaces() // without any, a name is missing in a count
	for _, dev := range all {
		d.names[dev.Index] = dev.Name
	}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			d.own[p.Addr()] = true
		}
	}
}
