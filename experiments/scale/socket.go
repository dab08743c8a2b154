package scale

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/packet"
)

// socket is a raw socket on an interface. The host's own stack sees what comes in as well, and drops what is for none of its
// addresses.
type socket struct {
	fd    int
	mac   packet.MAC // its interface's
	frame [maxFrame]byte
}

const (
	receiveBuffer = 64 << 20              // bytes: a burst must not be lost here
	patience      = 20 * time.Millisecond // how long a reader waits before it looks at its clock
)

// open opens a socket that sees IPv4 packets that come in by the interface.
func open(n *lab.Interface) (*socket, error) {
	s := &socket{fd: -1, mac: packet.MAC(n.MAC)}
	err := n.Host.Do(func() (err error) {
		// Protocol 0 receives nothing until bind, so that no frame of another interface slips in.
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	timeout := unix.NsecToTimeval(int64(patience))
	for _, step := range []func() error{
		func() error { return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) },
		func() error { return unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1) },
		func() error { return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout) },
		func() error {
			const ipv4 = unix.ETH_P_IP<<8 | unix.ETH_P_IP>>8 // network byte order
			return unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: ipv4 & 0xffff, Ifindex: n.Index})
		},
	} {
		if err := step(); err != nil {
			s.close()
			return nil, fmt.Errorf("open raw socket on %s: %w", n.Name, err)
		}
	}
	return s, nil
}

func (s *socket) close() { unix.Close(s.fd) }

// receive waits for a segment for a while. Its payload is good until the next call. False: none came.
func (s *socket) receive(in *segment, buffer []byte) (bool, error) {
	n, err := unix.Read(s.fd, buffer)
	switch err {
	case nil:
		return in.take(buffer[:n]), nil
	case unix.EAGAIN, unix.EINTR, unix.ENETDOWN: // the last: once, when the lab ends
		return false, nil
	}
	return false, fmt.Errorf("receive: %w", err)
}

// hangUp takes what the contender has said as it ended, until it is silent, and resets the sessions that it wants to close in
// order: else its kernel would hold them for a while, and meet the next ones on the same ports.
func (s *socket) hangUp() error {
	buffer := make([]byte, maxFrame)
	var in segment
	for {
		n, err := unix.Read(s.fd, buffer)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case !in.take(buffer[:n]) || !in.flags.Has(packet.FIN):
			continue
		}
		out := in.reply(packet.RST, 0)
		out.options = 0
		if err := s.send(&out); err != nil {
			return err
		}
	}
}

func (s *socket) send(out *segment) error {
	n := out.put(s.frame[:])
	for {
		_, err := unix.Write(s.fd, s.frame[:n])
		switch err {
		case nil:
			return nil
		case unix.EINTR, unix.ENOBUFS: // the queue is full: what was not to be lost is sent again
		default:
			return fmt.Errorf("send: %w", err)
		}
	}
}
