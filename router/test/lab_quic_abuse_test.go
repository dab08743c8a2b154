package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
	"baton/packet/quic"
	"baton/packet/quic/quictest"
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

// TestQUICMovedFlood: a flood with a connection's id from many ports keeps away neither new clients nor the
// connection's client when it moves.
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

// helloFor makes the TLS hello of a client.
func helloFor(t *testing.T, name string) []byte {
	t.Helper()
	c := tls.QUICClient(&tls.QUICConfig{TLSConfig: &tls.Config{
		ServerName: name, NextProtos: []string{quicProtocol}, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519}, // else the hello does not fit into a datagram
	}})
	t.Cleanup(func() { c.Close() })
	c.SetTransportParameters(nil)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		switch e := c.NextEvent(); e.Kind {
		case tls.QUICWriteData:
			return e.Data
		case tls.QUICNoEvent:
			t.Fatal("no hello")
		}
	}
}

// TestQUICAfterNegotiation: after Version Negotiation a client is routed by its name, also if it keeps its connection
// id, as aioquic does.
func TestQUICAfterNegotiation(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
	config := n.quicConfig(vip, false, "", a, b)
	const first = "      - {match: {sni: a.test}"
	r := n.start(strings.Replace(config, first, "      - {match: {no_sni: true}, pool: b4}\n"+first, 1))
	defer r.endQUIC()
	c := n.quicClient(ca, true)
	to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(vip))
	const id = "clients!"
	unknown := append([]byte{0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8}, id+"\x04mine"...)
	hello := &quictest.Client{Version: quic.Version1, Destination: []byte(id)}
	initial := hello.Initial(0, quictest.Crypto(0, helloFor(t, "a.test")), 1200)
	if _, err := c.socket.WriteTo(append(unknown, make([]byte, 1200)...), to); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.socket.in: // Version Negotiation
	case <-deadline(t).Done():
		t.Fatal("no answer")
	}
	if _, err := c.socket.WriteTo(initial, to); err != nil {
		t.Fatal(err)
	}
	if err := lab.Poll(answersWithin, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		out, err := n.baton(ctx, "router", "sessions", "--control", r.socket, "-o", "json")
		if err != nil || !strings.Contains(out, `"surrogate":"a4"`) || strings.Contains(out, `"surrogate":"b4"`) {
			return fmt.Errorf("sessions: %v\n%s", err, out)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if q := r.status().QUIC; q.Sessions != 1 || q.Made != 2 || len(q.Refused) != 0 {
		t.Errorf("%+v", q)
	}
}
