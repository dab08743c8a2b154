package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Socket identifies a connection. The cookie (SO_COOKIE) excludes later connections with the same addresses.
type Socket struct {
	Local, Remote netip.AddrPort // IPv4 on an IPv6 socket is plain IPv4
	Ifindex       int            // of the device that it is bound to; 0: none
	Cookie        uint64         // SO_COOKIE; AnyCookie: any connection with the addresses
}

// AnyCookie (INET_DIAG_NOCOOKIE) matches any connection with the addresses.
const AnyCookie = 1<<64 - 1

// ErrGone says that the connection does not exist any more.
var ErrGone = errors.New("the connection is gone")

// Constants of linux/sock_diag.h and linux/inet_diag.h.
const (
	sockDestroy = 21         // SOCK_DESTROY
	requestSize = 56         // struct inet_diag_req_v2
	allStates   = 0xffffffff // more than exist
)

// most is the number of requests in one message to the kernel: the answers then fit into the smallest receive buffer.
const most = 64

// Conn queries the kernel about the sockets of the network namespace in which it was opened. It is for one goroutine at a time.
type Conn struct {
	fd      int
	next    uint32 // sequence number
	request []byte
	answer  []byte
}

// Open opens a connection to the kernel. The caller closes it.
func Open() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open the socket interface (CONFIG_INET_DIAG): %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open the socket interface: %w", err)
	}
	return &Conn{fd: fd, answer: make([]byte, 64<<10)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// Destroy ends connections. The errors are in the same order: nil, ErrGone or another; EOPNOTSUPP if the kernel does not support it.
func (c *Conn) Destroy(sockets []Socket) []error {
	out := make([]error, len(sockets))
	for i := 0; i < len(sockets); i += most {
		n := min(most, len(sockets)-i)
		c.destroy(sockets[i:i+n], out[i:i+n])
	}
	return out
}

// errUnanswered is the error of a request without an answer.
var errUnanswered = errors.New("the kernel has not answered")

func (c *Conn) destroy(sockets []Socket, out []error) {
	for i := range out {
		out[i] = errUnanswered
	}
	err := c.exchange(sockets, out)
	if err != nil {
		err = fmt.Errorf("destroy a socket: %w", err)
	}
	for i := range out {
		if out[i] == errUnanswered {
			out[i] = err
		}
	}
}

// exchange returns after the answer to the last request. The kernel handles them in order, and only the last one requests an answer on
// success: the others succeeded if no error has arrived by then.
func (c *Conn) exchange(sockets []Socket, out []error) error {
	c.request = c.request[:0]
	first := c.next
	for i, s := range sockets {
		c.request = appendRequest(c.request, c.next, s, i == len(sockets)-1)
		c.next++
	}
	if err := unix.Sendto(c.fd, c.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	for last := len(sockets) - 1; out[last] == errUnanswered; {
		n, _, err := unix.Recvfrom(c.fd, c.answer, 0)
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		for rest := c.answer[:n]; len(rest) > 0; {
			var a answer
			if a, rest, err = parseAnswer(rest); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			place := a.sequence - first
			if place >= uint32(len(sockets)) {
				continue // an answer to an earlier request
			}
			out[place] = a.err
		}
	}
	return nil
}

// appendRequest writes a netlink message that destroys a socket. ack requests an answer even on success.
func appendRequest(b []byte, sequence uint32, s Socket, ack bool) []byte {
	flags := uint16(unix.NLM_F_REQUEST)
	if ack {
		flags |= unix.NLM_F_ACK
	}
	return appendSocket(appendHeader(b, requestSize, sockDestroy, flags, sequence), s)
}

// appendSocket writes a struct inet_diag_req_v2 for one TCP socket in any state.
func appendSocket(b []byte, s Socket) []byte {
	family := uint8(unix.AF_INET)
	if s.Local.Addr().Is6() {
		family = unix.AF_INET6
	}
	order := binary.NativeEndian
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = order.AppendUint32(b, allStates)
	b = binary.BigEndian.AppendUint16(b, s.Local.Port())
	b = binary.BigEndian.AppendUint16(b, s.Remote.Port())
	b = appendAddress(b, s.Local.Addr())
	b = appendAddress(b, s.Remote.Addr())
	b = order.AppendUint32(b, uint32(s.Ifindex))
	b = order.AppendUint32(b, uint32(s.Cookie))
	return order.AppendUint32(b, uint32(s.Cookie>>32))
}

// appendHeader writes a struct nlmsghdr for a body of that many bytes.
func appendHeader(b []byte, body int, kind, flags uint16, sequence uint32) []byte {
	order := binary.NativeEndian
	b = order.AppendUint32(b, uint32(unix.NLMSG_HDRLEN+body))
	b = order.AppendUint16(b, kind)
	b = order.AppendUint16(b, flags)
	b = order.AppendUint32(b, sequence)
	return order.AppendUint32(b, 0) // our port, which the kernel fills in
}

func appendAddress(b []byte, a netip.Addr) []byte {
	var at [16]byte
	copy(at[:], a.AsSlice())
	return append(b, at[:]...)
}

type answer struct {
	sequence uint32
	err      error
}

// parseAnswer reads a message with a struct nlmsgerr, and returns the rest.
func parseAnswer(b []byte) (a answer, rest []byte, err error) {
	m, rest, err := parseMessage(b)
	if err != nil {
		return a, nil, err
	}
	if m.kind != unix.NLMSG_ERROR {
		return a, nil, fmt.Errorf("a message of type %d", m.kind)
	}
	a.sequence = m.sequence
	if a.err, err = parseError(m.body); err != nil {
		return answer{}, nil, err
	}
	return a, rest, nil
}

// message is a netlink message.
type message struct {
	kind, flags uint16
	sequence    uint32
	body        []byte
}

// parseMessage reads a message, and returns the rest.
func parseMessage(b []byte) (m message, rest []byte, err error) {
	if len(b) < unix.NLMSG_HDRLEN {
		return m, nil, fmt.Errorf("%d bytes", len(b))
	}
	order := binary.NativeEndian
	length := order.Uint32(b)
	if length < unix.NLMSG_HDRLEN || uint64(length) > uint64(len(b)) {
		return m, nil, fmt.Errorf("a message of %d bytes in %d", length, len(b))
	}
	m = message{kind: order.Uint16(b[4:]), flags: order.Uint16(b[6:]), sequence: order.Uint32(b[8:]), body: b[unix.NLMSG_HDRLEN:length]}
	return m, b[min(len(b), int(length+3)&^3):], nil
}

// parseError reads the error number at the start of a struct nlmsgerr and of the end of a dump.
func parseError(b []byte) (said, err error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("an answer of %d bytes", len(b))
	}
	switch code := unix.Errno(-int32(binary.NativeEndian.Uint32(b))); code {
	case 0:
		return nil, nil
	case unix.ENOENT:
		return ErrGone, nil
	default:
		return code, nil
	}
}
