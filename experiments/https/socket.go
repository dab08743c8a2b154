package https

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/packet"
)

const (
	socketBuffer = 256 << 20 // bytes; a burst must not be lost where nobody asked for loss
	patience     = time.Millisecond
	maxFrame     = packet.EthernetSize + 65535
)

// socket sends and receives TCP segments of addresses that no kernel has.
type socket struct {
	fd       int
	mac, via packet.MAC
	frame    [maxFrame]byte
}

// open opens a raw socket on an interface, whose packets go to a neighbour.
func open(n *lab.Interface, via *lab.Interface) (*socket, error) {
	s := &socket{fd: -1, mac: packet.MAC(n.MAC), via: packet.MAC(via.MAC)}
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
		func() error { return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer) },
		func() error { return unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1) },
		func() error { return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout) },
		func() error {
			const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // network byte order
			return unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: n.Index})
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

// receive waits for a segment for a while; later ones do not wait. Its payload is good until the next call. False: none came.
func (s *socket) receive(wait bool) (packet.Frame, bool, error) {
	flags := unix.MSG_DONTWAIT
	if wait {
		flags = 0
	}
	n, _, err := unix.Recvfrom(s.fd, s.frame[:], flags)
	switch err {
	case nil:
		f, err := packet.Parse(s.frame[:n])
		return f, err == nil && f.Protocol == packet.ProtocolTCP, nil
	case unix.EAGAIN, unix.EINTR, unix.ENETDOWN: // the last: once, when the lab ends
		return packet.Frame{}, false, nil
	}
	return packet.Frame{}, false, fmt.Errorf("receive: %w", err)
}

func (s *socket) send(p packet.Spec) error {
	p.SrcMAC, p.DstMAC = s.mac, s.via
	frame := packet.Build(p)
	for {
		_, err := unix.Write(s.fd, frame)
		switch err {
		case nil:
			return nil
		case unix.EINTR, unix.ENOBUFS: // the queue is full: what was not to be lost is sent again
		default:
			return fmt.Errorf("send to %v: %w", p.Dst, err)
		}
	}
}

// pool hands out addresses and ports, least recently used first. Each address is a source of its own for limits by prefix.
type pool struct {
	first netip.Addr
	next  int
}

const (
	addrBits = 7  // of the addresses
	portBits = 14 // of the ports of an address, from 1<<portBits on
)

// take returns the next end point: after two million they come again.
func (p *pool) take() netip.AddrPort {
	n := p.next
	p.next = (n + 1) & (1<<(portBits+addrBits) - 1)
	bytes := p.first.AsSlice()
	network := 2 // the last byte of a /24
	if p.first.Is6() {
		network = 6 // of a /56
	}
	bytes[network] = byte(n & (1<<addrBits - 1))
	a, _ := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(a, uint16(1<<portBits+n>>addrBits))
}
