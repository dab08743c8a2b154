package sockdiag

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// FindTCP returns the socket that would receive a segment from remote to local: a connection between the two in any state, or else a
// listener. The error is ErrGone if there is neither. It does not return the kernel's measurements.
func (c *Conn) FindTCP(local, remote netip.AddrPort) (TCP, error) {
	sequence := c.next
	c.next++
	c.request = appendHeader(c.request[:0], requestSize, sockDiagByFamily, unix.NLM_F_REQUEST, sequence)
	c.request = appendSocket(c.request, Socket{Local: local, Remote: remote, Cookie: AnyCookie})
	if err := unix.Sendto(c.fd, c.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return TCP{}, fmt.Errorf("find a socket: send the request: %w", err)
	}
	for {
		n, _, err := unix.Recvfrom(c.fd, c.answer, 0)
		if err != nil {
			return TCP{}, fmt.Errorf("find a socket: read the answer: %w", err)
		}
		s, found, err := parseFound(c.answer[:n], sequence)
		if err != nil {
			return TCP{}, fmt.Errorf("find a socket: %w", err)
		}
		if found {
			return s, nil
		}
	}
}

// parseFound parses the result of one read. Not found: it holds only answers to earlier requests.
func parseFound(b []byte, sequence uint32) (s TCP, found bool, err error) {
	for len(b) > 0 {
		var m message
		if m, b, err = parseMessage(b); err != nil {
			return s, false, err
		}
		if m.sequence != sequence {
			continue
		}
		switch m.kind {
		case sockDiagByFamily:
			err = parseTCP(m.body, &s)
			return s, err == nil, err
		case unix.NLMSG_ERROR:
			said, err := parseError(m.body)
			if err == nil {
				err = said
			}
			if err == nil {
				err = errors.New("the kernel's answer is empty")
			}
			return s, false, err
		default:
			return s, false, fmt.Errorf("a message of type %d", m.kind)
		}
	}
	return s, false, nil
}
