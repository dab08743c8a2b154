package reset

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/datapath/kerneltest"
	"baton/packet"
)

func TestMain(m *testing.M) {
	kerneltest.Main(m, func() error { return exec.Command("ip", "link", "set", "lo", "up").Run() })
}

func TestDatagram(t *testing.T) {
	for _, r := range []Reset{
		{Server: netip.MustParseAddrPort("192.0.2.1:80"), Client: netip.MustParseAddrPort("198.51.100.7:54321"), Seq: 0xfffffff0, Ack: 7},
		{Server: netip.MustParseAddrPort("[2001:db8::1]:80"), Client: netip.MustParseAddrPort("[2001:db8::2]:54321"), Seq: 5, Ack: 0x80000000},
	} {
		frame := packet.Build(packet.Spec{Src: r.Server, Dst: r.Client}) // for its Ethernet header alone
		f, err := packet.Parse(append(frame[:packet.EthernetSize:packet.EthernetSize], datagram(r)...))
		if err != nil {
			t.Fatal(err)
		}
		tcp := f.TCP()
		if f.Src != r.Server || f.Dst != r.Client || tcp.Seq() != r.Seq || tcp.Ack() != r.Ack || tcp.Flags() != packet.RST|packet.ACK {
			t.Errorf("%+v: %v > %v, seq %d, ack %d, %v", r, f.Src, f.Dst, tcp.Seq(), tcp.Ack(), tcp.Flags())
		}
		if tcp.Checksum() != f.TransportChecksum() {
			t.Errorf("%+v: wrong checksum", r)
		}
	}
}

// TestSend resets a client with the number that it expects, and not with another: by its own socket's numbers.
func TestSend(t *testing.T) {
	kerneltest.Need(t)
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, ifindex := range []int{0, lo.Index} {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			o, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			a, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			expected, sent := numbers(t, o.(*net.TCPConn))
			r := Reset{
				Server: o.RemoteAddr().(*net.TCPAddr).AddrPort(), Client: o.LocalAddr().(*net.TCPAddr).AddrPort(), Ifindex: ifindex,
				Seq: expected - 1, Ack: sent,
			}
			if err := s.Send(r); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Write([]byte{1}); err != nil { // loopback delivers before Send returns
				t.Errorf("%s: a number of before resets: %v", address, err)
			}
			r.Seq++
			if err := s.Send(r); err != nil {
				t.Fatal(err)
			}
			o.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := o.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s by interface %d: the client reads %v", address, ifindex, err)
			}
		}
	}
}

// numbers are what a socket expects and will send next, in its peer's eyes. The connection is put into repair mode for a moment.
func numbers(t *testing.T, c *net.TCPConn) (expected, sent packet.Seq) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	queue := func(fd, which int) packet.Seq {
		if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, which); err != nil {
			t.Fatal(err)
		}
		n, err := unix.GetsockoptInt(fd, unix.SOL_TCP, unix.TCP_QUEUE_SEQ)
		if err != nil {
			t.Fatal(err)
		}
		return packet.Seq(n)
	}
	err = raw.Control(func(fd uintptr) {
		if err := unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, 1); err != nil {
			t.Fatal(err)
		}
		expected, sent = queue(int(fd), 1), queue(int(fd), 2) // TCP_RECV_QUEUE, TCP_SEND_QUEUE
		if err := unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, -1); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return expected, sent
}
