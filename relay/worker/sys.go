package worker

import (
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These calls never block, so they need not inform the Go scheduler.

func read(fd int32, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}

// write sends to a socket, without SIGPIPE.
func write(fd int32, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// splice moves at most n bytes between a socket and a pipe.
func splice(from, to int32, n int) (int, unix.Errno) {
	moved, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	return int(moved), errno
}

func closeFD(fd int32) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func shutdownWrite(fd int32) {
	_, _, _ = unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
}

// closingResets makes close(2) send an RST instead of queued data and a FIN, for a connection or those that a listener accepts. The kernel
// closes the sockets of a killed process: a FIN would make a truncated stream look complete.
func closingResets(fd int32, on bool) {
	linger := unix.Linger{}
	if on {
		linger.Onoff = 1 // with a timeout of zero
	}
	_ = setsockopt(fd, unix.SOL_SOCKET, unix.SO_LINGER, unsafe.Pointer(&linger), unsafe.Sizeof(linger))
}

// finFD closes a connection after its queued data. Other closes reset it: see tune.
func finFD(fd int32) {
	closingResets(fd, false)
	closeFD(fd)
}

func setsockopt(fd int32, level, option int, value unsafe.Pointer, size uintptr) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(value), size, 0)
	return errno
}

func setInt(fd int32, level, option, value int) unix.Errno {
	v := int32(value)
	return setsockopt(fd, level, option, unsafe.Pointer(&v), unsafe.Sizeof(v))
}

func setText(fd int32, level, option int, value string) unix.Errno {
	return setsockopt(fd, level, option, unsafe.Pointer(unsafe.StringData(value)), uintptr(len(value)))
}

func getInt(fd int32, level, option int) (int, unix.Errno) {
	var v int32
	size := uint32(unsafe.Sizeof(v))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&size)), 0)
	return int(v), errno
}

// unsent is the number of bytes that the peer has not acknowledged, including a FIN.
func unsent(fd int32) int {
	var n int32
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCOUTQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}

// sockaddr is struct sockaddr_in or sockaddr_in6.
type sockaddr [28]byte

// sockaddrOf returns an address and its length in the kernel's format.
func sockaddrOf(a netip.AddrPort) (sa sockaddr, size uintptr) {
	binary.BigEndian.PutUint16(sa[2:], a.Port())
	if a.Addr().Is4() {
		binary.NativeEndian.PutUint16(sa[:], unix.AF_INET)
		ip := a.Addr().As4()
		copy(sa[4:], ip[:])
		return sa, 16
	}
	binary.NativeEndian.PutUint16(sa[:], unix.AF_INET6)
	ip := a.Addr().As16()
	copy(sa[8:], ip[:])
	return sa, 28
}

func (sa *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(sa[2:])
	if binary.NativeEndian.Uint16(sa[:]) == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(sa[8:24])).Unmap(), port)
}

func accept(fd int32) (int32, netip.AddrPort, unix.Errno) {
	var sa sockaddr
	size := uint32(len(sa))
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, netip.AddrPort{}, errno
	}
	return int32(n), sa.addrPort(), 0
}

// localAddr is the local address of a connection.
func localAddr(fd int32) (netip.AddrPort, unix.Errno) {
	var sa sockaddr
	size := uint32(len(sa))
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	return sa.addrPort(), errno
}

// newSocket returns a TCP socket of the address's family.
func newSocket(a netip.Addr) (int32, unix.Errno) {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	return int32(fd), errno
}

func bind(fd int32, a netip.AddrPort) unix.Errno {
	sa, size := sockaddrOf(a)
	_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&sa)), size)
	return errno
}

func connect(fd int32, a netip.AddrPort) unix.Errno {
	sa, size := sockaddrOf(a)
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa)), size)
	return errno
}

func listen(fd int32, backlog int) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_LISTEN, uintptr(fd), uintptr(backlog), 0)
	return errno
}

func epollCtl(epoll int32, how uintptr, fd int32, events uint32, data uint64) unix.Errno {
	ev := unix.EpollEvent{Events: events, Fd: int32(data), Pad: int32(data >> 32)}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epoll), how, uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return errno
}

// epollWait waits without informing the Go scheduler, for a short time.
func epollWait(epoll int32, events []unix.EpollEvent, pause time.Duration) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(pause/time.Millisecond), 0, 0)
	if errno != 0 {
		n = 0
	}
	return int(n), errno
}

func tcpInfo(fd int32) (info unix.TCPInfo, errno unix.Errno) {
	size := uint32(unsafe.Sizeof(info))
	_, _, errno = unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	return info, errno
}

// roundTrip is a connection's measured round-trip time; 0: none.
func roundTrip(fd int32) time.Duration {
	info, _ := tcpInfo(fd)
	return time.Duration(info.Rtt) * time.Microsecond
}

// acknowledged reports whether the peer of a connection that this relay opened has acknowledged a byte beyond the first behind ones. It
// returns true if that is unknown.
func acknowledged(fd int32, behind uint64) bool {
	info, errno := tcpInfo(fd)
	return errno != 0 || info.Bytes_acked > 1+behind // 1: the SYN
}
