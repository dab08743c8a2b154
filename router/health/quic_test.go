package health

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"baton/router/config"
)

// served answers datagrams with what answer returns, which may be nothing.
func served(t *testing.T, answer func(n int, question []byte) []byte) *net.UDPAddr {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 2048)
		for n := 0; ; n++ {
			size, from, err := c.ReadFromUDP(b)
			if err != nil {
				return
			}
			if a := answer(n, b[:size]); a != nil {
				_, _ = c.WriteToUDP(a, from)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr)
}

// negotiation is a server's answer to a client's ids (RFC 9000, 17.2.1).
func negotiation(destination, source []byte) []byte {
	b := []byte{0x80, 0, 0, 0, 0, byte(len(destination))}
	b = append(append(b, destination...), byte(len(source)))
	return binary.BigEndian.AppendUint32(append(b, source...), 1)
}

func TestQUICCheck(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	t.Cleanup(server.Close)
	l, err := quic.ListenAddr("127.0.0.1:0", server.TLS, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	gone, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	ids := func(question []byte) (destination, source []byte) { return question[6:14], question[15:23] }
	for name, tc := range map[string]struct {
		at   *net.UDPAddr
		fail string // part of why; "" if the server is up
	}{
		"quic-go": {l.Addr().(*net.UDPAddr), ""},
		"nobody":  {gone.LocalAddr().(*net.UDPAddr), "no server at the port"},
		"silence": {served(t, func(int, []byte) []byte { return nil }), "no answer within"},
		"the third question is answered": {served(t, func(n int, q []byte) []byte {
			if d, s := ids(q); n == 2 {
				return negotiation(s, d)
			}
			return nil
		}), ""},
		"an echo":        {served(t, func(_ int, q []byte) []byte { return bytes.Clone(q) }), "no answer within"},
		"ids of another": {served(t, func(_ int, q []byte) []byte { d, s := ids(q); return negotiation(d, s) }), "no answer within"},
		"one that asks for whole datagrams": {served(t, func(_ int, q []byte) []byte {
			if d, s := ids(q); len(q) >= 1200 && q[0]&0xc0 == 0xc0 {
				return negotiation(s, d)
			}
			return nil
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := newQUIC(nil)(t.Context(), Target{Address: tc.at.AddrPort(), Check: &config.Health{Timeout: 600 * time.Millisecond}})
			if (err == nil) != (tc.fail == "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got %v, want %q", err, tc.fail)
			}
		})
	}
}
