package sockdiag

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestFindTCP: a connection is found in whatever state, the listener when there is no connection, and nothing where nobody listens.
func TestFindTCP(t *testing.T) {
	c := open(t)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		o, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		local, remote := l.Addr().(*net.TCPAddr).AddrPort(), o.LocalAddr().(*net.TCPAddr).AddrPort()
		got, err := c.FindTCP(local, remote)
		if err != nil || got.State != Established || got.Socket != named(t, a.(*net.TCPConn)) {
			t.Errorf("%s: %+v, %v, want the connection", address, got, err)
		}
		a.Close() // first, so that it is the one that waits
		o.Close()
		for end := time.Now().Add(10 * time.Second); got.State != TimeWait && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if got, err = c.FindTCP(local, remote); err != nil {
				t.Fatal(err)
			}
		}
		if got.State != TimeWait {
			t.Errorf("%s: %+v, want one in TIME_WAIT", address, got)
		}
		if errs := c.Destroy([]Socket{got.Socket}); errs[0] != nil {
			t.Errorf("%s: %v", address, errs[0])
		}
		if got, err = c.FindTCP(local, remote); err != nil || got.State != Listen {
			t.Errorf("%s: %+v, %v, want the listener", address, got, err)
		}
		l.Close()
		if got, err = c.FindTCP(local, netip.AddrPortFrom(remote.Addr(), remote.Port())); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %+v, %v, want none", address, got, err)
		}
	}
}

func TestParseFound(t *testing.T) {
	request := appendSocket(appendHeader(nil, requestSize, sockDiagByFamily, 0, 7), Socket{
		Local: netip.MustParseAddrPort("192.0.2.1:80"), Remote: netip.MustParseAddrPort("192.0.2.2:80"),
	})
	for name, b := range map[string][]byte{"cut": request[:20], "no socket": appendHeader(nil, 0, sockDiagByFamily, 0, 7), "another kind": appendHeader(nil, 0, 99, 0, 7)} {
		if _, found, err := parseFound(b, 7); found || err == nil {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
	}
	if _, found, err := parseFound(appendHeader(nil, 0, sockDiagByFamily, 0, 6), 7); found || err != nil {
		t.Errorf("an answer to an earlier question: found %v, %v", found, err)
	}
}
