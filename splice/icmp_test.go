package splice

import (
	"bytes"
	"testing"

	"baton/packet"
	check "baton/packet/packettest"
)

// errorAbout returns the error that a hop behind the router sends about sent, a frame of the server leg, quoting n bytes
// from its IP header on.
func (f family) errorAbout(sent []byte, n int) []byte {
	return packet.BuildICMP(packet.ICMPSpec{
		SrcMAC: surrogateMAC, DstMAC: routerBackMAC, Src: f.hop, Dst: f.router.Addr(), TTL: 64, Type: f.tooBig,
		Code: f.tooBigCode, MTU: 1300, Quote: sent[packet.EthernetSize:][:n],
	})
}

// A quotation of any length comes back as what the client sent, as far as it is TCP's first 8 bytes or its whole header.
func TestTranslateICMPRestoresTheQuotation(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		request := f.fromClient()
		request.Options = timestamps(0xfffffff1, 0x11).AppendNOP(2).AppendSACK(packet.SACKBlock{Left: 0x20, Right: 0x30})
		request.Window = 1 << 10 // loses nothing by the shifts 6 and 9
		sent := translated(t, f.splice().ToServer, request)
		request.TTL-- // which nobody takes back
		original := packet.Build(request)[packet.EthernetSize:]
		header := f.ipSize + packet.TCPSize + len(request.Options)
		for n := f.ipSize + 8; n <= len(original); n++ {
			for _, kind := range []uint8{f.tooBig, f.timeExpired} {
				frame := f.errorAbout(sent, n)
				frame[packet.EthernetSize+f.ipSize] = kind
				p, _ := packet.Parse(frame)
				p.ICMP().SetChecksum(p.TransportChecksum())
				if got := f.splice().ToClient.TranslateICMP(frame); got != Translated {
					t.Fatalf("%d bytes quoted: got %v", n, got)
				}
				check.Check(t, frame, check.Checksums(), check.TTL(63), check.MACs(routerMAC, clientMAC))
				p, _ = packet.Parse(frame)
				if p.Src.Addr() != f.vip.Addr() || p.Dst.Addr() != f.client.Addr() || p.ICMP().Type() != kind || p.ICMP().MTU(p.Family) != 1300 {
					t.Fatalf("%d bytes quoted: got %v > %v, type %d, MTU %d", n, p.Src, p.Dst, p.ICMP().Type(), p.ICMP().MTU(p.Family))
				}
				want := bytes.Clone(original[:n])
				if n < header { // behind seq it stays as the hop saw it
					copy(want[f.ipSize+8:], sent[packet.EthernetSize+f.ipSize+8:])
				}
				if !bytes.Equal(p.Payload(), want) {
					t.Fatalf("%d bytes quoted:\ngot  % x\nwant % x", n, p.Payload(), want)
				}
			}
		}
	})
}

// The other way: an error from the client's side about a response goes to the surrogate.
func TestTranslateICMPToTheSurrogate(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		response := f.fromSurrogate()
		response.Flags, response.Ack = packet.RST, 0x7777 // no ACK: the field is not a number of ours
		response.Window = 1 << 8
		sent := translated(t, f.splice().ToClient, response)
		frame := packet.BuildICMP(packet.ICMPSpec{
			SrcMAC: clientMAC, DstMAC: routerMAC, Src: f.hop, Dst: f.vip.Addr(), Type: f.timeExpired,
			Quote: sent[packet.EthernetSize:],
		})
		if got := f.splice().ToServer.TranslateICMP(frame); got != Translated {
			t.Fatal(got)
		}
		check.Check(t, frame, check.Checksums(), check.MACs(routerBackMAC, surrogateMAC),
			check.ICMP(f.timeExpired, 0, check.Src(f.surrogate), check.Dst(f.router),
				check.TCP(check.Seq(surrogateNext), check.Ack(0x7777), check.Window(1<<8)), check.Payload(response.Payload)))
		response.TTL--
		p, _ := packet.Parse(frame)
		if want := packet.Build(response)[packet.EthernetSize:]; !bytes.Equal(p.Payload(), want) {
			t.Errorf("quotation:\ngot  % x\nwant % x", p.Payload(), want)
		}
	})
}

func TestTranslateICMPKeepsAWrongChecksumWrong(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		frame := f.errorAbout(translated(t, f.splice().ToServer, f.fromClient()), f.ipSize+20)
		p, _ := packet.Parse(frame)
		p.ICMP().SetChecksum(p.ICMP().Checksum() ^ 0xfffe)
		if got := f.splice().ToClient.TranslateICMP(frame); got != Translated {
			t.Fatal(got)
		}
		p, _ = packet.Parse(frame)
		if p.ICMP().Checksum() == p.TransportChecksum() {
			t.Error("the checksum became right")
		}
	})
}

func TestTranslateICMPRefuses(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		about := func(change func(*packet.Spec)) []byte {
			s := f.fromClient()
			s.Src, s.Dst = f.router, f.surrogate
			if change != nil {
				change(&s)
			}
			return packet.Build(s)
		}
		whole := func(sent []byte) []byte { return f.errorAbout(sent, len(sent)-packet.EthernetSize) }
		outer := func(change func(b []byte)) []byte { b := whole(about(nil)); change(b); return b }
		ttl := packet.EthernetSize + 8
		if f.name == "IPv6" {
			ttl = packet.EthernetSize + 7
		}
		at := packet.EthernetSize + f.ipSize + packet.ICMPSize // of the quotation
		tests := []struct {
			name  string
			frame []byte
			want  Reason
		}{
			{"TCP", about(nil), NotError},
			{"ARP", outer(func(b []byte) { b[13] = 6 }), NotIP},
			{"echo reply", outer(func(b []byte) { b[packet.EthernetSize+f.ipSize] = 129 }), NotError},
			{"about UDP", outer(func(b []byte) {
				if f.name == "IPv4" {
					b[at+9] = 17
				} else {
					b[at+6] = 17
				}
			}), NotTCP},
			{"TTL 1", outer(func(b []byte) { b[ttl] = 1 }), TTL},
			{"7 bytes of TCP", f.errorAbout(about(nil), f.ipSize+7), Truncated},
			{"no quotation", f.errorAbout(about(nil), 0), Truncated},
			{"quoted version", outer(func(b []byte) { b[at] = 0x55 }), BadHeader},
			{"quoted data offset", outer(func(b []byte) { b[at+f.ipSize+12] = 0 }), BadHeader},
			{"quoted options", whole(about(func(s *packet.Spec) { s.Options = packet.Options{8, 0, 0, 0} })), BadOptions},
			{"quoted SYN", whole(about(func(s *packet.Spec) { s.Flags = packet.SYN })), SYN},
			{"not to the quoted sender", outer(func(b []byte) { b[at+f.ipSize-1-len(f.client.Addr().AsSlice())]++ }), BadQuote},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) { refused(t, f.splice().ToClient.TranslateICMP, tt.frame, tt.want) })
		}
		if f.name == "IPv4" {
			later := about(func(s *packet.Spec) { s.FragmentOffset = 8 })
			refused(t, f.splice().ToClient.TranslateICMP, whole(later), Fragment)
			options := about(func(s *packet.Spec) { s.IPOptions = make([]byte, 4) })
			refused(t, f.splice().ToClient.TranslateICMP, whole(options), IPOptions)
			return
		}
		for kind, want := range map[packet.Protocol]Reason{44: Fragment, 60: ExtensionHeader} {
			extended := about(func(s *packet.Spec) { s.ExtensionType, s.Extension = kind, make([]byte, 8) })
			refused(t, f.splice().ToClient.TranslateICMP, whole(extended), want)
		}
	})
}

// A first fragment holds the header, and routers may fragment what goes out without DF.
func TestTranslateICMPAboutAFirstFragment(t *testing.T) {
	f := families[0]
	s := f.fromClient()
	s.DontFragment = false
	sent := translated(t, f.splice().ToServer, s)
	ip := packet.IPv4(sent[packet.EthernetSize:])
	ip[6] = 0x20
	ip.SetChecksum(0)
	ip.SetChecksum(packet.Checksum(ip[:packet.IPv4Size], 0))
	frame := f.errorAbout(sent, len(sent)-packet.EthernetSize)
	if got := f.splice().ToClient.TranslateICMP(frame); got != Translated {
		t.Fatal(got)
	}
	check.Check(t, frame, check.Checksums(), check.ICMP(f.tooBig, f.tooBigCode, check.Src(f.client), check.Dst(f.vip), check.TCP(check.Seq(clientNext))))
}
