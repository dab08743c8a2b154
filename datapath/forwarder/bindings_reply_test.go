package forwarder

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/packet"
)

// TestBindConnection: a connection opens, is measured, closes by FIN both ways, and begins anew with the same numbers.
func TestBindConnection(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1)
	op := bindOp(bindHead, BindRoundRobin, 0)
	syn := flowNumber(packet.ProtocolTCP, 0, false)
	as := func(flags packet.Flags) testPacket {
		p := syn
		p.flags = flags
		return p
	}
	state := func() forwarderBindingState {
		_, v, ok := r.remembered(syn)
		if !ok {
			t.Fatal("the connection is forgotten")
		}
		return forwarderBindingState(v.State)
	}
	r.out(op, syn)
	if state() != forwarderBindingStateBINDING_OPENING || r.port(0).SYNs != 1 || r.port(0).Active != 1 {
		t.Fatalf("after a SYN: state %d, %+v", state(), r.port(0))
	}
	r.reply(0, syn, packet.SYN|packet.ACK)
	rtt := r.port(0).RTT
	if state() != forwarderBindingStateBINDING_OPEN || rtt <= 0 || rtt > time.Minute {
		t.Fatalf("after a SYN-ACK: state %d, %v", state(), rtt)
	}
	r.reply(0, syn, packet.SYN|packet.ACK)
	if r.port(0).RTT != rtt {
		t.Error("a repeated SYN-ACK is a measure")
	}
	r.out(op, as(packet.FIN|packet.ACK))
	if state() != forwarderBindingStateBINDING_OPEN {
		t.Error("half closed is closing")
	}
	r.reply(0, syn, packet.FIN|packet.ACK)
	if state() != forwarderBindingStateBINDING_CLOSING || r.port(0).Active != 0 || r.port(0).Flows != 1 {
		t.Errorf("after FIN both ways: state %d, %+v", state(), r.port(0))
	}
	r.out(op, as(packet.ACK)) // the last of it
	if state() != forwarderBindingStateBINDING_CLOSING || r.port(0).Active != 0 {
		t.Error("the last ACK opens it again")
	}
	if all := r.list(); len(all) != 1 || !all[0].Closing || all[0].Internal != syn.src || all[0].Remote != syn.dst || all[0].Port != linkPlace {
		t.Errorf("listed: %+v", all)
	}
	r.live(0, false)
	r.group(bindHead, false, 1, 1)
	if link, verdict := r.out(op, syn); link != 1 || state() != forwarderBindingStateBINDING_OPENING {
		t.Errorf("anew: link %d (%s), state %d", link, verdict, state())
	}
	if r.reply(0, syn, packet.SYN|packet.ACK) || !r.reply(1, syn, packet.SYN|packet.ACK) {
		t.Error("replies come by the old link")
	}
	if p := r.port(0); p.Flows != 0 || p.Active != 0 || p.Sent == 0 || p.Received == 0 {
		t.Errorf("the old link: %+v", p)
	}
}

// TestBindRepeatedSYN: a handshake with a repeated SYN says nothing of the time that handshakes take, but that it was as long at least.
func TestBindRepeatedSYN(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1, 1)
	op := bindOp(bindHead, BindFastest, 0)
	syn := flowNumber(packet.ProtocolTCP, 0, false)
	slow, _ := r.out(op, syn)
	k, v, _ := r.remembered(syn)
	v.Began -= second
	r.must(r.objects.Bindings.Put(k, v))
	if link, _ := r.out(op, syn); link != slow {
		t.Errorf("a repeated SYN goes by link %d, not %d", link, slow)
	}
	r.reply(slow, syn, packet.SYN|packet.ACK)
	if p := r.port(slow); p.RTT != 0 || p.SYNs != 1 || p.SYNRepeats != 1 {
		t.Errorf("measured: %+v", p)
	}
	quick := flowNumber(packet.ProtocolTCP, 1, false)
	if link, _ := r.out(op, quick); link != 1-slow {
		t.Errorf("the link that was never tried is not")
	}
	r.reply(1-slow, quick, packet.SYN|packet.ACK)
	for n := range 3 {
		if link, _ := r.out(op, flowNumber(packet.ProtocolTCP, 2+n, false)); link != 1-slow {
			t.Errorf("flow %d goes by the slow link", n)
		}
	}
	// in the end it is tried again
	for n := range 200 {
		var all forwarderBinder
		r.must(r.objects.Binders.Lookup(uint32(0), &all))
		for i := range all.Seat {
			all.Seat[i].Measured -= min(all.Seat[i].Measured, 2*second)
		}
		r.must(r.objects.Binders.Put(uint32(0), &all))
		r.sweep()
		if link, _ := r.out(op, flowNumber(packet.ProtocolTCP, 100+n, false)); link == slow {
			return
		}
	}
	t.Error("the slow link is never tried again")
}

// TestBindReset: a RST ends a connection, unless the host goes on with it: then it was not the peer's.
func TestBindReset(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1, 1)
	op := bindOp(bindHead, BindRoundRobin, 0)
	p := flowNumber(packet.ProtocolTCP, 0, false)
	link, _ := r.out(op, p)
	r.reply(link, p, packet.SYN|packet.ACK)
	r.reply(link, p, packet.RST)
	if got := r.port(link).Active; got != 0 {
		t.Errorf("after a RST %d are active", got)
	}
	p.flags = packet.ACK
	r.out(op, p)
	if _, v, _ := r.remembered(p); forwarderBindingState(v.State) != forwarderBindingStateBINDING_OPEN || r.port(link).Active != 1 {
		t.Errorf("the host goes on: state %d", v.State)
	}
	p.flags = packet.RST | packet.ACK
	r.out(op, p)
	p.flags = packet.ACK
	r.out(op, p)
	if _, v, _ := r.remembered(p); forwarderBindingState(v.State) != forwarderBindingStateBINDING_CLOSING || r.port(link).Active != 0 {
		t.Errorf("the host has ended it: state %d", v.State)
	}
}

// TestUnbindOthers: what no flow has asked for is left alone.
func TestUnbindOthers(t *testing.T) {
	r := newBindRig(t, 256)
	for _, v6 := range []bool{false, true} {
		r.group(bindHead, v6, 1, 1)
		op := bindOp(bindHead, BindRoundRobin, 0)
		p := flowNumber(udpProtocol, 0, v6)
		link, _ := r.out(op, p)
		for what, q := range map[string]testPacket{
			"another port of the remote":  {protocol: udpProtocol, src: p.src, dst: netip.AddrPortFrom(p.dst.Addr(), 444)},
			"another port of the host":    {protocol: udpProtocol, src: netip.AddrPortFrom(p.src.Addr(), 9), dst: p.dst},
			"another protocol":            {protocol: packet.ProtocolTCP, src: p.src, dst: p.dst},
			"another remote":              {protocol: udpProtocol, src: p.src, dst: netip.AddrPortFrom(p.dst.Addr().Next(), 443)},
			"an echo that nobody asked":   flowNumber(echoOf(v6), 3, v6),
			"a protocol that has no port": flowNumber(greProtocol, 3, v6),
		} {
			if r.reply(link, q, 0) {
				t.Errorf("%s is a reply (IPv6 %t)", what, v6)
			}
		}
		// somebody asks the host itself
		echo := flowNumber(echoOf(v6), 7, v6)
		link, _ = r.out(op, echo)
		asked := testPacket{protocol: echo.protocol, src: netip.AddrPortFrom(echo.src.Addr(), 0), dst: netip.AddrPortFrom(echo.dst.Addr(), echo.src.Port())}
		if r.reply(link, asked, 0) {
			t.Errorf("an echo request of the same identifier is a reply (IPv6 %t)", v6)
		}
		if !r.reply(link, echo, 0) {
			t.Errorf("an echo reply is none (IPv6 %t)", v6)
		}
	}
}

func echoOf(v6 bool) packet.Protocol {
	if v6 {
		return packet.ProtocolICMPv6
	}
	return packet.ProtocolICMP
}

// TestBindFragments: later fragments, which have no ports, go the way of the first, and so do those of replies.
func TestBindFragments(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(fmt.Sprint("IPv6 ", v6), func(t *testing.T) {
			r := newBindRig(t, 256)
			r.group(bindHead, v6, 1, 1, 1)
			op := bindOp(bindHead, BindRoundRobin, 0)
			for _, protocol := range []packet.Protocol{udpProtocol, echoOf(v6)} {
				for n := range 6 {
					p := flowNumber(protocol, n, v6)
					p.size, p.id = 400, uint32(1000*int(protocol)+n)
					if v6 {
						p.id |= 0xabcd0000
					}
					link := r.fragment(internalPlace, op, p, linkAddr(0, v6))
					for offset := fragmentSize; offset < 408; offset += 8 * 20 {
						q := p
						q.offset = offset
						if got := r.fragment(internalPlace, op, q, linkAddr(0, v6)); got != link {
							t.Fatalf("the fragment at %d went by link %d, not %d", offset, got, link)
						}
					}
					back := p.answer(0)
					for _, offset := range []int{0, fragmentSize} {
						back.offset = offset
						b := back
						b.dst = netip.AddrPortFrom(linkAddr(link, v6), back.dst.Port())
						verdict, after := r.send(linkPlace+uint32(link), Op{Kind: OpUnbind, Arg: replyHead}, b.frame())
						if _, dst := addresses(after); verdict != "forwarded" || dst != p.src.Addr() {
							t.Fatalf("the reply's fragment at %d: %s, to %v", offset, verdict, dst)
						}
						if err := sums(after); err != nil && offset > 0 {
							t.Error(err)
						}
						// whole again it has the right checksum: the first fragment's is what the whole datagram's would be
						if offset == 0 && !slices.Equal(after, back.frame()) {
							t.Fatalf("the first fragment became\n%x, want\n%x", after, back.frame())
						}
					}
				}
			}
			late := flowNumber(udpProtocol, 77, v6)
			late.size, late.id, late.offset = 400, 4242, fragmentSize
			if _, verdict := r.out(op, late); verdict != "drop_bind_gone" {
				t.Errorf("a fragment without a first one: %s", verdict)
			}
			if r.reply(0, late, 0) {
				t.Error("and it is a reply")
			}
		})
	}
}

// fragment sends one from the host, and returns the link.
func (r *bindRig) fragment(place uint32, op Op, p testPacket, _ netip.Addr) int {
	r.t.Helper()
	verdict, after := r.send(place, op, p.frame())
	if verdict != "forwarded" {
		r.t.Fatalf("fragment at %d: %s", p.offset, verdict)
	}
	src, _ := addresses(after)
	return int(src.AsSlice()[len(src.AsSlice())-1]) - 1
}

// quoteOf is what a router that got a packet by a link quotes of it: at most so many bytes.
func quoteOf(link int, p testPacket, most int) []byte {
	p.src = netip.AddrPortFrom(linkAddr(link, p.src.Addr().Is6()), p.src.Port())
	b := p.frame()[packet.EthernetSize:]
	return b[:min(most, len(b))]
}

// TestUnbindErrors: an ICMP error about a packet of a flow tells the host of its own packet, with all checksums right; one about anything
// else is left alone.
func TestUnbindErrors(t *testing.T) {
	r := newBindRig(t, 256)
	for _, v6 := range []bool{false, true} {
		types := []uint8{3, 11, 12}
		router, header := netip.MustParseAddr("192.0.2.77"), 20
		if v6 {
			types = []uint8{1, 2, 3, 4}
			router, header = netip.MustParseAddr("2001:db8:77::1"), 40
		}
		for _, protocol := range []packet.Protocol{packet.ProtocolTCP, udpProtocol, sctpProtocol, echoOf(v6)} {
			r.group(bindHead, v6, 1, 1)
			for i, most := range []int{header + 8, header + 16, header + 18, header + 300} {
				p := flowNumber(protocol, 100*int(protocol)+i, v6)
				p.size = 200
				link, verdict := r.out(bindOp(bindHead, BindRoundRobin, 0), p)
				if link < 0 {
					t.Fatal(verdict)
				}
				for _, kind := range types {
					e := packet.ICMPSpec{
						Src: router, Dst: linkAddr(link, v6), Type: kind, Code: 1, MTU: 1400, Quote: quoteOf(link, p, most),
					}
					verdict, after := r.send(linkPlace+uint32(link), Op{Kind: OpUnbind, Arg: replyHead}, packet.BuildICMP(e))
					e.Dst, e.Quote = p.src.Addr(), p.frame()[packet.EthernetSize:]
					e.Quote = e.Quote[:min(most, len(e.Quote))]
					if want := packet.BuildICMP(e); verdict != "forwarded" || !slices.Equal(after, want) {
						t.Fatalf("protocol %d, type %d, %d bytes quoted: %s\n%x, want\n%x", protocol, kind, most, verdict, after, want)
					}
					r.must(sums(after))
				}
				r.foreignErrors(p, link, router)
			}
		}
	}
}

// foreignErrors sends errors that are about no flow's packet.
func (r *bindRig) foreignErrors(p testPacket, link int, router netip.Addr) {
	r.t.Helper()
	v6 := router.Is6()
	other := p
	other.dst = netip.AddrPortFrom(p.dst.Addr().Next(), p.dst.Port())
	kind, query := uint8(3), uint8(5) // a redirect is for the host
	if v6 {
		kind, query = 1, 137
	}
	whole := quoteOf(link, p, 1000)
	for what, e := range map[string]packet.ICMPSpec{
		"of another flow":        {Type: kind, Dst: linkAddr(link, v6), Quote: quoteOf(link, other, 1000)},
		"by another link":        {Type: kind, Dst: linkAddr(1-link, v6), Quote: quoteOf(1-link, p, 1000)},
		"to another than sent":   {Type: kind, Dst: linkAddr(1-link, v6), Quote: whole},
		"of another kind":        {Type: query, Dst: linkAddr(link, v6), Quote: whole},
		"that quotes nothing":    {Type: kind, Dst: linkAddr(link, v6)},
		"that quotes too little": {Type: kind, Dst: linkAddr(link, v6), Quote: whole[:20]},
	} {
		at := link
		if what == "by another link" {
			at = 1 - link
		}
		e.Src = router
		b := packet.BuildICMP(e)
		verdict, after := r.send(linkPlace+uint32(at), Op{Kind: OpUnbind, Arg: replyHead}, b)
		if verdict != "dropped" || !slices.Equal(after, b) {
			r.t.Fatalf("%v: an error %s: %s\n%x\n%x", p, what, verdict, b, after)
		}
	}
}

// TestUnbindErrorOfNoChecksum: a UDP packet that was sent without a checksum is quoted without one.
func TestUnbindErrorOfNoChecksum(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1)
	p := flowNumber(udpProtocol, 0, false)
	r.out(bindOp(bindHead, BindRoundRobin, 0), p)
	quote := func(b []byte) []byte { binary.BigEndian.PutUint16(b[26:], 0); return b }
	e := packet.ICMPSpec{Src: netip.MustParseAddr("192.0.2.77"), Dst: linkAddr(0, false), Type: 3, Code: 3, Quote: quote(quoteOf(0, p, 28))}
	_, after := r.send(linkPlace, Op{Kind: OpUnbind, Arg: replyHead}, packet.BuildICMP(e))
	e.Dst, e.Quote = p.src.Addr(), quote(p.frame()[packet.EthernetSize:][:28])
	if want := packet.BuildICMP(e); !slices.Equal(after, want) {
		t.Errorf("became\n%x, want\n%x", after, want)
	}
}
