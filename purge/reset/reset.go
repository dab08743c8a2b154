// Package reset sends the resets that the kernel does not. When a connection is destroyed, the kernel sends a RST with the next sequence
// number to send. A client that misses earlier bytes does not accept it, but sends a challenge ACK (RFC 5961, section 3.2), and learns
// of the end only if the host that gets the challenge answers. So clients that miss all unacknowledged bytes get another RST from here,
// with the sequence number of the first of these bytes.
package reset

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"baton/packet"
)

// Reset is a RST from a server's host to a client.
type Reset struct {
	Server, Client netip.AddrPort
	Ifindex        int        // of the outgoing interface; 0: by the routing table
	Seq            packet.Seq // next one the client expects
	Ack            packet.Seq // next one the server expects
}

// Sender sends resets from the network namespace in which it was opened. It may be used by several goroutines.
type Sender struct{ fd4, fd6 int }

// Open opens a sender, which needs CAP_NET_RAW. The caller closes it.
func Open() (*Sender, error) {
	// A socket of IPPROTO_RAW receives nothing (raw(7)).
	fd4, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open a raw socket (CAP_NET_RAW): %w", err)
	}
	fd6, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return &Sender{fd4, -1}, nil
	}
	if err != nil {
		unix.Close(fd4)
		return nil, fmt.Errorf("open a raw IPv6 socket: %w", err)
	}
	return &Sender{fd4, fd6}, nil
}

// Close closes the sender.
func (s *Sender) Close() error {
	err := unix.Close(s.fd4)
	if s.fd6 >= 0 {
		err = errors.Join(err, unix.Close(s.fd6))
	}
	return err
}

// Send sends a reset. It does not block when the interface's queue is full.
func (s *Sender) Send(r Reset) error {
	var err error
	if r.Client.Addr().Is4() {
		err = unix.Sendmsg(s.fd4, datagram(r), control4(r), &unix.SockaddrInet4{Addr: r.Client.Addr().As4()}, unix.MSG_DONTWAIT)
	} else {
		err = unix.Sendmsg(s.fd6, datagram(r), control6(r), &unix.SockaddrInet6{Addr: r.Client.Addr().As16()}, unix.MSG_DONTWAIT)
	}
	if err != nil {
		return fmt.Errorf("send a reset to %v: %w", r.Client, err)
	}
	return nil
}

// datagram is the IP packet. IPv4's total length, identification and checksum are the kernel's to fill in.
func datagram(r Reset) []byte {
	frame := packet.Build(packet.Spec{
		Src: r.Server, Dst: r.Client, Seq: r.Seq, Ack: r.Ack, Flags: packet.RST | packet.ACK, DontFragment: true,
	})
	return frame[packet.EthernetSize:]
}

func control4(r Reset) []byte {
	if r.Ifindex == 0 {
		return nil
	}
	return unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(r.Ifindex), Spec_dst: r.Server.Addr().As4()})
}

func control6(r Reset) []byte {
	if r.Ifindex == 0 {
		return nil
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(r.Ifindex), Addr: r.Server.Addr().As16()})
}
