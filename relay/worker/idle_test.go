package worker

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// Whoever has taken all places for trunks that wait gives them to others until they have as many; nobody gets more than that.
func TestAdmitTrunk(t *testing.T) {
	cfg, at := defaults(), reservePort(t)
	cfg.Name, cfg.Timeouts.Header = "r1", soon
	cfg.Trunks = &config.Trunks{Listen: []netip.AddrPort{at}, Credentials: secret, Waiting: 4}
	w := run(t, 1, cfg)[0]
	if err := w.ListenTrunks(at, cfg.Trunks); err != nil {
		t.Fatal(err)
	}
	comes := func(from string, welcome bool) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", at.String())
		if !welcome && errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(soon))
		n, err := io.ReadFull(c, make([]byte, trunkproto.HelloSize))
		if got := n == trunkproto.HelloSize; got != welcome {
			t.Fatalf("from %s: welcome: %t, want %t (%v)", from, got, welcome, err)
		}
		return c
	}
	left := make(chan error, 4)
	for range 4 {
		c := comes("127.0.0.2", true)
		go func() {
			_, err := c.Read(make([]byte, 1))
			left <- err
		}()
	}
	comes("127.0.0.2", false)
	for range 2 {
		comes("127.0.0.3", true)
		if err := <-left; err != io.EOF {
			t.Fatalf("one of the crowd: %v, want its end", err)
		}
	}
	comes("127.0.0.3", false)
	comes("127.0.0.2", false)
	comes("127.0.0.4", true)
	comes("127.0.0.4", false) // two, one and one
	if n, full := w.count.Waiting.Load(), w.count.Full.Load(); n != 4 || full != 7 {
		t.Errorf("%d wait, want 4; %d times full, want 7", n, full)
	}
}

func TestNetwork(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "2001:db8:0:1:2::3": "2001:db8:0:1::/64",
	} {
		if got := sourcePrefix(netip.MustParseAddr(a)); got.String() != want {
			t.Errorf("%s: got %v, want %s", a, got, want)
		}
	}
}
