package router

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
	"baton/packet/packettest"
	"baton/splice"
)

// SYN, SYN-ACK, request: the request is sent on an idle leg with its numbers, and not acknowledged by us.
func TestRequestIsHandedOff(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		c.k.want(packet.Build(c.packet(packet.ACK, "")), routerVerdictHANDSHAKE_ACK, actShot)

		sent := c.packet(packet.ACK|packet.PSH, plainRequest)
		client, server := f.legs()
		client.RcvNxt, client.SndNxt, client.TSvalSent = c.seq, c.ack, c.tsecr
		server.Local = s.f.router
		before := datapath.Clock()
		r := k.want(packet.Build(sent), routerVerdictHANDOFF, actRedirect)
		out := s.takes(r)
		val, ecr, _ := out.TCP().Options().Timestamps()
		if told := val - before - 0x7fff0000; told > 1000 {
			t.Errorf("TSval to the surrogate: %d, which is not our clock", val)
		}
		if ecr != server.TSvalSeen {
			t.Errorf("TSecr to the surrogate: got %d, want its newest TSval %d", ecr, server.TSvalSeen)
		}
		// apart from the clocks it is the model's translation
		client.TSvalSeen, server.TSvalSent = c.tsval, val
		client.TSvalSent, server.TSvalSeen = c.tsecr, ecr
		want := packet.Build(sent)
		if reason := splice.New(client, server).ToServer.Translate(want); reason != splice.Translated {
			t.Fatal(reason)
		}
		if !bytes.Equal(r.frame, want) {
			t.Errorf("got  % x\nwant % x", r.frame, want)
		}
		got := k.splice(1)
		if State(got.State) != Active || got.Client != tuple(f.client, f.vip) || got.SndNxt != uint32(s.ack) ||
			got.SndUna != uint32(routerNext) || got.Requests != 1 || got.Pool != 1 {
			t.Errorf("splice: %+v", got)
		}
		if n := k.surrogate(1); n.Active != 1 || n.Idle[f.class()] != 0 || n.Popped[f.class()] != 1 || n.Handoffs != 1 {
			t.Errorf("counters: %+v", n)
		}
		// a retransmission goes the same way
		again := k.want(packet.Build(sent), routerVerdictTO_SERVER, actRedirect)
		packettest.Check(t, again.frame, packettest.TCP(packettest.Seq(routerNext)), packettest.Payload([]byte(plainRequest)))
		if n := k.splice(1).SndNxt; n != uint32(s.ack) {
			t.Errorf("after a repeated request: snd_nxt %d, want %d", n, s.ack)
		}
	})
}

// What cannot be part of a session is dropped if it is for a VIP, with its own verdict; other packets are not touched.
func TestMalformedPacketsOfVIPs(t *testing.T) {
	v4, v6 := families[0], families[1]
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	set := func(at int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	for _, c := range []struct {
		name    string
		f       family
		spec    func(*packet.Spec)
		change  func([]byte) []byte
		verdict routerVerdict
	}{
		{"first fragment", v4, func(s *packet.Spec) { s.MoreFragments = true }, nil, routerVerdictDROP_FRAGMENT},
		{"later fragment", v4, func(s *packet.Spec) { s.FragmentOffset = 64 }, nil, routerVerdictDROP_FRAGMENT},
		{"IP options", v4, func(s *packet.Spec) { s.IPOptions = []byte{1, 1, 1, 1} }, nil, routerVerdictDROP_IP_OPTIONS},
		{"fragment header", v6, func(s *packet.Spec) { s.ExtensionType, s.Extension = 44, make([]byte, 8) }, nil, routerVerdictDROP_FRAGMENT},
		{"hop-by-hop header", v6, func(s *packet.Spec) { s.ExtensionType, s.Extension = 0, make([]byte, 8) }, nil, routerVerdictDROP_IPV6EXTENSION},
		{"routing header", v6, func(s *packet.Spec) { s.ExtensionType, s.Extension = 43, make([]byte, 8) }, nil, routerVerdictDROP_IPV6EXTENSION},
		{"destination options", v6, func(s *packet.Spec) { s.ExtensionType, s.Extension = 60, make([]byte, 8) }, nil, routerVerdictDROP_IPV6EXTENSION},
		{"IPv4 cut in the TCP header", v4, nil, cut(14 + 20 + 12), routerVerdictDROP_TRUNCATED},
		{"IPv6 cut in the TCP header", v6, nil, cut(14 + 40 + 12), routerVerdictDROP_TRUNCATED},
		{"IPv4 shorter than it says", v4, nil, set(14+2, 0xff, 0xff), routerVerdictDROP_TRUNCATED},
		{"IPv6 shorter than it says", v6, nil, set(14+4, 0xff, 0xff), routerVerdictDROP_TRUNCATED},
		{"data offset past the packet", v4, func(s *packet.Spec) { s.Payload, s.Options = nil, nil }, set(14+20+12, 0xf0), routerVerdictDROP_TRUNCATED},
		{"data offset within the fixed header", v4, nil, set(14+20+12, 0x40), routerVerdictDROP_TRUNCATED},
		{"UDP", v4, nil, set(14+9, 17), routerVerdictPASS},
		{"UDP over IPv6", v6, nil, set(14+6, 17), routerVerdictPASS},
		{"VLAN", v4, nil, set(12, 0x81, 0x00), routerVerdictPASS},
		{"ARP", v4, nil, set(12, 0x08, 0x06), routerVerdictPASS},
		{"fragment of someone else's", v4, func(s *packet.Spec) {
			s.MoreFragments, s.Dst = true, netip.MustParseAddrPort("203.0.113.10:80")
		}, nil, routerVerdictPASS},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newRig(t)
			k.vip(c.f)
			s := c.f.fromClient(plainRequest)
			if c.spec != nil {
				c.spec(&s)
			}
			frame := packet.Build(s)
			if c.change != nil {
				frame = c.change(frame)
			}
			action := uint32(actShot)
			if c.verdict == routerVerdictPASS {
				action = actPass
			}
			if r := k.want(frame, c.verdict, action); !bytes.Equal(r.frame, frame) {
				t.Error("the packet was changed")
			}
		})
	}
}

func TestUnknownSessionIsReset(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		for _, c := range []struct {
			name  string
			flags packet.Flags
			data  string
		}{
			{"ACK", packet.ACK, ""}, {"data", packet.ACK | packet.PSH, "data"}, {"FIN", packet.ACK | packet.FIN, ""},
		} {
			s := f.fromClient(c.data)
			s.Flags = c.flags
			r := k.want(packet.Build(s), routerVerdictRESET_SENT, actRedirect)
			packettest.Check(t, r.frame, packettest.Src(f.vip), packettest.Dst(f.client), packettest.Checksums(),
				packettest.MACs(routerMAC, clientMAC), packettest.Payload(nil),
				packettest.TCP(packettest.Flags(packet.RST), packettest.Seq(vipNext)))
		}
		s := f.fromClient("")
		s.Flags = packet.RST
		k.want(packet.Build(s), routerVerdictCONSUMED, actShot)
	})
}

// A client that keeps its connection alive before its first request is answered (RFC 9293, 3.8.4).
func TestKeepaliveBeforeTheFirstRequest(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, options := range []packet.Options{f.usual(), bareOptions} {
			for _, data := range []string{"", "x"} {
				k := newRig(t)
				k.vip(f)
				c := newClient(k, f, options)
				c.connect(routerVerdictSYN_ANSWERED)
				probe := c.packet(packet.ACK, data)
				probe.Seq--
				r := k.want(packet.Build(probe), routerVerdictLEG_ACKED, actRedirect)
				packettest.Check(t, r.frame, packettest.Checksums(), packettest.Payload(nil),
					packettest.TCP(packettest.Flags(packet.ACK), packettest.Seq(c.ack), packettest.Ack(c.seq)))
				c.takes(r)
			}
		}
	})
}

func TestFINBeforeTheFirstRequest(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		fin := packet.Build(c.packet(packet.ACK|packet.FIN, ""))
		r := k.want(fin, routerVerdictFIN_ANSWERED, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(),
			packettest.TCP(packettest.Flags(packet.FIN|packet.ACK), packettest.Seq(c.ack), packettest.Ack(c.seq+1)))
		k.want(fin, routerVerdictFIN_ANSWERED, actRedirect)
		c.seq++
		c.takes(r)
		c.send(packet.ACK, "", routerVerdictCONSUMED, actShot)
		k.lingers(f, routerSideSIDE_LINGER)
	})
}

// A later segment of the first request overtakes it: the client is not reset, and retransmits it.
func TestSegmentsOutOfOrderBeforeTheHandoff(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, options := range []packet.Options{f.usual(), bareOptions} {
			k := newRig(t)
			k.vip(f)
			s := k.idle(1, f, func(s *routerSplice) {
				if _, _, ok := options.Timestamps(); !ok {
					s.LegClass = Pending{MSS: 1460}.Class(testMSS)
					s.Flags &^= uint32(routerSpliceFlagSPLICE_TS)
				}
			})
			c := newClient(k, f, options)
			c.connect(routerVerdictSYN_ANSWERED)
			first := c.packet(packet.ACK, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n1234")
			c.seq += packet.Seq(len(first.Payload))
			second := c.packet(packet.ACK|packet.FIN, "5678")
			k.want(packet.Build(second), routerVerdictDROP_EARLY, actShot)
			s.takes(k.want(packet.Build(first), routerVerdictHANDOFF, actRedirect))
			s.takes(k.want(packet.Build(second), routerVerdictTO_SERVER, actRedirect))
			if got := k.splice(1); routerFraming(got.Request) != routerFramingFRAMING_DONE || State(got.State) != Closing {
				t.Errorf("request %d, state %v", got.Request, State(got.State))
			}
		}
	})
}

func TestRequestWithoutALegIsAnUpcall(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.must(k.makeQueue(1, f.class()))
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		request := packet.Build(c.packet(packet.ACK, plainRequest))
		k.want(request, routerVerdictDROP_NO_TAP, actShot)
		k.tap()
		r := k.want(request, routerVerdictUPCALL, actRedirect)
		if !bytes.Equal(r.frame, request) {
			t.Error("user space gets another packet")
		}
		if n := k.surrogate(1).Missed[f.class()]; n != 2 {
			t.Errorf("missed: got %d, want 2", n)
		}
		p, err := k.Pending(f.client, f.vip)
		want := Pending{MSS: f.mss, Timestamps: true, SACK: true, WScale: 6, Ifindex: 1, Seq: c.seq, Ack: c.ack, First: true}
		if err != nil || p != want {
			t.Errorf("pending: got %+v, %v, want %+v", p, err, want)
		}
		var undecided routerClient
		k.must(k.maps.Clients.Lookup(tuple(f.client, f.vip), &undecided))
		for _, local := range []bool{false, true} {
			k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Local: local}))
			want.Decided = true
			if p, err = k.Pending(f.client, f.vip); err != nil || p != want {
				t.Errorf("decided, local %v: got %+v, %v, want %+v", local, p, err, want)
			}
			if err := k.Decide(f.client, f.vip, c.seq, Decision{Local: true}); !errors.Is(err, ErrNoUpcall) {
				t.Errorf("decided twice: %v", err)
			}
			k.must(k.maps.Clients.Update(tuple(f.client, f.vip), &undecided, ebpf.UpdateExist))
		}
	})
}

// tap creates a tap to user space.
func (k *rig) tap() {
	k.t.Helper()
	k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000, Tap: 1}))
}

// What the kernel cannot decide is an upcall.
func TestRequestsThatAreUpcalls(t *testing.T) {
	long := strings.Repeat("x", int(routerBoundHEAD_BYTES))
	for _, c := range []struct{ name, request string }{
		{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"},
		{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
		{"HTTP/0.9", "GET /\r\n\r\n"},
		{"lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n"},
		{"absolute form", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"lower-case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"no Host", "GET / HTTP/1.1\r\nAccept: b\r\n\r\n"},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
		{"two Content-Lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"},
		{"list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx"},
		{"signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx"},
		{"empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"},
		{"huge length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1234567890123456\r\n\r\n"},
		{"length and chunked", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"upgrade", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"},
		{"connection option", "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-thing\r\n\r\n"},
		{"bare CR", "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n"},
		{"bare LF", "GET / HTTP/1.1\nHost: a\n\n"},
		{"bare LF after CRLF", "GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n"},
		{"NUL", "GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n"},
		{"folded by blank", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n"},
		{"folded by tab", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n"},
		{"blank before Host's colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
		{"tab before Host's colon", "GET / HTTP/1.1\r\nHost: a\r\nHost\t: b\r\n\r\n"},
		{"blank before Content-Length's colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx"},
		{"blank before Transfer-Encoding's colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n"},
		{"tab before Transfer-Encoding's colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n"},
		{"head in two packets", "GET / HTTP/1.1\r\nHost: a\r\nX: "},
		{"line only", "GET / HTTP/1.1\r\n"},
		{"line without CRLF", "GET /"},
		{"one byte", "G"},
		{"CRLF first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"head ends in half a CRLF", "GET / HTTP/1.1\r\nHost: a\r\n\r"},
		{"head too long", "GET /" + long + " HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"TLS", "\x16\x03\x01\x00\x05hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range families {
				k := newRig(t)
				k.vip(f)
				k.tap()
				k.idle(1, f)
				cl := newClient(k, f, f.usual())
				cl.connect(routerVerdictSYN_ANSWERED)
				frame := packet.Build(cl.packet(packet.ACK, c.request))
				if r := k.want(frame, routerVerdictUPCALL, actRedirect); !bytes.Equal(r.frame, frame) {
					t.Error("user space gets another packet")
				}
				if got := k.surrogate(1).Idle[f.class()]; got != 1 {
					t.Errorf("idle legs: got %d, want 1", got)
				}
			}
		})
	}
}

// upcallOf returns a client whose first segment is with user space.
func upcallOf(t *testing.T, f family) (*rig, *client, *surrogate, []byte) {
	t.Helper()
	k := newRig(t)
	k.vip(f)
	k.tap()
	s := k.idle(1, f)
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	frame := packet.Build(c.packet(packet.ACK, "GET / HTTP/1.1\r\nHost: "))
	k.want(frame, routerVerdictUPCALL, actRedirect)
	c.seq += packet.Seq(len("GET / HTTP/1.1\r\nHost: "))
	return k, c, s, frame
}

// The head of a request arrives in two segments; user space decides, and replays them in order.
func TestDecisionOfUserSpace(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s, first := upcallOf(t, f)
		second := packet.Build(c.packet(packet.ACK, "a\r\n\r\n"))
		k.want(second, routerVerdictUPCALL, actRedirect)
		begins := c.seq - packet.Seq(len("GET / HTTP/1.1\r\nHost: "))
		decision := Decision{Surrogate: 1, Pool: 1, Method: uint8(routerMethodMETHOD_GET), Request: 27}
		if err := k.Decide(f.client, f.vip, begins.Add(1), decision); !errors.Is(err, ErrNoUpcall) {
			t.Errorf("decision about an earlier session's request: %v, want %v", err, ErrNoUpcall)
		}
		k.must(k.Decide(f.client, f.vip, begins, decision))
		// the second segment is retransmitted before the first is replayed
		k.want(second, routerVerdictUPCALL, actRedirect) // and back, behind the first
		s.takes(k.want(first, routerVerdictHANDOFF, actRedirect))
		s.takes(k.want(second, routerVerdictTO_SERVER, actRedirect))
		got := k.splice(1)
		if routerFraming(got.Request) != routerFramingFRAMING_DONE || routerFraming(got.Response) != routerFramingFRAMING_HEAD {
			t.Errorf("framing: request %d, response %d", got.Request, got.Response)
		}
		if _, ok := k.pending(f.client, f.vip); ok {
			t.Error("the client is still pending")
		}
	})
}

// A FIN after bytes that user space holds is not answered, as that would acknowledge them: it goes the same way.
func TestFINBehindWhatUserSpaceHolds(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _, _ := upcallOf(t, f)
		fin := c.packet(packet.ACK|packet.FIN, "")
		k.want(packet.Build(fin), routerVerdictUPCALL, actRedirect)
		fin.Ack -= 1469
		k.want(packet.Build(fin), routerVerdictDROP_STALE, actShot)
		if _, ok := k.pending(f.client, f.vip); !ok {
			t.Error("the client was forgotten")
		}
	})
}

// A segment that arrives during an upcall does not undo the decision.
func TestRepeatedUpcallKeepsTheClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, _, _, first := upcallOf(t, f)
		key := tuple(f.client, f.vip)
		had, _ := k.pending(f.client, f.vip)
		had.Since -= 5000
		k.must(k.maps.Clients.Update(key, &had, ebpf.UpdateExist))
		k.want(first, routerVerdictUPCALL, actRedirect)
		if got, _ := k.pending(f.client, f.vip); got != had {
			t.Errorf("pending: got %+v, want %+v", got, had)
		}
	})
}

// Bytes that are not the next ones are not taken for the first request: bytes would be missing or doubled.
func TestFirstRequestStartsAtTheFirstByte(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		for d := -5; d <= 5; d++ {
			if d == 0 {
				continue
			}
			s := c.packet(packet.ACK, plainRequest)
			s.Seq += packet.Seq(d)
			k.want(packet.Build(s), routerVerdictDROP_EARLY, actShot)
		}
		c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect)
	})
}
