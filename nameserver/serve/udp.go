package serve

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"baton/nameserver/answer"
)

const (
	batch     = 64   // queries that are read at once
	queryMost = 2048 // octets of a query over UDP; longer ones are not answered
	control   = 64   // octets of a message's control data, of which the address it was sent to is read
)

// message is the kernel's struct mmsghdr.
type message struct {
	unix.Msghdr
	Len uint32
}

// socket is a UDP socket, which answers batch by batch. A thread waits in the kernel for queries: under load the runtime's poller would cost as much
// as the answers.
type socket struct {
	fd     *os.File
	closed atomic.Bool
	any    bool // it is bound to all addresses: an answer has to come from the one that was asked

	in, out  [batch]message
	iov, ovo [batch]unix.Iovec
	names    [batch]unix.RawSockaddrInet6
	controls [batch][control]byte
	queries  [batch][queryMost]byte
	answers  [batch][]byte

	failed  *atomic.Uint64 // answers that could not be sent
	tooLong *atomic.Uint64

	got, to int
}

// openUDP opens a socket that shares its address with others: the kernel spreads clients over them.
func openUDP(ctx context.Context, at netip.AddrPort, size, buffer int) (*socket, error) {
	network := "udp6"
	if at.Addr().Is4() {
		network = "udp4"
	}
	s := &socket{any: at.Addr().IsUnspecified()}
	l := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = s.options(int(fd), at.Addr().Is4(), buffer) }); e != nil {
			return e
		}
		return err
	}}
	conn, err := l.ListenPacket(ctx, network, at.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if s.fd, err = conn.(*net.UDPConn).File(); err != nil {
		return nil, err
	}
	s.fd.Fd() // it blocks from now on
	for i := range batch {
		s.answers[i] = make([]byte, size)
	}
	return s, nil
}

// close has serve return. The descriptor stays until nobody uses it.
func (s *socket) close() {
	if s.closed.Swap(true) {
		return
	}
	_ = unix.Shutdown(int(s.fd.Fd()), unix.SHUT_RDWR) // it wakes who waits, although it says that nobody is connected
}

// options sets what a name server's socket needs. Answers are never made smaller by what strangers tell of a path: sizes are bounded by EDNS.
func (s *socket) options(fd int, v4 bool, buffer int) error {
	set := func(level, name, value int) error { return unix.SetsockoptInt(fd, level, name, value) }
	if err := set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("share the port: %w", err)
	}
	if buffer > 0 {
		_ = set(unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) // at most net.core.rmem_max: a burst is then cut off earlier
	}
	level, discover, info := unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVPKTINFO
	if v4 {
		level, discover, info = unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PKTINFO
	}
	if err := set(level, discover, unix.IP_PMTUDISC_OMIT); err != nil {
		return fmt.Errorf("ignore path MTUs: %w", err)
	}
	if s.any {
		return set(level, info, 1)
	}
	return nil
}

// serve answers until close is called.
func (s *socket) serve(w *answer.Worker, log *slog.Logger) {
	for !s.closed.Load() {
		if errno := s.receive(); errno != 0 {
			log.Warn("queries cannot be read", "err", errno)
			time.Sleep(10 * time.Millisecond) // it would be the same at once
			continue
		}
		s.answer(w)
		for from := 0; from < s.to; {
			n, errno := many(unix.SYS_SENDMMSG, s.fd.Fd(), s.out[from:s.to], 0)
			if errno != 0 { // of the first message: the others still have their turn
				s.failed.Add(1)
				n = 1
			}
			from += n
		}
	}
}

// receive waits for queries, and reads what is there, at most a batch.
func (s *socket) receive() unix.Errno {
	for i := range s.in {
		m := &s.in[i]
		s.iov[i].Base = &s.queries[i][0]
		s.iov[i].SetLen(queryMost)
		m.Iov = &s.iov[i]
		m.SetIovlen(1)
		m.Name, m.Namelen = (*byte)(unsafe.Pointer(&s.names[i])), unix.SizeofSockaddrInet6
		m.Control, m.Flags = nil, 0
		m.SetControllen(0)
		if s.any {
			m.Control = &s.controls[i][0]
			m.SetControllen(control)
		}
	}
	n, errno := many(unix.SYS_RECVMMSG, s.fd.Fd(), s.in[:], unix.MSG_WAITFORONE)
	s.got = n
	if errno != 0 {
		s.got = 0
	}
	return errno
}

// answer makes the answers of a batch.
func (s *socket) answer(w *answer.Worker) {
	s.to = 0
	for i := range s.got {
		in := &s.in[i]
		if in.Flags&unix.MSG_TRUNC != 0 {
			s.tooLong.Add(1)
			continue
		}
		n := w.Handle(s.queries[i][:in.Len], addrPort(&s.names[i]), false, s.answers[s.to])
		if n == 0 {
			continue
		}
		o := &s.ovo[s.to]
		o.Base = &s.answers[s.to][0]
		o.SetLen(n)
		out := &s.out[s.to]
		*out = message{Msghdr: in.Msghdr}
		out.Iov = o
		if s.any {
			s.source(out, i)
		}
		s.to++
	}
}

// source has the answer come from the address that was asked: the control data says it, and is sent back, without the interface.
func (s *socket) source(out *message, i int) {
	n := int(out.Controllen)
	c := s.controls[i][:n]
	h, data, _, err := unix.ParseOneSocketControlMessage(c)
	switch {
	case n == 0 || err != nil:
		out.Control = nil
		out.SetControllen(0)
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		binary.NativeEndian.PutUint32(data, 0)
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo && data[0] != 0xfe:
		binary.NativeEndian.PutUint32(data[16:], 0) // link-local addresses need it
	}
}

// many reads or sends messages, and returns how many.
func many(call, fd uintptr, messages []message, flags uintptr) (int, unix.Errno) {
	for {
		n, _, errno := unix.Syscall6(call, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), flags, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// addrPort reads a sender's address.
func addrPort(a *unix.RawSockaddrInet6) netip.AddrPort {
	port := (*[2]byte)(unsafe.Pointer(&a.Port))
	if a.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(a))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), binary.BigEndian.Uint16(port[:]))
	}
	return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), binary.BigEndian.Uint16(port[:]))
}
