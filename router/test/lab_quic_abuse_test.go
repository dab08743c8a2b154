package test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// sniffed is a socket that remembers the connection id of the last short header.
type sniffed struct {
	net.PacketConn
	id chan []byte
}

func (s *sniffed) WriteTo(b []byte, to net.Addr) (int, error) {
	if b[0]&0x80 == 0 && len(b) > 9 {
		select {
		case <-s.id:
		default:
		}
		s.id <- bytes.Clone(b[1:9])
	}
	return s.PacketConn.WriteTo(b, to)
}

// TestQUICMovedFlood: one who sends a connection's id from everywhere neither keeps new clients away, nor one who
// really moves.
func TestQUICMovedFlood(t *testing.T) {
	t.Parallel() // judges by results
	const (
		vip      = "10.9.9.9:443"
		sessions = 128
	)
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{ids: eightBytes("")}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{ids: eightBytes("")}, "x.b.test")
	r := n.start(fmt.Sprintf("limits: {sessions: %d}\n", sessions) + n.quicConfig(vip, false, "", a, b))
	defer r.endQUIC()
	c := n.quicClient(ca, true)
	socket := &sniffed{c.socket, make(chan []byte, 1)}
	c.transport.Conn = socket
	conn := c.dial(t, vip, "a.test", nil)
	fetchQUIC(t, conn, 100)
	id := <-socket.id

	to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(vip))
	flood := func() {
		t.Helper()
		for range 3 * sessions {
			s := c.open()
			_, err := s.WriteTo(append(append([]byte{0x40}, id...), "not for the surrogate"...), to)
			s.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
		// the upcalls are taken in order
		if surrogate, _ := fetchQUIC(t, n.quicClient(ca, false).dial(t, vip, "x.b.test", nil), 100); surrogate != "b" {
			t.Errorf("a new client is answered by %q", surrogate)
		}
	}
	flood()
	q := r.status().QUIC
	// numbers are used again after a second, and hellos have the rest
	if q.Sessions > 2+4 || q.MovedEvicted["connection"] < q.Moved-4 || q.Moved+q.Refused["sessions_full"] != 3*sessions {
		t.Errorf("after the flood: %+v", q)
	}
	c.move()
	fetchQUIC(t, conn, 1<<20)
	flood()
	before := r.status().QUIC.Moved
	if surrogate, _ := fetchQUIC(t, conn, 1<<20); surrogate != "a" {
		t.Errorf("the client that has moved is answered by %q", surrogate)
	}
	if q := r.status().QUIC; q.Moved != before {
		t.Errorf("the flood has ended the session of the client that has moved: %+v", q)
	}
}
