package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/packet"
)

// large is a frame before Linux divides it.
type large struct {
	data []byte
	size int
}

// largeFrames reads the frames that come in on an interface as they are handed over: with a size where they stand for several packets.
func largeFrames(t *testing.T, n *lab.Interface, keep func([]byte) bool) func() []large {
	t.Helper()
	var fd int
	err := n.Host.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // network byte order
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: n.Index}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func() (frames []large) {
		const vnet = 10 // struct virtio_net_hdr
		for b := make([]byte, 1<<17); ; {
			got, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
			if err != nil {
				return frames
			}
			if got > vnet && keep(b[vnet:got]) {
				f := large{data: bytes.Clone(b[vnet:got])}
				if b[1] != 0 { // gso_type
					f.size = int(binary.NativeEndian.Uint16(b[4:]))
				}
				frames = append(frames, f)
			}
		}
	}
}

// TestAsLinuxDivides: Segments makes of a host's large frames what Linux itself sends on a link whose card can do nothing.
func TestAsLinuxDivides(t *testing.T) {
	l := lab.New(t)
	client, middle, server := l.Host("client"), l.Host("middle"), l.Host("server")
	near := l.Link(lab.End{Host: client, Addrs: []string{"10.0.0.1/24", "fd00::1/64"}},
		lab.End{Host: middle, Name: "near"}, lab.LinkOptions{})
	far := l.Link(lab.End{Host: middle, Name: "far"},
		lab.End{Host: server, Addrs: []string{"10.0.0.2/24", "fd00::2/64"}}, lab.LinkOptions{NoOffloads: true})
	bridge := middle.Bridge("bridge")
	near.B.Attach(bridge)
	far.A.Attach(bridge)

	tests := []struct {
		name, network, address string
		protocol               packet.Protocol
		send                   func(t *testing.T, client, server *lab.Host, network, address string)
	}{
		{"TCP over IPv4", "tcp4", "10.0.0.2:7", packet.ProtocolTCP, sendTCP},
		{"TCP over IPv6", "tcp6", "[fd00::2]:7", packet.ProtocolTCP, sendTCP},
		{"UDP over IPv4", "udp4", "10.0.0.2:7", protocolUDP, sendUDP},
		{"UDP over IPv6", "udp6", "[fd00::2]:7", protocolUDP, sendUDP},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keep := func(b []byte) bool {
				l, ok := find(b, true)
				return ok && l.protocol == tt.protocol && bytes.Equal(b[:6], far.B.MAC)
			}
			before := largeFrames(t, near.B, keep)
			after := far.B.Capture(lab.CaptureOptions{Keep: keep})
			tt.send(t, client, server, tt.network, tt.address)
			packets := after.Stop()

			ours, count, divided := map[string]int{}, 0, 0
			for _, f := range before() {
				if f.size > 0 {
					divided++
				}
				for one := range Segments(f.data, f.size) {
					ours[string(one)]++
					count++
				}
			}
			// Two processors may change the order of packets on the way, and the queue of a veth may lose some.
			for n, p := range packets {
				if ours[string(p.Data)]--; ours[string(p.Data)] < 0 {
					t.Fatalf("packet %d on the link is none of ours: %x", n, p.Data)
				}
			}
			if divided == 0 || len(packets) < count/2 {
				t.Errorf("%d packets, on the link %d; %d frames stood for several", count, len(packets), divided)
			}
			t.Logf("%d packets, on the link %d; %d frames stood for several", count, len(packets), divided)
		})
	}
}

const sent = 1 << 20 // bytes

func sendTCP(t *testing.T, client, server *lab.Host, network, address string) {
	t.Helper()
	var listener net.Listener
	if err := server.Do(func() (err error) { listener, err = net.Listen(network, address); return err }); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			defer c.Close()
			err = discard(c, sent)
		}
		done <- err
	}()
	var c net.Conn
	if err := client.Do(func() (err error) { c, err = net.DialTimeout(network, address, 5*time.Second); return err }); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	content := make([]byte, sent)
	for i := range content {
		content[i] = byte(i * 7)
	}
	if _, err := c.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func discard(c net.Conn, want int) error {
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	b, got := make([]byte, 1<<16), 0
	for got < want {
		n, err := c.Read(b)
		if got += n; err != nil {
			return fmt.Errorf("after %d bytes: %w", got, err)
		}
	}
	return nil
}

// sendUDP has the kernel cut what it sends (UDP_SEGMENT), the last datagram shorter than the others.
func sendUDP(t *testing.T, client, server *lab.Host, network, address string) {
	t.Helper()
	to, err := net.ResolveUDPAddr(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var in, out *net.UDPConn
	if err := server.Do(func() (err error) { in, err = net.ListenUDP(network, to); return err }); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := client.Do(func() (err error) { out, err = net.DialUDP(network, nil, to); return err }); err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	raw, err := out.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var option error
	if err := raw.Control(func(fd uintptr) {
		option = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1111)
	}); err != nil || option != nil {
		t.Fatal(err, option)
	}
	const datagrams = 5*9 + 5
	for range 5 {
		if _, err := out.Write(bytes.Repeat([]byte{7}, 9*1111+13)); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for n := range datagrams {
		if _, err := in.Read(make([]byte, 2000)); err != nil {
			t.Fatalf("datagram %d: %v", n, err)
		}
	}
}
