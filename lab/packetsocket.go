package lab

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxFrame is the longest frame that an interface here hands over: a GSO packet and its Ethernet header.
const maxFrame = 14 + 65535 + 4

// receiveBuffer of packet sockets (bytes): a burst at full speed must not be lost where nobody asked for loss.
const receiveBuffer = 64 << 20

// packetSocket opens a raw socket on the interface, promiscuous. Without outgoing it sees only what comes in.
func (h *Host) packetSocket(n *Interface, outgoing bool) (fd int, err error) {
	err = h.Do(func() error {
		// Protocol 0 receives nothing until bind, so that no frame of another interface slips in.
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("packet socket on %s: %w", n.Name, err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	steps := []func() error{
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1) },
		func() error {
			return unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
				&unix.PacketMreq{Ifindex: int32(n.Index), Type: unix.PACKET_MR_PROMISC})
		},
		func() error {
			if outgoing {
				return nil
			}
			return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
		},
		func() error {
			return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: n.Index})
		},
	}
	for _, step := range steps {
		if err = step(); err != nil {
			return -1, fmt.Errorf("packet socket on %s: %w", n.Name, err)
		}
	}
	return fd, nil
}

const allProtocols = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // network byte order
