package router

import (
	"strings"
	"testing"

	"baton/packet"
)

// Authentication may apply to the connection: the next client would be taken for this one.
func TestBoundLegsAreNotUsedAgain(t *testing.T) {
	with := func(line string) string { return strings.Replace(plainRequest, "\r\n\r\n", "\r\n"+line+"\r\n\r\n", 1) }
	said := func(line string) string {
		return strings.Replace(plainResponse, "200 OK\r\n", "401 Unauthorized\r\n"+line+"\r\n", 1)
	}
	for _, tc := range []struct {
		name, request, response string
		bound                   bool
	}{
		{"NTLM", with("Authorization: NTLM TlRMTVNTUAAB"), plainResponse, true},
		{"Negotiate", with("authorization:Negotiate YII"), plainResponse, true},
		{"NTLM to a proxy", with("Proxy-Authorization: ntlm TlRM"), plainResponse, true},
		{"two blanks", with("Authorization:  Basic eA=="), plainResponse, true},
		{"scheme that is not known", with("Authorization: Basically eA=="), plainResponse, true},
		{"Basic", with("Authorization: Basic eA=="), plainResponse, false},
		{"Digest", with("Authorization: digest username=x"), plainResponse, false},
		{"Bearer", with("AUTHORIZATION: BEARER x"), plainResponse, false},
		{"challenge", plainRequest, said("WWW-Authenticate: NTLM"), true},
		{"challenge among others", plainRequest, said("www-authenticate: Basic realm=x, Negotiate"), true},
		{"challenge of a proxy", plainRequest, said("Proxy-Authenticate: Negotiate"), true},
		{"challenge in a long line", plainRequest, said("WWW-Authenticate: Basic realm=" + strings.Repeat("x", 3000) + ", NTLM"), true},
		{"another field", with("Authority: NTLM"), said("WWW-Authentic: NTLM"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				_, c, s := spliced(t, f)
				exchange(c, s, tc.request, tc.response, routerVerdictTO_SERVER)
				if tc.bound {
					c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect)
					s.inUse()
					return
				}
				s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
				s.isIdle()
			})
		})
	}
}

// The same if user space has parsed the request.
func TestBoundRequestByUpcall(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		k.tap()
		const request = "BREW /a HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM x\r\n\r\n"
		k.want(packet.Build(c.packet(packet.ACK, request)), routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(request)), Bound: true}))
		exchange(c, s, request, plainResponse, routerVerdictTO_SERVER)
		c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect)
		s.inUse()
	})
}

// Which legs a pool's requests take.
func TestReuse(t *testing.T) {
	used := func(s *routerSplice) { s.Band = BandNearest }
	fresh := func(s *routerSplice) { s.Band = BandFresh }
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			reuse           Reuse
			first, recycled bool // a client's first request gets a used leg; its leg is reused
		}{{ReuseAlways, true, true}, {ReuseSafe, false, true}, {ReuseNever, false, false}} {
			k := newRig(t)
			k.tap()
			k.vip(f)
			k.must(k.SetPool(1, Pool{Policy: RoundRobin, Table: []uint16{1}, Reuse: tc.reuse}))
			one := k.idle(1, f, used)
			c := newClient(k, f, f.usual())
			c.connect(routerVerdictSYN_ANSWERED)
			if !tc.first {
				k.want(packet.Build(c.packet(packet.ACK, plainRequest)), routerVerdictUPCALL, actRedirect)
				k.must(k.maps.Clients.Delete(tuple(f.client, f.vip)))
				one = k.idle(2, f, fresh)
			}
			exchange(c, one, plainRequest, plainResponse, routerVerdictHANDOFF)
			verdict := routerVerdictTO_SERVER
			if tc.recycled {
				verdict = routerVerdictRECYCLED
			}
			c.send(packet.ACK|packet.FIN, "", verdict, actRedirect)
			if got := State(k.splice(one.number).State) == Idle; got != tc.recycled {
				t.Errorf("%v: used again: %t, want %t", tc.reuse, got, tc.recycled)
			}
		}
	})
}

// A request that moves its client gets a used leg with safe, and none with never.
func TestReuseOfMovedClients(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for reuse, moves := range map[Reuse]bool{ReuseAlways: true, ReuseSafe: true, ReuseNever: false} {
			k, c, _, two := twoPools(t, f)
			k.tap()
			k.must(k.SetPool(2, Pool{Policy: RoundRobin, Table: []uint16{2}, Reuse: reuse}))
			k.queued(2, f.class())
			k.aged(2, 0, func(s *routerSplice) { s.Band = BandNearest })
			k.must(k.putIdle(2, f.class(), 2))
			if moves {
				two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
			} else {
				c.send(packet.ACK, otherRequest, routerVerdictUPCALL, actRedirect)
			}
		}
	})
}
