package router

import (
	"fmt"
	"strings"
	"testing"

	"baton/packet"
)

// The rules of docs/handoff.md that matter only in hostile or unlucky sequences.

// SentOnce: a request that the surrogate dropped (its timestamp is too old) is retransmitted with other contents, two requests.
// The second response must not reach the next client.
func TestRuleSentOnce(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		two := plainRequest + plainRequest
		head := "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: %02d\r\n\r\n"
		body := len(two) - len(fmt.Sprintf(head, 0))
		forged := c.packet(packet.ACK|packet.PSH, fmt.Sprintf(head, body)+strings.Repeat("x", body))
		forged.Options = packet.Options{}.AppendNOP(2).AppendTimestamps(c.tsval-1000, c.tsecr)
		k.want(packet.Build(forged), routerVerdictTO_SERVER, actRedirect)
		s.takes(c.send(packet.ACK|packet.PSH, two, routerVerdictTO_SERVER, actRedirect))
		c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect)
		s.inUse()
	})
}

// FinAhead: the surrogate keeps a FIN that arrives before lost bytes, and would end the next client's session with it.
func TestRuleFinAhead(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		p := c.packet(packet.ACK|packet.FIN, "")
		p.Seq += 100
		k.want(packet.Build(p), routerVerdictDROP_EARLY, actShot)
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		s.isIdle()
	})
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		p := c.packet(packet.ACK|packet.FIN, "")
		p.Seq += 100
		k.want(packet.Build(p), routerVerdictTO_SERVER, actRedirect)
		if got := k.splice(1); State(got.State) != Closing || routerFraming(got.Request) != routerFramingFRAMING_OPAQUE {
			t.Errorf("splice: %+v", got)
		}
		c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect)
		s.inUse()
	})
}

// AckFloor: bytes that a surrogate sends before it has received any of the request are not its response. The client's
// retransmission is routed again.
func TestRuleAckFloor(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		next := newClient(k, f, f.usual())
		next.connect(routerVerdictSYN_ANSWERED)
		unsolicited := s.packet(packet.ACK|packet.PSH, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
		next.send(packet.ACK|packet.PSH, plainRequest, routerVerdictHANDOFF, actRedirect)
		k.want(packet.Build(unsolicited), routerVerdictRESET_SENT, actRedirect)
		if got := State(k.splice(1).State); got != Dead {
			t.Errorf("state: got %v, want %v", got, Dead)
		}
		if fl, ok := k.flow(f.client, f.vip); ok {
			t.Errorf("the client's flow: %+v", fl)
		}
	})
}

// Linger: a late duplicate of a first segment still matches the cookie, but its session is over.
func TestRuleLinger(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		first := packet.Build(c.packet(packet.ACK, plainRequest))
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		c.send(packet.ACK, "", routerVerdictCONSUMED, actShot)
		k.want(first, routerVerdictRESET_SENT, actRedirect)
		s.isIdle()
	})
}
