package router

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
	"baton/packet/packettest"
)

// Every combination of options is answered with the common ones, which are known at the first request.
func TestSYNIsAnsweredAndItsOptionsAreRemembered(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for bits := range 16 {
			ts, sack, wscale, small := bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
			name := fmt.Sprintf("timestamps=%t SACK=%t wscale=%t small=%t", ts, sack, wscale, small)
			t.Run(name, func(t *testing.T) {
				k := newRig(t)
				k.vip(f)
				mss := f.mss
				if small {
					mss = 1300
				}
				options := packet.Options{}.AppendMSS(mss)
				if sack {
					options = options.AppendSACKPermitted()
				}
				if ts {
					options = options.AppendTimestamps(77, 0)
				}
				if wscale {
					options = options.AppendNOP(1).AppendWindowScale(9)
				}
				k.answers(f, options)
				want := Pending{MSS: mss, Timestamps: ts, SACK: sack, WScale: -1}
				if wscale {
					want.WScale = 9
				}
				class := want.Class(testMSS)
				s := k.idle(1, f, func(s *routerSplice) {
					s.LegClass = class
					if !ts {
						s.Flags &^= uint32(routerSpliceFlagSPLICE_TS)
					}
				})
				c := newClient(k, f, options)
				c.connect(routerVerdictSYN_ANSWERED)
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
				got := k.splice(1)
				flags := routerSpliceFlag(got.Flags)
				if on := flags&routerSpliceFlagSPLICE_CLIENT_SACK != 0; on != sack {
					t.Errorf("SACK: got %t, want %t", on, sack)
				}
				if on := flags&routerSpliceFlagSPLICE_CLIENT_WSCALE != 0; on != wscale || on && got.ClientShift != 9 {
					t.Errorf("window scale: got %t, %d; want %t, 9", on, got.ClientShift, wscale)
				}
				if _, ok := k.pending(f.client, f.vip); ok {
					t.Error("the client is still pending")
				}
			})
		}
	})
}

// answers requires the SYN-ACK that Linux would send for the options.
func (k *rig) answers(f family, options packet.Options) {
	k.t.Helper()
	_, sack := options.SACKPermitted(), options.SACKPermitted()
	_, wscale := options.WindowScale()
	val, _, ts := options.Timestamps()
	now := datapath.Clock() + 0x7fff0000
	r := k.want(packet.Build(newClient(k, f, options).syn()), routerVerdictSYN_ANSWERED, actRedirect)
	packettest.Check(k.t, r.frame, packettest.MACs(routerMAC, clientMAC), packettest.Src(f.vip), packettest.Dst(f.client),
		packettest.TTL(64), packettest.Checksums(),
		packettest.TCP(packettest.Flags(packet.SYN|packet.ACK), packettest.Ack(clientNext), packettest.Window(65535)))
	got := r.parsed(k.t).TCP().Options()
	if mss, ok := got.MSS(); !ok || mss != 1400 {
		k.t.Errorf("MSS: got %d, %t, want the VIP's", mss, ok)
	}
	if got.SACKPermitted() != sack {
		k.t.Errorf("SACK permitted: got %t, want %t", got.SACKPermitted(), sack)
	}
	if shift, ok := got.WindowScale(); ok != wscale || ok && shift != OurWscale {
		k.t.Errorf("window scale: got %d, %t, want %d, %t", shift, ok, OurWscale, wscale)
	}
	told, echoed, ok := got.Timestamps()
	if ok != ts || ok && echoed != val {
		k.t.Errorf("timestamps: got %t, echo %d, want %t, echo %d", ok, echoed, ts, val)
	}
	// our clock is up to one ms behind the kernel's
	if age := int32(datapath.Clock() + 0x7fff0000 - told); ok && (age < -1 || age > 64+int32(datapath.Clock()+0x7fff0000-now)) {
		k.t.Errorf("TSval: %d ms old, want at most 64", age)
	}
}

func TestSYNIsNotAnswered(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, c := range []struct {
			name    string
			change  func(*packet.Spec)
			verdict routerVerdict
			action  uint32
		}{
			{"SYN and ACK", func(s *packet.Spec) { s.Flags |= packet.ACK }, routerVerdictDROP_BAD_FLAGS, actShot},
			{"SYN and FIN", func(s *packet.Spec) { s.Flags |= packet.FIN }, routerVerdictDROP_BAD_FLAGS, actShot},
			{"SYN and RST", func(s *packet.Spec) { s.Flags |= packet.RST }, routerVerdictDROP_BAD_FLAGS, actShot},
			{"no flag", func(s *packet.Spec) { s.Flags = 0 }, routerVerdictDROP_BAD_FLAGS, actShot},
			{"wrong checksum", func(s *packet.Spec) { s.Checksum = packet.SumWrong }, routerVerdictDROP_BAD_CHECKSUM, actShot},
			{"option past the header", func(s *packet.Spec) { s.Options = packet.Options{2, 4, 5, 0xb4, 3, 9} }, routerVerdictDROP_BAD_OPTIONS, actShot},
			{"option of length 0", func(s *packet.Spec) { s.Options = packet.Options{254, 0, 0, 0} }, routerVerdictDROP_BAD_OPTIONS, actShot},
			{"another port", func(s *packet.Spec) { s.Dst = netip.AddrPortFrom(s.Dst.Addr(), 81) }, routerVerdictPASS, actPass},
			{"another address", func(s *packet.Spec) { s.Dst = netip.AddrPortFrom(s.Dst.Addr().Next(), 80) }, routerVerdictPASS, actPass},
		} {
			t.Run(c.name, func(t *testing.T) {
				k := newRig(t)
				k.vip(f)
				s := newClient(k, f, fullOptions).syn()
				c.change(&s)
				k.want(packet.Build(s), c.verdict, c.action)
			})
		}
	})
}

// Data on a SYN is not acknowledged: the client retransmits it.
func TestSYNWithData(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := newClient(k, f, fullOptions).syn()
		s.Payload = []byte(plainRequest)
		r := k.want(packet.Build(s), routerVerdictSYN_ANSWERED, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.Payload(nil),
			packettest.TCP(packettest.Ack(clientNext), packettest.Flags(packet.SYN|packet.ACK)))
	})
}

func TestClosedVIPRefuses(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f, func(v *VIP) { v.Closed = true })
		r := k.want(packet.Build(newClient(k, f, fullOptions).syn()), routerVerdictRESET_SENT, actRedirect)
		packettest.Check(t, r.frame, packettest.Checksums(), packettest.Src(f.vip),
			packettest.TCP(packettest.Flags(packet.RST|packet.ACK), packettest.Seq(0), packettest.Ack(clientNext)))
	})
}

// fillSynOptions fills the table of SYN options.
func (k *rig) fillSynOptions() {
	k.t.Helper()
	for i := range uint16(testPending) {
		key := tuple(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.200"), i), netip.MustParseAddrPort("192.0.2.201:80"))
		k.must(k.maps.SynOptions.Update(routerSynOptionsKey{Client: key}, &routerClient{Since: datapath.Clock()}, ebpf.UpdateNoExist))
	}
}

// Handshakes do not use up the space for upcalls.
func TestHandshakesLeaveRoomForUpcalls(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.tap()
		k.idle(1, f)
		k.fillSynOptions()
		for _, options := range []packet.Options{f.usual(), bareOptions} {
			c := newClient(k, f, options)
			c.k.want(packet.Build(c.syn()), map[bool]routerVerdict{true: routerVerdictSYN_ANSWERED, false: routerVerdictSYN_COOKIE}[c.ts], actRedirect)
			if _, ok := k.pending(f.client, f.vip); ok {
				t.Error("a SYN is in the table of clients that are asked about")
			}
		}
	})
}

// When the table is full, a client gets the options that fit into a cookie.
func TestFullTableAnswersWithBareCookies(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, c := range []struct {
			name         string
			options      packet.Options
			verdict      routerVerdict
			class        uint8
			sack, wscale bool
		}{
			{"usual client", f.usual(), routerVerdictSYN_ANSWERED, f.class(), true, true},
			{"timestamps, small MSS", packet.Options{}.AppendMSS(1300).AppendSACKPermitted().AppendTimestamps(9, 0).AppendNOP(1).AppendWindowScale(3),
				routerVerdictSYN_COOKIE, 1, true, true},
			{"timestamps, large MSS", packet.Options{}.AppendMSS(9000).AppendSACKPermitted().AppendTimestamps(9, 0).AppendNOP(1).AppendWindowScale(3),
				routerVerdictSYN_COOKIE, f.class(), true, true},
			{"no timestamps", packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendNOP(1).AppendWindowScale(3),
				routerVerdictSYN_COOKIE, 0, false, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				k := newRig(t)
				k.vip(f)
				k.fillSynOptions()
				s := k.idle(1, f, func(s *routerSplice) {
					s.LegClass = c.class
					if c.class&1 == 0 {
						s.Flags &^= uint32(routerSpliceFlagSPLICE_TS)
					}
				})
				cl := newClient(k, f, c.options)
				told := cl.connect(c.verdict).TCP().Options()
				_, wscale := told.WindowScale()
				if told.SACKPermitted() != c.sack || wscale != c.wscale {
					t.Errorf("promised SACK %t, window scale %t; want %t, %t", told.SACKPermitted(), wscale, c.sack, c.wscale)
				}
				s.takes(cl.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
			})
		}
	})
}

// A new SYN drops undecided state of an earlier session on the same ports.
func TestSYNReplacesAPendingClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		k.must(k.maps.Clients.Update(tuple(f.client, f.vip), &routerClient{
			State: uint8(routerClientStateCLIENT_SPLICE), Surrogate: 5, Mss: 536, Since: datapath.Clock(),
		}, ebpf.UpdateAny))
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
	})
}
