package router

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// timeWaits removes what is left of earlier connections between the same ports. When a VIP's server has closed a
// connection first, its kernel holds the ports for a minute, and the client may use its own again at once. A new
// connection that the data path has answered comes to the host without the SYN that would take the place of the old one:
// the kernel would reset it.
type timeWaits struct {
	mu sync.Mutex
	fd int // netlink socket; 0: not open
}

// Of linux/inet_diag.h and sock_diag.h.
const (
	sockDiagByFamily = 20
	sockDestroy      = 21

	diagRequest  = 56 // bytes of struct inet_diag_req_v2
	diagCookie   = 48 // in it
	answerState  = 1  // in struct inet_diag_msg
	answerCookie = 44
	answerLeast  = answerCookie + 8

	tcpListen = 10
)

// diagWait bounds the wait for the kernel's answer, which takes microseconds.
const diagWait = time.Second

// end removes the host's socket between a VIP and a client, unless that is none but the listener.
func (w *timeWaits) end(vip, client netip.AddrPort) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer, err := w.ask(sockDiagByFamily, diagOf(vip, client))
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("look for a socket of %v: %w", client, err)
	case len(answer) < answerLeast || answer[answerState] == tcpListen:
		return nil
	}
	request := diagOf(vip, client)
	copy(request[diagCookie:], answer[answerCookie:answerLeast]) // that very socket, and not the listener if it has gone
	if _, err := w.ask(sockDestroy, request); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) {
		return fmt.Errorf("end the old socket of %v: %w", client, err)
	}
	return nil
}

// diagOf is a struct inet_diag_req_v2 for any socket between the two.
func diagOf(vip, client netip.AddrPort) []byte {
	b := make([]byte, diagRequest)
	b[0], b[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if vip.Addr().Is4() {
		b[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(b[4:], 0xffffffff) // every state
	binary.BigEndian.PutUint16(b[8:], vip.Port())
	binary.BigEndian.PutUint16(b[10:], client.Port())
	copy(b[12:28], vip.Addr().AsSlice())
	copy(b[28:44], client.Addr().AsSlice())
	binary.NativeEndian.PutUint64(b[diagCookie:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	return b
}

// ask sends a request and returns the payload of its answer. Called with the lock.
func (w *timeWaits) ask(kind uint16, request []byte) ([]byte, error) {
	if w.fd == 0 {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
		if err != nil {
			return nil, err
		}
		wait := unix.NsecToTimeval(int64(diagWait))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			unix.Close(fd)
			return nil, err
		}
		w.fd = fd
	}
	m := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(request))
	flags := uint16(unix.NLM_F_REQUEST)
	if kind == sockDestroy {
		flags |= unix.NLM_F_ACK
	}
	binary.NativeEndian.PutUint32(m, uint32(unix.NLMSG_HDRLEN+len(request)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags)
	if err := unix.Sendto(w.fd, append(m, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		w.close() // also an answer that came too late would be taken for the next
		return nil, err
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(w.fd, buf, 0)
	if err != nil || n < unix.NLMSG_HDRLEN+4 {
		w.close()
		return nil, errors.Join(err, errors.New("no answer"))
	}
	payload := buf[unix.NLMSG_HDRLEN:n]
	if binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR {
		if code := int32(binary.NativeEndian.Uint32(payload)); code != 0 {
			return nil, unix.Errno(-code)
		}
		return nil, nil
	}
	return payload, nil
}

// close is called with the lock, or when nobody asks any more.
func (w *timeWaits) close() {
	if w.fd != 0 {
		unix.Close(w.fd)
		w.fd = 0
	}
}
