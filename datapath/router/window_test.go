package router

import (
	"fmt"
	"testing"

	"baton/datapath"
	"baton/packet"
	"baton/packet/packettest"
)

// idleWindow is the window advertised on an idle leg, in bytes: IDLE_WINDOW of the kernel program.
const idleWindow = 4096

// A surrogate must not fill one client's window for the next, whose window is smaller. It accepts a smaller window only with a
// new acknowledgement, such as the recycling's ACK, or from a later sequence number.
func TestWindowOfTheNextClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, acked := range []bool{false, true} { // the whole response, before the FIN
			k, c, s := spliced(t, f)
			s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
			c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
			if acked {
				s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
			}
			r := c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect)
			s.takes(r)
			packettest.Check(t, r.frame, packettest.TCP(packettest.Window(idleWindow>>OurWscale)))

			k.ifindex = k.link(fmt.Sprintf("window%t", acked))
			w := k.capture(k.ifindex)
			leg := k.splice(1)
			leg.ToServer.Ifindex = k.ifindex
			k.put(1, *leg)
			next := newClient(k, f, f.usual())
			next.f.client = datapath.AddrPort(f.client.Addr().As16(), datapath.BigEndian(f.client.Port()+1))
			next.connect(routerVerdictSYN_ANSWERED)
			p := next.packet(packet.ACK, plainRequest)
			p.Window = 100
			r = k.want(packet.Build(p), routerVerdictHANDOFF, actRedirect)
			told := k.splice(1).WindowSent
			if told == 0 {
				t.Fatal("no window was told")
			}
			if !acked { // the recycling's ACK was new: the request's own window counts
				packettest.Check(t, r.frame, packettest.Payload([]byte(plainRequest)), packettest.TCP(packettest.Window(told)))
				continue
			}
			packettest.Check(t, w.next().Bytes, packettest.Payload([]byte(plainRequest)),
				packettest.TCP(packettest.Seq(s.ack), packettest.Window(told)))
			packettest.Check(t, r.frame, packettest.Payload(nil), packettest.Checksums(), packettest.TCP(packettest.Flags(packet.ACK),
				packettest.Seq(s.ack+packet.Seq(len(plainRequest))), packettest.Ack(s.seq), packettest.Window(told)))
		}
	})
}
