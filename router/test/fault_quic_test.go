package test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"baton/lab"
	"baton/lab/peers"
	"baton/packet/quic"
	"baton/packet/quic/quictest"
)

// TestQUICFlood: a prefix that begins hellos and never ends them, and sends what cannot be opened, keeps clients elsewhere from nothing.
func TestQUICFlood(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	flooder, end := n.clientHost("flooder", lab.LinkOptions{})
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
	front := n.front.Name
	n.front.Name += ", " + end.Name
	config := n.quicConfig(vip, false, "", a, b)
	n.front.Name = front
	r := n.start(config)
	defer r.endQUIC()

	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		sent := 0
		defer func() { stopped <- sent }()
		to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(vip))
		half := quictest.Crypto(0, append([]byte{1, 0, 6, 0}, make([]byte, 700)...))
		var sockets []net.PacketConn
		for range 50 {
			c, err := flooder.ListenPacket("udp", ":0")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			sockets = append(sockets, c)
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := quictest.Client{Version: quic.Version1, Destination: binary.BigEndian.AppendUint64(nil, uint64(sent)+1<<40)}
			datagram := c.Initial(0, half, 1200)
			if sent%2 == 0 {
				datagram[1000] ^= 1
			}
			if _, err := sockets[sent%len(sockets)].WriteTo(datagram, to); err != nil {
				t.Error(err)
				return
			}
			sent++
		}
	}()
	const dials = 50
	for range dials {
		c := n.quicClient(ca, false)
		conn := c.dial(t, vip, "a.test", nil)
		if surrogate, _ := fetchQUIC(t, conn, 100); surrogate != "a" {
			t.Errorf("answered by %q", surrogate)
		}
		conn.CloseWithError(0, "")
	}
	close(stop)
	sent := <-stopped
	q := r.status().QUIC
	if sent < 5000 || q.Refused["crowded"] == 0 || q.Refused["forged"] == 0 || q.Made != dials || q.Sessions > dials || q.Held > 64 {
		t.Errorf("%d datagrams of the flood: %+v", sent, q)
	}
	t.Logf("%d datagrams of the flood, %d beyond its rate, %d refused as crowded, %d as forged", sent, q.Packets["drop_rate"], q.Refused["crowded"], q.Refused["forged"])
}
