package router

import (
	"testing"

	"baton/packet"
	"baton/packet/packettest"
)

// A SYN on a live session draws a challenge ACK (RFC 5961, 4), and the RST in response ends the session.
func TestSYNOnALiveSession(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		before := k.splice(1)
		syn := newClient(k, f, f.usual()).syn()
		syn.Seq = 99
		k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000 + 10000})) // our clock is ahead of the surrogate's
		r := k.want(packet.Build(syn), routerVerdictCHALLENGED, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.Src(f.vip),
			packettest.TCP(packettest.Flags(packet.ACK), packettest.Seq(c.ack), packettest.Ack(c.seq)))
		if val, _, ok := r.parsed(t).TCP().Options().Timestamps(); !ok || val != c.tsecr {
			t.Errorf("TSval: got %d, want the newest told, %d: a later one would have the surrogate's next bytes dropped (PAWS)", val, c.tsecr)
		}
		if got := k.splice(1); got.SndNxt != before.SndNxt || got.RcvNxt != before.RcvNxt || State(got.State) != Active {
			t.Errorf("the splice changed: %+v", got)
		}
		// the restarted client knows nothing of the session
		rst := c.packet(packet.RST, "")
		rst.Options, rst.Ack = nil, 0
		k.want(packet.Build(rst), routerVerdictRECYCLED, actShot)
		s.isIdle()
		k.want(packet.Build(syn), routerVerdictSYN_ANSWERED, actRedirect)
	})
}

// An RST ends a session only with exactly the next number. A client's other RST is challenged within the window, else dropped
// (RFC 5961, 3.2); a surrogate's is validated by its client.
func TestRST(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name  string
			off   int
			state State
			end   End
		}{
			{"exact", 0, Dead, ClientReset}, {"in the window", 1, Active, 0}, {"old", -len(plainRequest) - 1, Active, 0},
			{"request lost behind us", -len(plainRequest), Dead, ClientReset},
		} {
			t.Run("client's, "+tc.name, func(t *testing.T) {
				k, c, s := spliced(t, f)
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
				events := k.events()
				p := c.packet(packet.RST, "")
				p.Seq += packet.Seq(tc.off)
				before := k.splice(1)
				switch tc.name {
				case "exact", "request lost behind us":
					r := k.want(packet.Build(p), routerVerdictTO_SERVER, actRedirect)
					packettest.Check(t, r.frame, packettest.Checksums(), packettest.TCP(packettest.Seq(s.ack+packet.Seq(tc.off))))
				case "in the window":
					r := k.want(packet.Build(p), routerVerdictCHALLENGED, actRedirect)
					packettest.Check(t, r.frame, packettest.Checksums(), packettest.Src(f.vip),
						packettest.TCP(packettest.Flags(packet.ACK), packettest.Seq(c.ack), packettest.Ack(packet.Seq(before.SndUna-before.ToServerSeq))))
					k.want(packet.Build(p), routerVerdictDROP_WINDOW, actShot) // once is enough
				default:
					k.want(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
				}
				k.ended(t, f, events, tc.state, tc.end, 2)
			})
			if tc.off < 0 && tc.end != 0 {
				continue
			}
			t.Run("surrogate's, "+tc.name, func(t *testing.T) {
				k, c, s := spliced(t, f)
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
				events := k.events()
				p := s.packet(packet.RST|packet.ACK, "")
				p.Seq += packet.Seq(tc.off)
				r := k.want(packet.Build(p), routerVerdictTO_CLIENT, actRedirect)
				packettest.Check(t, r.frame, packettest.Checksums(), packettest.TCP(packettest.Seq(c.ack+packet.Seq(tc.off))))
				end := tc.end
				if end != 0 {
					end = ServerReset
				}
				k.ended(t, f, events, tc.state, end, 2)
			})
		}
	})
}

// A client that lacks the bytes before a surrogate's RST challenges it (RFC 5961, 3.2), and is reset again.
func TestRSTBehindLostBytes(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect) // lost
		s.send(packet.RST|packet.ACK, "", routerVerdictTO_CLIENT, actRedirect)
		r := k.want(packet.Build(c.packet(packet.ACK, "")), routerVerdictRESET_SENT, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.Src(f.vip),
			packettest.TCP(packettest.Flags(packet.RST), packettest.Seq(c.ack)))
		k.want(packet.Build(c.packet(packet.RST, "")), routerVerdictCONSUMED, actShot)
		next := newClient(k, f, f.usual())
		next.connect(routerVerdictSYN_ANSWERED)
	})
}

// A server that closes with unread bytes sends FIN, and then RST with the FIN's number.
func TestRSTBehindFIN(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		events := k.events()
		s.send(packet.FIN|packet.ACK, "", routerVerdictTO_CLIENT, actRedirect)
		p := s.packet(packet.RST|packet.ACK, "")
		p.Seq--
		k.want(packet.Build(p), routerVerdictTO_CLIENT, actRedirect)
		k.ended(t, f, events, Dead, ServerReset, 2)
	})
}
