package router

import (
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
	"baton/packet/packettest"
)

// isIdle requires that the leg is back in its pool, with the surrogate's current numbers.
func (s *surrogate) isIdle() {
	s.k.t.Helper()
	got := s.k.splice(s.number)
	if State(got.State) != Idle || got.SndNxt != uint32(s.ack) || got.SndUna != uint32(s.ack) || got.RcvNxt != uint32(s.seq) ||
		got.Client != (routerTuple{}) {
		s.k.t.Fatalf("leg: state %v, snd_nxt %d, rcv_nxt %d; want idle, %d, %d\n%+v",
			State(got.State), got.SndNxt, got.RcvNxt, s.ack, s.seq, got)
	}
	n := s.k.surrogate(1)
	if n.Active != 0 || n.Idle[s.f.class()] != 1 || n.Recycled != 1 {
		s.k.t.Errorf("counters: %+v", n)
	}
	if q := s.k.queued(1, s.f.class()); len(q) != 1 || q[0] != s.number {
		s.k.t.Errorf("queue of idle legs: got %v, want %d", q, s.number)
	}
	s.k.must(s.k.putIdle(1, s.f.class(), s.number))
}

// inUse requires that the leg is neither idle nor in its pool.
func (s *surrogate) inUse() {
	s.k.t.Helper()
	if got := State(s.k.splice(s.number).State); got == Idle {
		s.k.t.Errorf("leg: %v", got)
	}
	if q := s.k.queued(1, s.f.class()); len(q) != 0 {
		s.k.t.Errorf("queue of idle legs: got %v, want none", q)
	}
	if n := s.k.surrogate(1); n.Idle[s.f.class()] != 0 || n.Recycled != 0 {
		s.k.t.Errorf("counters: %+v", n)
	}
}

// The client's FIN is answered, the surrogate gets an ACK for it, and the leg is idle again.
func TestFINRecycles(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		k.ifindex = k.link("recycle0")
		w := k.capture(k.ifindex)
		r := c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.TTL(64), packettest.MACs(routerBackMAC, surrogateMAC),
			packettest.TCP(packettest.Flags(packet.ACK), packettest.Ack(s.seq)))
		s.takes(r)
		answer := w.next()
		packettest.Check(t, answer.Bytes, packettest.Checksums(), packettest.MACs(routerMAC, clientMAC),
			packettest.TCP(packettest.Flags(packet.FIN|packet.ACK), packettest.Ack(c.seq)))
		c.takesFrame(answer)
		s.isIdle()
		if fl, ok := k.flow(f.client, f.vip); !ok || routerSide(fl.Side) != routerSideSIDE_LINGER {
			t.Errorf("the client's flow: %+v, %t", fl, ok)
		}
		// its FIN again, its last ACK; then the session is over
		fin := c.packet(packet.ACK|packet.FIN, "")
		fin.Seq--
		fin.Ack--
		again := k.want(packet.Build(fin), routerVerdictFIN_ANSWERED, actRedirect)
		packettest.Check(t, again.frame, packettest.Checksums(),
			packettest.TCP(packettest.Flags(packet.FIN|packet.ACK), packettest.Ack(c.seq), packettest.Seq(c.ack-1)))
		c.send(packet.ACK, "", routerVerdictCONSUMED, actShot)
		k.lingers(f, routerSideSIDE_LINGER)
	})
}

func TestRSTRecycles(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		c.send(packet.RST, "", routerVerdictRECYCLED, actShot)
		s.isIdle()
		k.lingers(f, routerSideSIDE_LINGER)
	})
}

// A recycled leg serves the next client, from the same ports and from others, and the numbers fit both.
func TestLegServesAgain(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, lingering := range []bool{true, false} {
			k, c, s := spliced(t, f)
			s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
			next := newClient(k, f, f.usual())
			next.seq = 12345
			if !lingering {
				next.f.client = datapath.AddrPort(f.client.Addr().As16(), datapath.BigEndian(f.client.Port()+1))
			}
			next.connect(routerVerdictSYN_ANSWERED)
			exchange(next, s, plainRequest, plainResponse, routerVerdictHANDOFF)
			if got := k.splice(1); got.Requests != 2 || got.ClientRequests != 1 {
				t.Errorf("requests: got %d and %d, want 2 and 1", got.Requests, got.ClientRequests)
			}
		}
	})
}

// A leg that has served its number of requests is retired instead.
func TestWornLegIsRetired(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, flags := range []packet.Flags{packet.ACK | packet.FIN, packet.RST} {
			k, c, s := spliced(t, f)
			k.must(k.LimitRequests(1, 1))
			events := k.events()
			c.k.want(packet.Build(c.packet(flags, "")), routerVerdictRECYCLED, map[bool]uint32{true: actRedirect, false: actShot}[flags.Has(packet.FIN)])
			events.want(Event{End: Retired, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 1})
			if got := State(k.splice(1).State); got != Dead {
				t.Errorf("leg: got %v, want dead", got)
			}
			if n := k.surrogate(1); n.Active != 0 || n.Idle[f.class()] != 0 {
				t.Errorf("counters: %+v", n)
			}
			_ = s
		}
	})
}

// None of these returns the leg to its pool.
func TestNotRecycled(t *testing.T) {
	request := func(c *client, s *surrogate, payload string) {
		s.takes(c.send(packet.ACK, payload, routerVerdictTO_SERVER, actRedirect))
	}
	response := func(c *client, s *surrogate, payload string) {
		c.takes(s.send(packet.ACK, payload, routerVerdictTO_CLIENT, actRedirect))
	}
	fin := packet.ACK | packet.FIN
	for _, tc := range []struct {
		name   string
		before func(c *client, s *surrogate)
		change func(p *packet.Spec) // of the FIN
	}{
		{"response not begun", func(c *client, s *surrogate) { request(c, s, plainRequest) }, nil},
		{"response not complete", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			response(c, s, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok")
		}, nil},
		{"head not complete", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			response(c, s, "HTTP/1.1 200 OK\r\nContent-Le")
		}, nil},
		{"1xx only", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			response(c, s, "HTTP/1.1 103 Early Hints\r\n\r\n")
		}, nil},
		{"request not complete", func(c *client, s *surrogate) {
			request(c, s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n1234")
			response(c, s, plainResponse)
		}, nil},
		{"response not acknowledged", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect) // lost after us
		}, nil},
		{"request not acknowledged", func(c *client, s *surrogate) {
			ack := s.ack
			request(c, s, plainRequest)
			s.ack, ack = ack, s.ack
			response(c, s, plainResponse)
			s.ack = ack
		}, nil},
		{"FIN with data", func(*client, *surrogate) {}, func(p *packet.Spec) { p.Payload = []byte(plainRequest) }},
		{"wrong ack", func(*client, *surrogate) {}, func(p *packet.Spec) { p.Ack-- }},
		{"ack of what was never sent", func(*client, *surrogate) {}, func(p *packet.Spec) { p.Ack++ }},
		{"FIN without ACK", func(*client, *surrogate) {}, func(p *packet.Spec) { p.Flags, p.Ack = packet.FIN, 0 }},
		{"opaque", func(c *client, s *surrogate) { // two requests at once
			request(c, s, plainRequest+plainRequest)
			response(c, s, plainResponse)
			response(c, s, plainResponse)
		}, nil},
		{"bytes that nobody asked for", func(c *client, s *surrogate) { response(c, s, plainResponse) }, nil},
		{"Connection: close", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			response(c, s, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		}, nil},
		{"HTTP/1.0", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			response(c, s, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}, nil},
		{"upgraded", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			response(c, s, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
		}, nil},
		{"until close", func(c *client, s *surrogate) {
			request(c, s, plainRequest)
			response(c, s, "HTTP/1.1 200 OK\r\n\r\nok")
		}, nil},
		{"upcall", func(c *client, s *surrogate) {
			c.k.tap()
			c.k.want(packet.Build(c.packet(packet.ACK, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n")), routerVerdictUPCALL, actRedirect)
		}, nil},
		{"surrogate closed first", func(c *client, s *surrogate) {
			c.takes(s.send(packet.ACK|packet.FIN, "", routerVerdictTO_CLIENT, actRedirect))
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, f := range families {
				for _, flags := range []packet.Flags{fin, packet.RST} {
					if flags == packet.RST && tc.change != nil {
						continue
					}
					k, c, s := spliced(t, f)
					tc.before(c, s)
					p := c.packet(flags, "")
					if tc.change != nil {
						tc.change(&p)
					} else if tc.name != "response not acknowledged" && flags == fin {
						// an ACK first: the FIN is refused only for the named reason
						k.want(packet.Build(c.packet(packet.ACK, "")), routerVerdictTO_SERVER, actRedirect)
					}
					verdict, action := routerVerdictTO_SERVER, uint32(actRedirect)
					switch {
					case tc.name == "upcall" && flags == fin:
						verdict = routerVerdictUPCALL // after the request
					case tc.name == "ack of what was never sent":
						verdict, action = routerVerdictDROP_WINDOW, actShot
					case tc.name == "FIN without ACK":
						verdict, action = routerVerdictDROP_BAD_FLAGS, actShot
					}
					k.want(packet.Build(p), verdict, action)
					s.inUse()
				}
			}
		})
	}
}

// Half-close: a FIN after the request, which the surrogate answers.
func TestHalfClose(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, together := range []bool{true, false} {
			k, c, s := spliced(t, f)
			if together {
				s.takes(c.send(packet.ACK|packet.FIN, plainRequest, routerVerdictTO_SERVER, actRedirect))
			} else {
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
				s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect))
			}
			c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
			s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
			s.inUse()
			c.takes(s.send(packet.ACK|packet.FIN, "", routerVerdictTO_CLIENT, actRedirect))
			events := k.events()
			s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
			events.want(Event{End: Closed, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 2})
			if n := k.surrogate(1); n.Active != 0 || n.Recycled != 0 {
				t.Errorf("counters: %+v", n)
			}
		}
	})
}

// lateBytes sends packets of the surrogate with bytes for the earlier client: none passes, each is acknowledged.
func lateBytes(t *testing.T, k *rig, s *surrogate, bytes int, base packet.Seq) {
	t.Helper()
	for _, late := range []struct {
		name string
		seq  packet.Seq
		len  int
	}{
		{"all of an earlier response", base - packet.Seq(bytes), bytes},
		{"the last byte", base - 1, 1},
		{"straddling the end", base - 5, 10},
		{"from long ago", base - 100000, 1400},
	} {
		p := s.packet(packet.ACK, string(make([]byte, late.len)))
		p.Seq = late.seq
		r := k.want(packet.Build(p), routerVerdictDROP_OLD_BYTES, actRedirect)
		packettest.Check(t, r.frame, packettest.Src(s.f.router), packettest.Dst(s.f.surrogate), packettest.Checksums(),
			packettest.Payload(nil),
			packettest.TCP(packettest.Flags(packet.ACK), packettest.Ack(base), packettest.Seq(s.ack)))
		val, _, _ := r.parsed(t).TCP().Options().Timestamps()
		if int32(val-s.tsecr) < 0 {
			t.Errorf("%s: TSval went back", late.name)
		}
		s.tsecr = val
	}
}

// The invariant of recycling: no client gets a byte of another's response.
func TestLateBytesOfAnEarlierResponse(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		lateBytes(t, k, s, len(plainResponse), s.seq)
		s.isIdle()

		next := newClient(k, f, f.usual())
		next.f.client = datapath.AddrPort(f.client.Addr().As16(), datapath.BigEndian(f.client.Port()+1))
		next.seq = 777
		next.connect(routerVerdictSYN_ANSWERED)
		base := s.seq
		s.takes(next.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
		k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000 + 10000})) // our clock is ahead of the client's
		lateBytes(t, k, s, len(plainResponse), base)
		s.takes(next.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
		next.takes(s.send(packet.ACK, plainResponse[:20], routerVerdictTO_CLIENT, actRedirect))
		lateBytes(t, k, s, len(plainResponse), base)
		// retransmissions of the response itself pass
		again := s.packet(packet.ACK, plainResponse[:20])
		again.Seq = base
		k.want(packet.Build(again), routerVerdictTO_CLIENT, actRedirect)

		// and the earlier client's late packets do not reach the leg
		late := packet.Build(c.packet(packet.ACK, plainRequest))
		if r := k.run(late); r.verdict == Verdict(routerVerdictTO_SERVER) {
			t.Error("a packet of the earlier client passed")
		}
	})
}

// lingers checks that the end of the client's session is remembered.
func (k *rig) lingers(f family, side routerSide) {
	k.t.Helper()
	if fl, _ := k.flow(f.client, f.vip); routerSide(fl.Side) != side {
		k.t.Errorf("the client's flow: %+v, want side %d", fl, side)
	}
}

// A client connects again, resets and all, while user space holds the first connection's packets: their replay ends a
// session after the SYN of the second. The request of the second is routed, and a late duplicate of the first's is not.
func TestConnectionBegunBeforeTheEndOfTheLast(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, side := range []routerSide{routerSideSIDE_LINGER, routerSideSIDE_RESET} {
			k := newRig(t)
			k.vip(f)
			s := k.idle(1, f)
			first := newClient(k, f, f.usual())
			first.connect(routerVerdictSYN_ANSWERED)
			next := newClient(k, f, f.usual())
			next.seq = first.seq + 1000
			next.connect(routerVerdictSYN_ANSWERED)
			ended := endedFlowAt(datapath.Clock(), side, first.seq+10)
			k.must(k.maps.Flows.Update(tuple(f.client, f.vip), ended, ebpf.UpdateAny))
			k.want(packet.Build(first.packet(packet.ACK|packet.PSH, plainRequest)), routerVerdictRESET_SENT, actRedirect)
			forged := next.packet(packet.ACK|packet.PSH, plainRequest)
			forged.Ack++
			k.want(packet.Build(forged), routerVerdictRESET_SENT, actRedirect)
			for _, flags := range []packet.Flags{packet.PSH, packet.FIN} { // behind its first bytes, and before them here
				behind := next.packet(packet.ACK|flags, "")
				behind.Seq += packet.Seq(len(plainRequest))
				if flags == packet.PSH {
					behind.Payload = []byte("more")
				}
				if side == routerSideSIDE_LINGER {
					k.want(packet.Build(behind), routerVerdictDROP_EARLY, actShot)
				}
			}
			exchange(next, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		}
		t.Run("nothing but its end", func(t *testing.T) {
			k := newRig(t)
			k.vip(f)
			next := newClient(k, f, f.usual())
			next.connect(routerVerdictSYN_ANSWERED)
			ended := endedFlowAt(datapath.Clock(), routerSideSIDE_RESET, next.seq-1000)
			k.must(k.maps.Flows.Update(tuple(f.client, f.vip), ended, ebpf.UpdateAny))
			next.send(packet.ACK|packet.FIN, "", routerVerdictFIN_ANSWERED, actRedirect)
		})
	})
}

func (k *rig) ended(t *testing.T, f family, events *eventLog, state State, end End, requests uint32) {
	t.Helper()
	if got := State(k.splice(1).State); got != state {
		t.Errorf("state: got %v, want %v", got, state)
	}
	active := 1
	if state == Dead {
		active = 0
		events.want(Event{End: end, Class: f.class(), Surrogate: 1, Splice: 1, Requests: requests})
	} else {
		events.none()
	}
	switch fl, ok := k.flow(f.client, f.vip); {
	case state != Dead && routerSide(fl.Side) != routerSideSIDE_CLIENT, end == Failed && ok:
		t.Errorf("the client's flow: %+v, %t", fl, ok)
	case state == Dead && (end == ServerReset || end == Cut):
		k.lingers(f, routerSideSIDE_RESET)
	case state == Dead && end != Failed:
		k.lingers(f, routerSideSIDE_LINGER)
	}
	if n := k.surrogate(1); n.Active != active {
		t.Errorf("active sessions: got %d, want %d", n.Active, active)
	}
}

// fresh returns a session whose first request was sent and has no response.
func fresh(t *testing.T, f family) (*rig, *client, *surrogate) {
	t.Helper()
	k := newRig(t)
	k.vip(f)
	s := k.idle(1, f)
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
	return k, c, s
}

// A surrogate closes the leg as the request arrives: the client's retransmission goes to another leg.
func TestFailedHandoffIsTriedAgain(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, flags := range []packet.Flags{packet.RST, packet.RST | packet.ACK, packet.FIN | packet.ACK} {
			k, c, s := fresh(t, f)
			events := k.events()
			closing := s.packet(flags, "")
			closing.Ack = routerNext // nothing of the request
			r := k.run(packet.Build(closing))
			want := routerVerdictCONSUMED
			if flags.Has(packet.FIN) {
				want = routerVerdictRESET_SENT
				packettest.Check(t, r.frame, packettest.Src(s.f.router), packettest.Dst(s.f.surrogate), packettest.Checksums(),
					packettest.TCP(packettest.Flags(packet.RST), packettest.Seq(routerNext)))
			}
			if r.verdict != Verdict(want) {
				t.Fatalf("%v: got %v, want %v", flags, r.verdict, Verdict(want))
			}
			events.want(Event{End: Failed, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 1})
			if n := k.surrogate(1); n.Active != 0 || n.Failed != 1 {
				t.Errorf("counters: %+v", n)
			}
			next := k.idle(2, f)
			c.seq -= packet.Seq(len(plainRequest))
			exchange(c, next, plainRequest, plainResponse, routerVerdictHANDOFF)
		}
	})
}

// Once the surrogate has acknowledged the request, the client does not retransmit it: it must be notified of the end.
func TestCloseOfAnAcknowledgedRequestReachesTheClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, before := range []bool{true, false} {
			for _, flags := range []packet.Flags{packet.RST | packet.ACK, packet.FIN | packet.ACK} {
				k, c, s := fresh(t, f)
				if before {
					c.takes(s.send(packet.ACK, "", routerVerdictTO_CLIENT, actRedirect))
				}
				c.takes(s.send(flags, "", routerVerdictTO_CLIENT, actRedirect))
				if n := k.surrogate(1); n.Failed != 0 {
					t.Errorf("%v: counted as a failed handoff", flags)
				}
			}
		}
	})
}
