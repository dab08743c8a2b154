package router

import (
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
	"baton/packet/packettest"
)

const otherRequest = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"

// twoPools returns a session on surrogate 1 whose requests for /b go to surrogate 2, with a leg of each.
func twoPools(t *testing.T, f family) (k *rig, c *client, one, two *surrogate) {
	t.Helper()
	k = newRig(t)
	k.vip(f, func(v *VIP) { v.OnePool = false })
	k.must(k.SetPool(2, Pool{Policy: RoundRobin, Table: []uint16{2}}))
	get := uint8(routerMethodMETHOD_GET)
	k.must(k.SetRoutes(nil, []Route{{VIP: 3, Method: get, Prefix: "/", Pool: 1}, {VIP: 3, Method: get, Prefix: "/b", Pool: 2}}))
	one = k.idle(1, f)
	two = k.idle(2, f, func(s *routerSplice) {
		s.Surrogate, s.SndNxt, s.SndUna, s.RcvNxt, s.RcvAcked = 2, 5000, 5000, 0x7ffffff0, 0x7ffffff0
		s.TsServer, s.TsSent = 0x12345678, datapath.Clock()+0x7fff0000-1
	})
	c = newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	exchange(c, one, plainRequest, plainResponse, routerVerdictHANDOFF)
	return k, c, one, two
}

// Requests of one session alternate between two surrogates. To the client it is one session, and each leg continues where it was.
func TestMove(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, two := twoPools(t, f)
		for n := range 4 {
			to, from, request := two, one, otherRequest
			if n%2 == 1 {
				to, from, request = one, two, plainRequest
			}
			exchange(c, to, request, plainResponse, routerVerdictMOVED)
			exchange(c, to, request, plainResponse, routerVerdictTO_SERVER)
			if got := k.splice(from.number); State(got.State) != Idle || got.Client != (routerTuple{}) ||
				got.SndNxt != uint32(from.ack) || got.RcvNxt != uint32(from.seq) {
				t.Fatalf("move %d: the leg left behind: %+v", n, got)
			}
			ids := map[*surrogate]uint16{one: 1, two: 2}
			if s := k.surrogate(ids[from]); s.Active != 0 || s.Idle[f.class()] != 1 {
				t.Fatalf("move %d: counters of the surrogate left behind: %+v", n, s)
			}
			if s := k.surrogate(ids[to]); s.Active != 1 || s.Idle[f.class()] != 0 {
				t.Fatalf("move %d: counters of the surrogate moved to: %+v", n, s)
			}
			// retransmissions of the old surrogate do not reach the client
			late := from.packet(packet.ACK, plainResponse)
			late.Seq -= packet.Seq(len(plainResponse))
			from.takesACK(k.want(packet.Build(late), routerVerdictDROP_OLD_BYTES, actRedirect))
		}
		if got := k.splice(1); got.Requests != 5 || State(got.State) != Active {
			t.Errorf("requests of the first leg: got %d, want 5", got.Requests)
		}
	})
}

// takesACK is takes for our own segment in response to old bytes.
func (s *surrogate) takesACK(r result) {
	s.k.t.Helper()
	packettest.Check(s.k.t, r.frame, packettest.Checksums(), packettest.Payload(nil),
		packettest.TCP(packettest.Flags(packet.ACK), packettest.Seq(s.ack), packettest.Ack(s.seq)))
	s.takes(r)
}

// The client's ACK of a response often comes with its next request: the old surrogate must get it.
func TestMoveAcknowledgesWhatItLeavesBehind(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, two := twoPools(t, f)
		k.ifindex = k.link("move0")
		w := k.capture(k.ifindex)
		for n := range uint32(2) {
			s := k.splice(n + 1)
			s.ToServer.Ifindex = k.ifindex
			k.put(n+1, *s)
		}
		k.count(1, func(c *routerSurrogate) { c.Active = 1 })
		k.count(2, func(c *routerSurrogate) { c.Idle[f.class()] = 1 })
		k.queued(2, f.class())
		k.must(k.putIdle(2, f.class(), 2))

		one.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		c.takes(one.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		one.takesACK(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
		moved := w.next()
		packettest.Check(t, moved.Bytes, packettest.Payload([]byte(otherRequest)), packettest.MACs(routerBackMAC, surrogateMAC))
		two.takes(result{frame: moved.Bytes})
		c.takes(two.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	})
}

// A request whose client has not acknowledged the last response, or whose surrogate the last request, stays: segments in flight
// during the switch, and pipelining.
func TestRequestInFlightStays(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, _ := twoPools(t, f)
		one.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		one.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect) // in flight
		one.takes(c.send(packet.ACK, otherRequest, routerVerdictTO_SERVER, actRedirect))
		if got := k.splice(1); routerFraming(got.Request) != routerFramingFRAMING_DONE || got.ClientRequests != 3 {
			t.Errorf("splice: %+v", got)
		}
	})
}

// Bytes from the old surrogate while its client is moving must not pass: the client would take them for the new one's.
func TestClientOnTheMoveHearsNothing(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, _, one, _ := twoPools(t, f)
		k.aged(1, 0, func(s *routerSplice) { s.Flags |= uint32(routerSpliceFlagSPLICE_MOVING) })
		before := k.splice(1)
		for _, flags := range []packet.Flags{packet.ACK | packet.FIN, packet.RST | packet.ACK, packet.ACK} {
			said := one.packet(flags, "")
			if flags == packet.ACK {
				said.Payload = []byte(plainResponse)
			}
			k.want(packet.Build(said), routerVerdictDROP_RACE, actShot)
		}
		got := k.splice(1)
		got.Seen = before.Seen
		if *got != *before {
			t.Errorf("splice: got %+v, want %+v", got, before)
		}
	})
}

func TestMoveFromAnAnnouncedClose(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, two := twoPools(t, f)
		exchange(c, one, plainRequest, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", routerVerdictTO_SERVER)
		events := k.events()
		exchange(c, two, otherRequest, plainResponse, routerVerdictMOVED)
		events.want(Event{End: Closed, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 2, Announced: true})
		if s := k.surrogate(1); s.Active != 0 || s.Idle[f.class()] != 0 {
			t.Errorf("counters: %+v", s)
		}
		if fl, ok := k.flow(f.client, f.vip); !ok || fl.Splice != 2 {
			t.Errorf("the client's flow: %+v, %t", fl, ok)
		}
	})
}

func TestMoveFromAWornLeg(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _, two := twoPools(t, f)
		k.must(k.LimitRequests(1, 1))
		events := k.events()
		exchange(c, two, otherRequest, plainResponse, routerVerdictMOVED)
		events.want(Event{End: Retired, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 1})
		if s := k.surrogate(1); s.Active != 0 || s.Idle[f.class()] != 0 {
			t.Errorf("counters: %+v", s)
		}
	})
}

// A later request that the kernel does not decide is an upcall, and the session waits.
func TestLaterRequestIsAnUpcall(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, two := twoPools(t, f)
		k.tap()
		const part, rest = "GET /b HTTP/1.1\r\nHo", "st: a\r\n\r\n"
		first := packet.Build(c.packet(packet.ACK, part))
		k.want(first, routerVerdictUPCALL, actRedirect)
		p, err := k.Pending(f.client, f.vip)
		want := Pending{MSS: f.mss, Timestamps: true, SACK: true, WScale: 6, Ifindex: 1, Seq: c.seq, Ack: c.ack}
		if err != nil || p != want {
			t.Errorf("pending: got %+v, %v, want %+v", p, err, want)
		}
		k.want(first, routerVerdictUPCALL, actRedirect)
		c.seq += packet.Seq(len(part))
		second := packet.Build(c.packet(packet.ACK, rest))
		k.want(second, routerVerdictUPCALL, actRedirect)
		if got := k.splice(1); got.SndNxt != uint32(one.ack) || State(got.State) != Active {
			t.Errorf("splice: %+v", got)
		}
		k.must(k.Decide(f.client, f.vip, c.seq-packet.Seq(len(part)), Decision{Surrogate: 2, Pool: 2, Method: uint8(routerMethodMETHOD_GET), Request: uint64(len(part + rest))}))
		two.takes(k.want(first, routerVerdictMOVED, actRedirect))
		two.takes(k.want(second, routerVerdictTO_SERVER, actRedirect))
		c.seq += packet.Seq(len(rest))
		c.takes(two.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		if got := State(k.splice(1).State); got != Idle {
			t.Errorf("leg left behind: %v", got)
		}
		if _, ok := k.pending(f.client, f.vip); ok {
			t.Error("the client is still pending")
		}
	})
}

func TestLaterRequestIsDecidedToStay(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, _ := twoPools(t, f)
		k.tap()
		request := "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"
		frame := packet.Build(c.packet(packet.ACK, request))
		k.want(frame, routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(request))}))
		one.takes(k.want(frame, routerVerdictTO_SERVER, actRedirect))
		c.seq += packet.Seq(len(request))
		c.takes(one.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		one.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
		one.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
	})
}

// The surrogate has closed, and its FIN is in flight or acknowledged: a new request goes to it, to be refused. It is neither held
// for a decision, nor dropped forever.
func TestRequestBehindTheSurrogatesClose(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request string
		upcall  bool // before the close
	}{
		{"for the same pool", plainRequest, false},
		{"for another pool", otherRequest, false},
		{"for user space", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", false},
		{"with user space", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				k, c, one, _ := twoPools(t, f)
				k.tap()
				frame := packet.Build(c.packet(packet.ACK, tt.request))
				if tt.upcall {
					k.want(frame, routerVerdictUPCALL, actRedirect)
				}
				c.takes(one.send(packet.ACK|packet.FIN, "", routerVerdictTO_CLIENT, actRedirect))
				one.takes(k.want(frame, routerVerdictTO_SERVER, actRedirect))
				k.want(frame, routerVerdictTO_SERVER, actRedirect) // repeated
			})
		})
	}
}

// No leg of the other pool: upcall. If user space forgets it, the client's retransmission is another upcall, and then finds a
// leg.
func TestMoveWithoutALeg(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _, two := twoPools(t, f)
		k.queued(2, f.class())
		request := packet.Build(c.packet(packet.ACK, otherRequest))
		k.want(request, routerVerdictDROP_NO_TAP, actShot)
		k.tap()
		k.want(request, routerVerdictUPCALL, actRedirect)
		k.ForgetClient(f.client, f.vip)
		k.want(request, routerVerdictUPCALL, actRedirect)
		if _, ok := k.pending(f.client, f.vip); !ok {
			t.Error("user space is asked about a client that it cannot look up")
		}
		k.ForgetClient(f.client, f.vip)
		k.must(k.putIdle(2, f.class(), 2))
		two.takes(k.want(request, routerVerdictMOVED, actRedirect))
		if got := State(k.splice(1).State); got != Idle {
			t.Errorf("leg left behind: %v", got)
		}
	})
}

// A removed VIP serves no new requests; bytes in flight still pass.
func TestRemovedVIP(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		k.must(k.SetVIPs(nil))
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
		k.want(packet.Build(c.packet(packet.ACK, plainRequest)), routerVerdictDROP_CLOSED, actShot)
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		k.want(packet.Build(newClient(k, f, f.usual()).syn()), routerVerdictPASS, actPass)
	})
}

// A later request that has moved to a leg closed by its surrogate cannot be retried, as no cookie identifies its client: the
// client is reset, and again if the RST is lost.
func TestMovedRequestOnAClosedLeg(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, flags := range []packet.Flags{packet.RST, packet.RST | packet.ACK, packet.FIN | packet.ACK} {
			k, c, _, two := twoPools(t, f)
			two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
			closing := two.packet(flags, "")
			closing.Ack -= packet.Seq(len(otherRequest))
			r := k.want(packet.Build(closing), routerVerdictTO_CLIENT, actRedirect)
			packettest.Check(t, r.frame, packettest.Dst(f.client), packettest.TCP(packettest.Flags(flags), packettest.Seq(c.ack)))
			if n := k.surrogate(2); n.Failed != 0 {
				t.Errorf("%v: counted as a failed handoff", flags)
			}
			c.seq -= packet.Seq(len(otherRequest))
			want := routerVerdictRESET_SENT
			if flags.Has(packet.FIN) {
				want = routerVerdictTO_SERVER // which resets it
			}
			c.send(packet.ACK, otherRequest, want, actRedirect)
		}
	})
}

// What is left of an upcall, whose request was sent without it, decides no other request.
func TestLeftOverDecision(t *testing.T) {
	leave := func(k *rig, f family, number uint32, state routerClientState, seq packet.Seq) {
		s := k.splice(number)
		s.Flags |= uint32(routerSpliceFlagSPLICE_UPCALL)
		k.put(number, *s)
		left := routerClient{State: uint8(state), Seq: uint32(seq), Since: datapath.Clock(), Surrogate: 2, Pool: 2}
		k.must(k.maps.Clients.Update(tuple(f.client, f.vip), &left, ebpf.UpdateAny))
	}
	for _, state := range []routerClientState{
		routerClientStateCLIENT_UPCALL, routerClientStateCLIENT_SPLICE, routerClientStateCLIENT_LOCAL,
	} {
		eachFamily(t, func(t *testing.T, f family) {
			k, c, one, _ := twoPools(t, f)
			k.tap()
			leave(k, f, 1, state, c.seq-packet.Seq(len(plainRequest)))
			exchange(c, one, plainRequest, plainResponse, routerVerdictTO_SERVER)
			if p, ok := k.pending(f.client, f.vip); ok {
				t.Errorf("left behind: %+v", p)
			}
		})
	}
	eachFamily(t, func(t *testing.T, f family) { // nobody decides: the client's FIN comes again
		k, c, one, _ := twoPools(t, f)
		k.tap()
		leave(k, f, 1, routerClientStateCLIENT_UPCALL, c.seq)
		k.must(k.maps.Clients.Delete(tuple(f.client, f.vip)))
		fin := c.packet(packet.ACK|packet.FIN, "")
		k.want(packet.Build(fin), routerVerdictDROP_EARLY, actShot)
		one.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
	})
}
