package sockdiag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/datapath/kerneltest"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(holdEnv); what != "" {
		if err := holding(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	kerneltest.Main(m, func() error { return exec.Command("ip", "link", "set", "lo", "up").Run() })
}

// TestRequest is a request byte by byte, as linux/netlink.h and linux/inet_diag.h have it on this machine's byte order.
func TestRequest(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("SKIP: the bytes are those of a little-endian machine")
	}
	s := Socket{
		Local: netip.MustParseAddrPort("192.0.2.1:80"), Remote: netip.MustParseAddrPort("198.51.100.7:54321"), Ifindex: 3, Cookie: 0x1122334455667788,
	}
	want := []byte{
		72, 0, 0, 0, // length
		21, 0, 5, 0, // SOCK_DESTROY, NLM_F_REQUEST | NLM_F_ACK
		9, 0, 0, 0, // sequence
		0, 0, 0, 0, // port
		2, 6, 0, 0, // AF_INET, IPPROTO_TCP, no extensions
		255, 255, 255, 255, // states
		0, 80, 0xd4, 0x31, // ports
		192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		198, 51, 100, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		3, 0, 0, 0, // interface
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // cookie
	}
	if got := appendRequest(nil, 9, s, true); !bytes.Equal(got, want) {
		t.Errorf("got\n% x\nwant\n% x", got, want)
	}
	s.Local, s.Remote = netip.MustParseAddrPort("[2001:db8::1]:80"), netip.MustParseAddrPort("[2001:db8::2]:54321")
	got := appendRequest(nil, 9, s, false)
	local, remote := s.Local.Addr().As16(), s.Remote.Addr().As16()
	if len(got) != 72 || got[6] != 1 || got[16] != 10 || !bytes.Equal(got[28:44], local[:]) || !bytes.Equal(got[44:60], remote[:]) {
		t.Errorf("IPv6: % x", got)
	}
}

func TestParseAnswer(t *testing.T) {
	message := func(length uint32, kind uint16, code int32) []byte {
		b := binary.NativeEndian.AppendUint32(nil, length)
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, 0, 0)
		b = binary.NativeEndian.AppendUint32(b, 7)
		b = binary.NativeEndian.AppendUint32(b, 0)
		return binary.NativeEndian.AppendUint32(b, uint32(code))
	}
	tests := []struct {
		name    string
		bytes   []byte
		want    error
		refused bool
	}{
		{"done", message(20, unix.NLMSG_ERROR, 0), nil, false},
		{"gone", message(20, unix.NLMSG_ERROR, -int32(unix.ENOENT)), ErrGone, false},
		{"not possible", message(20, unix.NLMSG_ERROR, -int32(unix.EOPNOTSUPP)), unix.EOPNOTSUPP, false},
		{"another type", message(20, unix.NLMSG_DONE, 0), nil, true},
		{"short", message(20, unix.NLMSG_ERROR, 0)[:19], nil, true},
		{"length beyond the end", message(21, unix.NLMSG_ERROR, 0), nil, true},
		{"length within its header", message(4, unix.NLMSG_ERROR, 0), nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, rest, err := parseAnswer(tt.bytes)
			if (err != nil) != tt.refused || !errors.Is(a.err, tt.want) || len(rest) != 0 {
				t.Errorf("%+v, %d left, %v", a, len(rest), err)
			}
			if err == nil && a.sequence != 7 {
				t.Errorf("sequence %d", a.sequence)
			}
		})
	}
}

// connection is one over loopback.
func connection(t *testing.T, address string) (opened, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	a, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return o.(*net.TCPConn), a
}

func cookie(t *testing.T, c *net.TCPConn) (cookie uint64) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return cookie
}

func named(t *testing.T, c *net.TCPConn) Socket {
	t.Helper()
	unmapped := func(a net.Addr) netip.AddrPort {
		at := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return Socket{Local: unmapped(c.LocalAddr()), Remote: unmapped(c.RemoteAddr()), Cookie: cookie(t, c)}
}

// TestDestroy ends the selected connections and no others; application and peer notice it.
func TestDestroy(t *testing.T) {
	kerneltest.Need(t)
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		var sockets []Socket
		var want []error
		type pair struct{ opened, accepted *net.TCPConn }
		var ended, kept []pair
		for i := range most + 10 { // more than one message
			o, a := connection(t, address)
			s := named(t, a)
			if i%3 == 0 {
				s.Cookie++
				want, kept = append(want, ErrGone), append(kept, pair{o, a})
			} else {
				want, ended = append(want, nil), append(ended, pair{o, a})
			}
			sockets = append(sockets, s)
		}
		got := c.Destroy(sockets)
		for i := range got {
			if !errors.Is(got[i], want[i]) {
				t.Errorf("%s: socket %d: %v, want %v", address, i, got[i], want[i])
			}
		}
		for _, p := range ended {
			if _, err := p.accepted.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNABORTED) {
				t.Errorf("%s: the application reads %v", address, err)
			}
			p.opened.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := p.opened.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: the peer reads %v", address, err)
			}
		}
		for _, p := range kept {
			if _, err := p.opened.Write([]byte{1}); err != nil {
				t.Errorf("%s: a connection that was not meant: %v", address, err)
			}
			if _, err := p.accepted.Read(make([]byte, 1)); err != nil {
				t.Errorf("%s: a connection that was not meant: %v", address, err)
			}
		}
	}
}

// TestDestroyMapped: a socket of IPv6 that has an IPv4 client, as Apache's, is meant by its IPv4 addresses.
func TestDestroyMapped(t *testing.T) {
	kerneltest.Need(t)
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	o, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got := c.Destroy([]Socket{named(t, a.(*net.TCPConn))}); got[0] != nil {
		t.Error(got[0])
	}
}

// TestProbe: this kernel can do what the purge needs, and the connection that asks it is gone.
func TestProbe(t *testing.T) {
	kerneltest.Need(t)
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(c.Probe(), c.ProbeOrphans()); err != nil {
		t.Error(err)
	}
	o, err := newOrphan()
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	out, err := exec.Command("ss", "-Htn", "state", "fin-wait-1").Output()
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(out, []byte("\n")); lines != 1 || !bytes.Contains(out, []byte(o.socket.Remote.String())) {
		t.Errorf("not one connection that waits for its peer:\n%s", out)
	}
}

// TestUnanswered: requests without an answer are reported for each socket.
func TestUnanswered(t *testing.T) {
	c := &Conn{fd: -1}
	some := Socket{Local: netip.MustParseAddrPort("192.0.2.1:80"), Remote: netip.MustParseAddrPort("192.0.2.2:80")}
	for i, err := range c.Destroy(slices.Repeat([]Socket{some}, most+1)) {
		if !errors.Is(err, unix.EBADF) {
			t.Errorf("socket %d: %v", i, err)
		}
	}
}
