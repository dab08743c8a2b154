package router

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
	"baton/packet/packettest"
)

// Packets of off-path attackers, and packets of a client or a surrogate that are not part of the session.

// unchanged requires that a packet does not change the session.
func (k *rig) unchanged(frame []byte, verdict routerVerdict, action uint32) result {
	k.t.Helper()
	before := k.splice(1)
	r := k.want(frame, verdict, action)
	after := k.splice(1)
	before.Challenged, before.Seen = after.Challenged, after.Seen
	if *after != *before {
		k.t.Errorf("%v: the session was\n%+v\nand is\n%+v", Verdict(verdict), before, after)
	}
	return r
}

// Rule NoUrgent: flag and pointer are cleared in every packet, in both directions, also if only the pointer is set.
func TestUrgentDataIsNone(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		_, c, s := spliced(t, f)
		for _, flags := range []packet.Flags{packet.ACK | packet.URG, packet.ACK} {
			for _, payload := range []string{"", plainRequest} {
				k, c, s := spliced(t, f)
				p := c.packet(flags, payload)
				p.Urgent = 5
				r := k.want(packet.Build(p), routerVerdictTO_SERVER, actRedirect)
				packettest.Check(t, r.frame, packettest.TCP(packettest.Flags(packet.ACK), packettest.Urgent(0)), packettest.Payload([]byte(payload)))
				s.takes(r)
			}
		}
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		p := s.packet(packet.ACK|packet.URG, plainResponse)
		p.Urgent = 1
		r := s.k.want(packet.Build(p), routerVerdictTO_CLIENT, actRedirect)
		packettest.Check(t, r.frame, packettest.TCP(packettest.Flags(packet.ACK), packettest.Urgent(0)))
		c.takes(r)
	})
}

// Rule Window: packets outside the window have no effect.
func TestOutsideTheWindow(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for name, state := range map[string]func(c *client, s *surrogate){
			"quiet": func(*client, *surrogate) {},
			"request on its way": func(c *client, s *surrogate) {
				c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect)
			},
			"response on its way": func(c *client, s *surrogate) { halfAnswered(c, s) },
		} {
			t.Run(name, func(t *testing.T) {
				k, c, s := spliced(t, f)
				state(c, s)
				for _, flags := range []packet.Flags{packet.ACK, packet.ACK | packet.FIN, packet.RST, packet.RST | packet.ACK, packet.ACK | packet.PSH} {
					for _, payload := range []string{"", "x", plainRequest} {
						for _, off := range []packet.Seq{testWindow + 1000, 1 << 31, 1<<31 - 1, 1<<32 - testWindow - 1000} {
							p := c.packet(flags, payload)
							p.Seq += off
							k.unchanged(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
							if flags.Has(packet.RST) {
								continue
							}
							p = c.packet(flags, payload)
							p.Ack += off
							k.unchanged(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
							p = s.packet(flags, payload)
							p.Seq += off
							k.unchanged(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
						}
					}
				}
			})
		}
	})
}

// halfAnswered returns a session with half a response in flight.
func halfAnswered(c *client, s *surrogate) {
	s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
	s.send(packet.ACK, plainResponse[:len(plainResponse)-1], routerVerdictTO_CLIENT, actRedirect)
}

// An idle leg is checked like one with a client: packets outside its window do not end it.
func TestOutsideTheWindowOfAnIdleLeg(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		for _, flags := range []packet.Flags{packet.ACK, packet.ACK | packet.FIN, packet.RST} {
			p := s.packet(flags, "x")
			p.Seq += 1 << 31
			k.unchanged(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
			p = s.packet(flags&^packet.RST|packet.ACK, "x")
			p.Ack += 1
			k.unchanged(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
		}
	})
}

// Keepalives, retransmissions and zero window probes are part of a session.
func TestWithinTheWindow(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _ := spliced(t, f)
		for _, tc := range []struct {
			name    string
			off     packet.Seq
			payload string
		}{{"keepalive", 1<<32 - 1, ""}, {"keepalive with a byte", 1<<32 - 1, "x"}, {"repeated request", ^packet.Seq(len(plainRequest)) + 1, plainRequest}} {
			p := c.packet(packet.ACK, tc.payload)
			p.Seq += tc.off
			k.want(packet.Build(p), routerVerdictTO_SERVER, actRedirect)
		}
		k.tap()
		k.aged(1, 0, func(s *routerSplice) { s.SndEdge = s.SndNxt })
		c.send(packet.ACK, plainRequest[:1], routerVerdictUPCALL, actRedirect) // a probe of a window that is closed
	})
}

// A challenge ACK confirms nothing unknown to a spoofed SYN's sender: it reports only what the surrogate has acknowledged.
func TestChallengeAcknowledgesWhatIsThere(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _ := spliced(t, f)
		una := c.seq
		c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect) // and may be lost
		syn := newClient(k, f, f.usual()).syn()
		r := k.unchanged(packet.Build(syn), routerVerdictCHALLENGED, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.TCP(packettest.Flags(packet.ACK), packettest.Ack(una)))
		k.unchanged(packet.Build(syn), routerVerdictDROP_WINDOW, actShot) // not so soon again
		syn.Checksum = packet.SumWrong
		k.unchanged(packet.Build(syn), routerVerdictDROP_BAD_CHECKSUM, actShot)
	})
}

// Rule TimeEchoed: the surrogate may or may not have accepted a timestamp that is far ahead.
func TestTimestampFarAhead(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name    string
			ahead   uint32
			echoed  bool
			recycle bool
		}{
			{"an hour", 3600_000, false, true},
			{"13 days", 13 * 24 * 3600_000, false, false},
			{"13 days, in two steps", 13 * 24 * 1800_000, false, false},
			{"two times 10 days, echoed", 10 * 24 * 3600_000, true, false},
			{"two times 5 days, echoed", 5 * 24 * 3600_000, true, true},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k, c, s := spliced(t, f)
				c.tsval += tc.ahead
				s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
				if tc.echoed {
					k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect)
				}
				if tc.ahead > 3600_000 && tc.ahead < 12*24*3600_000 {
					c.tsval += tc.ahead
					s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
				}
				if !tc.recycle {
					c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect)
					s.inUse()
					return
				}
				s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
				s.isIdle()
			})
		}
	})
}

// Rule WindowLast: a surrogate ignores the window of a packet that begins before the one whose window it last accepted. A client
// that has advertised one ahead of its bytes leaves a leg on which the next client's windows are ignored.
func TestWindowSentAhead(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, flags := range []packet.Flags{packet.ACK | packet.FIN, packet.RST} {
			k, c, s := spliced(t, f)
			ahead := c.packet(packet.ACK, "")
			ahead.Seq, ahead.Window = ahead.Seq+1000, 0
			k.want(packet.Build(ahead), routerVerdictTO_SERVER, actRedirect) // as if bytes before it were late
			c.send(flags, "", routerVerdictTO_SERVER, actRedirect)
			s.inUse()
		}
		k, c, s := spliced(t, f) // and if they arrive, all is well
		late := c.packet(packet.ACK, plainRequest)
		ahead := c.packet(packet.ACK, "")
		ahead.Seq += packet.Seq(len(plainRequest))
		k.want(packet.Build(ahead), routerVerdictTO_SERVER, actRedirect)
		s.takes(k.want(packet.Build(late), routerVerdictTO_SERVER, actRedirect))
		c.seq += packet.Seq(len(plainRequest))
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		s.isIdle()
	})
}

// A blind ACK with another timestamp has no effect on a client's clock.
func TestBlindTimestamp(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _ := spliced(t, f)
		p := c.packet(packet.ACK, "")
		p.Seq += 1 << 30
		p.Options = packet.Options{}.AppendNOP(2).AppendTimestamps(c.tsval+1<<29, c.tsecr)
		k.unchanged(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
	})
}

// Nobody else overwrites or removes the SYN options of a client without timestamps.
func TestSynOptionsBelongToTheClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		promised := packet.Options{}.AppendMSS(f.mss).AppendNOP(1).AppendWindowScale(9)
		for name, blind := range map[string]func(c *client) packet.Spec{
			"SYN without options": func(c *client) packet.Spec { s := c.syn(); s.Seq, s.Options = 77, nil; return s },
			"SYN with others":     func(c *client) packet.Spec { s := c.syn(); s.Seq, s.Options = 78, bareOptions; return s },
			"RST":                 func(c *client) packet.Spec { return c.packet(packet.RST, "") },
		} {
			t.Run(name, func(t *testing.T) {
				k := newRig(t)
				k.vip(f)
				s := k.idle(1, f, func(s *routerSplice) { s.LegClass = f.class() &^ 1; s.Flags &^= uint32(routerSpliceFlagSPLICE_TS) })
				c := newClient(k, f, promised)
				c.connect(routerVerdictSYN_ANSWERED)
				k.run(packet.Build(blind(c)))
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
				if got := k.splice(1); got.ClientShift != 9 || got.Flags&uint32(routerSpliceFlagSPLICE_CLIENT_WSCALE) == 0 {
					t.Errorf("window shift of the client: got %d, want 9", got.ClientShift)
				}
			})
		}
	})
}

// During an upcall, no RST makes the client forgotten: user space, which knows what has come, gets those that are near.
func TestBlindRSTDuringAnUpcall(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.tap()
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		c.send(packet.ACK, "BREW / HTTP/1.1\r\n", routerVerdictUPCALL, actRedirect)
		p := c.packet(packet.RST, "")
		p.Seq += 1 << 20
		k.want(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
		k.want(packet.Build(newClient(k, f, bareOptions).syn()), routerVerdictSYN_ANSWERED, actRedirect)
		if _, ok := k.pending(f.client, f.vip); !ok {
			t.Error("the client is forgotten")
		}
		p = c.packet(packet.RST|packet.ACK, "")
		k.want(packet.Build(p), routerVerdictUPCALL, actRedirect)
		p.Ack--
		k.want(packet.Build(p), routerVerdictDROP_WINDOW, actShot)
		k.want(packet.Build(c.packet(packet.RST, "")), routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(f.client, f.vip, c.seq-packet.Seq(len("BREW / HTTP/1.1\r\n")), Decision{Surrogate: 1, Pool: 1}))
		k.want(packet.Build(c.packet(packet.RST, "")), routerVerdictCONSUMED, actShot)
		if _, ok := k.pending(f.client, f.vip); ok {
			t.Error("the client's own RST is not believed once its request is decided")
		}
	})
}

// A SYN removes no flow before its checksum is verified.
func TestBlindSYNOnAnEndedSession(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		syn := newClient(k, f, f.usual()).syn()
		for _, change := range []func(*packet.Spec){
			func(p *packet.Spec) { p.Checksum = packet.SumWrong },
			func(p *packet.Spec) { p.Flags |= packet.FIN },
			func(p *packet.Spec) { p.Flags |= packet.RST },
		} {
			p := syn
			change(&p)
			k.run(packet.Build(p))
			if fl, ok := k.flow(f.client, f.vip); !ok || routerSide(fl.Side) != routerSideSIDE_LINGER {
				t.Fatalf("%v: the client's flow: %+v, %t", p.Flags, fl, ok)
			}
		}
	})
}

// Packets with a wrong checksum draw no reply.
func TestWrongChecksumHasNoAnswer(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		other := newClient(k, f.nth(9), f.usual())
		other.connect(routerVerdictSYN_ANSWERED)
		stranger := newClient(k, f.nth(10), f.usual())
		keepalive := other.packet(packet.ACK, "")
		keepalive.Seq--
		for _, p := range []packet.Spec{
			c.packet(packet.ACK|packet.FIN, ""), c.packet(packet.ACK, plainRequest), // ended
			keepalive, other.packet(packet.ACK|packet.FIN, ""), other.packet(packet.ACK, plainRequest),
			stranger.packet(packet.ACK, ""), stranger.packet(packet.ACK, "x"),
		} {
			p.Checksum = packet.SumWrong
			k.want(packet.Build(p), routerVerdictDROP_BAD_CHECKSUM, actShot)
		}
	})
}

// While a client moves, a spoofed SYN does not remove its flow.
func TestBlindSYNDuringAMove(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, _, _, _ := twoPools(t, f)
		k.aged(1, 0, func(s *routerSplice) { s.Client = routerTuple{}; s.State = uint8(Idle) }) // has left this leg; a stale flow lookup
		k.want(packet.Build(newClient(k, f, f.usual()).syn()), routerVerdictDROP_STALE, actShot)
		if fl, ok := k.flow(f.client, f.vip); !ok || routerSide(fl.Side) != routerSideSIDE_CLIENT {
			t.Errorf("the client's flow: %+v, %t", fl, ok)
		}
	})
}

// A local socket has the session: it handles the SYN, and its flow stays.
func TestSYNWhereNoSocketIs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		local := localFlow(1)
		k.must(k.maps.Flows.Update(tuple(f.client, f.vip), local, ebpf.UpdateAny))
		syn := newClient(k, f, f.usual()).syn()
		syn.Checksum = packet.SumWrong
		k.want(packet.Build(syn), routerVerdictDROP_BAD_CHECKSUM, actShot)
		if _, ok := k.flow(f.client, f.vip); !ok {
			t.Error("a SYN with a wrong checksum took the flow away")
		}
		syn.Checksum = packet.SumComplete
		k.want(packet.Build(syn), routerVerdictSYN_ANSWERED, actRedirect) // the socket is gone
	})
}

// Until the host has created the socket, a spoofed RST does not make it forgotten; the client's RST does.
func TestBlindRSTBeforeTheSocketIs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		c := newClient(k, f, f.usual())
		key := tuple(f.client, f.vip)
		k.must(k.maps.Flows.Update(key, localFlow(1), ebpf.UpdateAny))
		k.must(k.maps.Clients.Update(key, &routerClient{State: uint8(routerClientStateCLIENT_LOCAL), Seq: uint32(c.seq), Since: datapath.Clock()}, ebpf.UpdateAny))
		for _, tt := range []struct {
			name    string
			change  func(*packet.Spec)
			verdict routerVerdict
			stays   bool
		}{
			{"a stranger's", func(p *packet.Spec) { p.Seq += 1 << 20 }, routerVerdictDROP_WINDOW, true},
			{"wrong checksum", func(p *packet.Spec) { p.Checksum = packet.SumWrong }, routerVerdictDROP_BAD_CHECKSUM, true},
			{"the client's", func(*packet.Spec) {}, routerVerdictCONSUMED, false},
		} {
			p := c.packet(packet.RST, "")
			tt.change(&p)
			k.want(packet.Build(p), tt.verdict, actShot)
			_, flow := k.flow(f.client, f.vip)
			var known routerClient
			if client := k.maps.Clients.Lookup(key, &known) == nil; client != tt.stays || flow != tt.stays {
				t.Errorf("%s: client known %t, flow %t, want %t", tt.name, client, flow, tt.stays)
			}
		}
	})
}

// An RST with data ends its session, too: its leg is not leaked.
func TestRSTWithData(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		events := k.events()
		p := c.packet(packet.RST|packet.ACK, "x")
		p.Checksum = packet.SumWrong
		k.unchanged(packet.Build(p), routerVerdictDROP_BAD_CHECKSUM, actShot)
		p.Checksum = packet.SumComplete
		k.want(packet.Build(p), routerVerdictTO_SERVER, actRedirect)
		k.ended(t, f, events, Dead, ClientReset, 2)
	})
}

// A packet that the surrogate would drop joins no client to a leg.
func TestRequestWithAWrongChecksum(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		for _, request := range []string{plainRequest, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + string(bytes.Repeat([]byte("x"), 999))} {
			p := c.packet(packet.ACK, request)
			p.Checksum = packet.SumWrong
			k.unchanged(packet.Build(p), routerVerdictDROP_BAD_CHECKSUM, actShot)
		}
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		p := c.packet(packet.ACK, plainRequest)
		p.Checksum = packet.SumWrong
		k.unchanged(packet.Build(p), routerVerdictDROP_BAD_CHECKSUM, actShot)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		answer := s.packet(packet.ACK, plainResponse) // its head affects the leg
		answer.Checksum = packet.SumWrong
		k.unchanged(packet.Build(answer), routerVerdictDROP_BAD_CHECKSUM, actShot)
	})
}

// A surrogate's packets are accepted only from its routes.
func TestSurrogatesInterface(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		elsewhere := k.link("stranger0")
		k.ifindex = elsewhere
		for _, flags := range []packet.Flags{packet.ACK, packet.ACK | packet.FIN, packet.RST, packet.SYN | packet.ACK} {
			k.unchanged(packet.Build(s.packet(flags, "x")), routerVerdictDROP_INTERFACE, actShot)
		}
		k.must(k.SetPaths(2, []int{int(elsewhere)}))
		k.unchanged(packet.Build(s.packet(packet.ACK, "x")), routerVerdictDROP_INTERFACE, actShot)
		k.must(k.SetPaths(1, []int{int(elsewhere)})) // another next hop of the route
		s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect)
		k.must(k.SetPaths(1, nil))
		k.unchanged(packet.Build(s.packet(packet.ACK, "x")), routerVerdictDROP_INTERFACE, actShot)
	})
}

// An unsolicited response is not the response to the request of a client that has moved there: its session ends.
func TestUnsolicitedResponseToAMovedClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _, two := twoPools(t, f)
		events := k.events()
		unsolicited := two.packet(packet.ACK, plainResponse)
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
		k.want(packet.Build(unsolicited), routerVerdictRESET_SENT, actRedirect)
		events.want(Event{End: Cut, Class: f.class(), Surrogate: 2, Splice: 2, Requests: 1})
		if got := State(k.splice(2).State); got != Dead {
			t.Errorf("state: got %v, want %v", got, Dead)
		}
		r := k.want(packet.Build(c.packet(packet.ACK, "")), routerVerdictRESET_SENT, actRedirect)
		packettest.Check(t, r.frame, packettest.Src(f.vip), packettest.TCP(packettest.Flags(packet.RST)))
	})
}

// inVLAN adds a tag; VLAN 0 is a priority tag.
func inVLAN(b []byte, id uint16) []byte {
	tag := binary.BigEndian.AppendUint16([]byte{0x81, 0}, 5<<13|id)
	return slices.Concat(b[:12], tag, b[12:])
}

// A VLAN's frame is not ours on the parent device. A priority tag is not a VLAN, and is removed.
func TestVLAN(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		w := k.wires()
		client, server := f.legs()
		s := spliceOf(client, server)
		s.ToServer.Ifindex, s.ToClient.Ifindex = uint32(w.Out.Ifindex), uint32(w.Out.Ifindex)
		k.put(0, s)
		frame := packet.Build(f.fromClient("x"))
		before := k.counts()
		w.Send(kerneltest.Vnet{}, inVLAN(frame, 7))
		w.Send(kerneltest.Vnet{}, inVLAN(frame, 0))
		_, got := w.Receive()
		packettest.Check(t, got, packettest.Checksums(), packettest.Src(f.router), packettest.Payload([]byte("x")))
		after := k.counts()
		if n := after[routerVerdictTO_SERVER] - before[routerVerdictTO_SERVER]; n != 1 {
			t.Errorf("%d packets were translated, want the one with a priority tag", n)
		}
	})
}
