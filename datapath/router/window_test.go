package router

import (
	"testing"

	"baton/datapath"
	"baton/packet"
	"baton/packet/packettest"
)

// idleWindow is the window advertised on an idle leg, in bytes: IDLE_WINDOW of the kernel program.
const idleWindow = 4096

// A surrogate must not fill one client's window for the next, whose window is smaller. It accepts a smaller window only with a
// new acknowledgement, or from a later sequence number.
func TestWindowOfTheNextClient(t *testing.T) {
	narrow := packettest.TCP(packettest.Window(idleWindow >> OurWscale))
	answered := func(c *client, s *surrogate) {
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	}
	acks := func(c *client, s *surrogate) {
		r := c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect)
		s.takes(r)
		packettest.Check(c.k.t, r.frame, narrow)
	}
	for _, it := range []struct {
		name  string
		ends  func(c *client, s *surrogate)
		widen bool // the next client's window follows its request
	}{
		{"the FIN acknowledges the response", answered, false},
		{"an ACK, then the FIN", func(c *client, s *surrogate) { answered(c, s); acks(c, s) }, false},
		{"an ACK, a window, then the FIN", func(c *client, s *surrogate) { answered(c, s); acks(c, s); acks(c, s) }, false},
		{"an ACK before that of the request, then the FIN", func(c *client, s *surrogate) {
			s.ack--
			answered(c, s)
			s.ack++
			s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
			c.takes(s.send(packet.ACK, "", routerVerdictTO_CLIENT, actRedirect))
		}, true},
	} {
		t.Run(it.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				k, c, s := spliced(t, f)
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
				it.ends(c, s)
				r := c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect)
				s.takes(r)
				packettest.Check(t, r.frame, narrow)
				k.windowOfNext(f, s, it.widen)
			})
		})
	}
}

// windowOfNext has another client of the idle leg ask, with a small window. widen: its window follows its request, in a packet of its own.
func (k *rig) windowOfNext(f family, s *surrogate, widen bool) {
	k.t.Helper()
	k.ifindex = k.link("window")
	w := k.capture(k.ifindex)
	leg := k.splice(1)
	leg.ToServer.Ifindex = k.ifindex
	k.put(1, *leg)
	next := newClient(k, f, f.usual())
	next.f.client = datapath.AddrPort(f.client.Addr().As16(), datapath.BigEndian(f.client.Port()+1))
	next.connect(routerVerdictSYN_ANSWERED)
	p := next.packet(packet.ACK, plainRequest)
	p.Window = 100
	r := k.want(packet.Build(p), routerVerdictHANDOFF, actRedirect)
	told := k.splice(1).WindowSent
	if told == 0 {
		k.t.Fatal("no window was told")
	}
	if !widen {
		packettest.Check(k.t, r.frame, packettest.Payload([]byte(plainRequest)), packettest.TCP(packettest.Window(told)))
		return
	}
	packettest.Check(k.t, w.next().Bytes, packettest.Payload([]byte(plainRequest)),
		packettest.TCP(packettest.Seq(s.ack), packettest.Window(told)))
	packettest.Check(k.t, r.frame, packettest.Payload(nil), packettest.Checksums(), packettest.TCP(packettest.Flags(packet.ACK),
		packettest.Seq(s.ack+packet.Seq(len(plainRequest))), packettest.Ack(s.seq), packettest.Window(told)))
}
