package splice

import (
	"bytes"
	"errors"
	"testing"

	"baton/packet"
	check "baton/packet/packettest"
)

// One test for each known arithmetic pitfall of spliced sessions, over both address families (eachFamily).

// PAWS (RFC 7323 section 5) drops a segment whose TSval is before the last accepted one. A receiver must see one clock that never
// steps back, also across the start of the splice.
func TestTimestampsPassPAWS(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		client, server := f.legs()
		s := New(client, server)
		ends := []struct {
			name        string
			d           Direction
			spec        packet.Spec
			seen, sent  uint32 // the sender's clock, and the router's as the receiver knows it
			echoed      uint32 // the receiver's clock
			echoedAsOwn uint32 // the same as the sender knows it
		}{
			{"to the surrogate", s.ToServer, f.fromClient(), client.TSvalSeen, server.TSvalSent, client.TSvalSent, server.TSvalSeen},
			{"to the client", s.ToClient, f.fromSurrogate(), server.TSvalSeen, client.TSvalSent, server.TSvalSent, client.TSvalSeen},
		}
		for _, end := range ends {
			t.Run(end.name, func(t *testing.T) {
				last := end.sent
				for _, ticks := range []uint32{0, 1, 1000, 0x7ffffff0 - 1000} {
					p := end.spec
					p.Options = timestamps(end.seen+ticks, end.echoed+ticks)
					frame := translated(t, end.d, p)
					parsed, _ := packet.Parse(frame)
					val, ecr, ok := parsed.TCP().Options().Timestamps()
					if !ok || int32(val-last) < 0 {
						t.Errorf("after %d ticks: TSval %#x is before %#x", ticks, val, last)
					}
					if val != end.sent+ticks || ecr != end.echoedAsOwn+ticks {
						t.Errorf("after %d ticks: got %#x, %#x, want %#x, %#x", ticks, val, ecr, end.sent+ticks, end.echoedAsOwn+ticks)
					}
					last = val
				}
			})
		}
	})
}

// SACK blocks are sequence numbers of the other direction's data. What the client reports as received must be what the surrogate
// sent: translating a data segment and its SACK block must agree.
func TestSACKNamesTheSendersBytes(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, ahead := range []uint32{0, 1, 7, 1448, 0x10000, 0x7fffffff} {
			data := f.fromSurrogate()
			data.Seq = surrogateNext.Add(ahead)
			got, _ := packet.Parse(translated(t, f.splice().ToClient, data))
			received := packet.SACKBlock{Left: got.TCP().Seq(), Right: got.TCP().Seq().Add(uint32(len(got.Payload())))}

			report := f.fromClient()
			report.Options = timestamps(1, 2).AppendNOP(2).AppendSACK(received)
			want := packet.SACKBlock{Left: data.Seq, Right: data.Seq.Add(uint32(len(data.Payload)))}
			check.Check(t, translated(t, f.splice().ToServer, report), check.TCP(check.SACK(want)), check.Checksums())
		}
	})
}

// A window must never advertise more than its sender has, or it is overrun, and less only by rounding to the receiver's shift, or
// if the field is full. But an open window must stay at least one unit: closed, it would stay so.
func TestWindowIsNeverOverstated(t *testing.T) {
	for sender := uint8(0); sender <= MaxShift; sender++ {
		for receiver := uint8(0); receiver <= MaxShift; receiver++ {
			for window := 0; window <= 0xffff; window += 1 + window/37 {
				got := Shifts{sender, receiver}.Apply(uint16(window))
				has, advertised := uint32(window)<<sender, uint32(got)<<receiver
				if has > 0 && has < 1<<receiver {
					if got != 1 {
						t.Fatalf("shifts %d, %d: window of %d bytes became %d units", sender, receiver, has, got)
					}
					continue
				}
				if advertised > has {
					t.Fatalf("shifts %d, %d: window of %d bytes became %d", sender, receiver, has, advertised)
				}
				if got != 0xffff && has-advertised >= 1<<receiver {
					t.Fatalf("shifts %d, %d: window of %d bytes became only %d", sender, receiver, has, advertised)
				}
			}
		}
	}
}

// Legs with incompatible segment sizes do not fit, in either direction, and clamping a SYN makes them fit. The caller gives the
// limit in bytes for its family: none is built in.
func TestMSSOfBothLegsFits(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		client, server := f.legs()
		client.MSSOffered = 1220
		if err := Fit(client, server); !errors.Is(err, ErrMSS) {
			t.Fatalf("a surrogate told 1400 fits a client that takes 1220: %v", err)
		}
		synAck := f.fromSurrogate()
		synAck.Flags, synAck.Options, synAck.Payload = packet.SYN|packet.ACK, packet.Options{}.AppendMSS(1400), nil
		frame := packet.Build(synAck)
		if got := ClampMSS(frame, client.MSSOffered); got != Translated {
			t.Fatal(got)
		}
		parsed, _ := packet.Parse(frame)
		server.MSSSent, _ = parsed.TCP().Options().MSS()
		if err := Fit(client, server); err != nil {
			t.Errorf("clamped to %d: %v", server.MSSSent, err)
		}
	})
}

// An ICMP error quotes the translated header. Unless ports and seq are translated back, the client's stack finds no session for
// it and path MTU discovery hangs.
func TestICMPErrorsReachTheSession(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		request := f.fromClient()
		request.Payload = make([]byte, 1400)
		sent := translated(t, f.splice().ToServer, request)
		frame := packet.BuildICMP(packet.ICMPSpec{
			SrcMAC: surrogateMAC, DstMAC: routerBackMAC, Src: f.hop, Dst: f.router.Addr(), TTL: 9,
			Type: f.tooBig, Code: f.tooBigCode, MTU: 1300, Quote: sent[packet.EthernetSize:][:f.ipSize+8],
		})
		if got := f.splice().ToClient.TranslateICMP(frame); got != Translated {
			t.Fatal(got)
		}
		quotedSeq := func(t testing.TB, tcp packet.TCP) {
			if tcp.Seq() != clientNext {
				t.Errorf("quoted seq: got %#x, want %#x", tcp.Seq(), clientNext)
			}
		}
		check.Check(t, frame, check.MACs(routerMAC, clientMAC), check.TTL(8), check.MTU(1300), check.Checksums(),
			check.ICMP(f.tooBig, f.tooBigCode, check.Src(f.client), check.Dst(f.vip), check.TCP(quotedSeq)))
		parsed, _ := packet.Parse(frame)
		if parsed.Src.Addr() != f.vip.Addr() || parsed.Dst.Addr() != f.client.Addr() {
			t.Errorf("outer addresses: got %v > %v", parsed.Src, parsed.Dst)
		}
	})
}

// Congestion marks and their echoes pass unchanged, and legs of which only one negotiated ECN do not fit.
func TestECNPassesUnchanged(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		const ce = 3
		s := f.fromSurrogate()
		s.TOS, s.Flags = 0xb8|ce, packet.ACK|packet.CWR
		check.Check(t, translated(t, f.splice().ToClient, s), check.TOS(0xb8|ce), check.TCP(check.Flags(packet.ACK|packet.CWR)), check.Checksums())
		c := f.fromClient()
		c.TOS, c.Flags = 0, packet.ACK|packet.ECE
		check.Check(t, translated(t, f.splice().ToServer, c), check.TOS(0), check.TCP(check.Flags(packet.ACK|packet.ECE)), check.Checksums())

		client, server := f.legs()
		client.ECN = true
		if err := Fit(client, server); !errors.Is(err, ErrECN) {
			t.Errorf("ECN on one leg: got %v", err)
		}
	})
}

// A GSO packet with CHECKSUM_PARTIAL must yield the same segments as translating each separately.
func TestPartialChecksumAndGSO(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		large := f.fromSurrogate()
		large.Payload = bytes.Repeat([]byte("segment "), 8000)
		large.Seq, large.Options, large.Checksum = surrogateNext-30000, timestamps(5, 6), packet.SumPartial
		large.Flags = packet.ACK | packet.PSH | packet.FIN | packet.CWR
		const mss = 1448
		want, err := packet.Segment(packet.Build(large), mss)
		if err != nil {
			t.Fatal(err)
		}
		d := f.splice().ToClient
		for _, segment := range want {
			if got := d.Translate(segment); got != Translated {
				t.Fatal(got)
			}
			check.Check(t, segment, check.Checksums())
		}
		whole := translated(t, d, large)
		check.Check(t, whole, check.PartialChecksum())
		got, err := packet.Segment(whole, mss)
		if err != nil || len(got) != len(want) {
			t.Fatalf("got %d segments, %v, want %d", len(got), err, len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("segment %d:\ngot  % x\nwant % x", i, got[i][:80], want[i][:80])
			}
		}
	})
}

// No packet of one family is ever taken for the other.
func TestFamiliesAreNotMixed(t *testing.T) {
	four, six := families[0], families[1]
	refused(t, four.splice().ToServer.Translate, packet.Build(six.fromClient()), WrongFamily)
	refused(t, six.splice().ToServer.Translate, packet.Build(four.fromClient()), WrongFamily)
	refused(t, Direction{}.Translate, packet.Build(four.fromClient()), WrongFamily)
	refused(t, Direction{}.Translate, packet.Build(six.fromClient()), WrongFamily)
	mixed := four.splice().ToServer
	mixed.Rewrite.Dst = six.surrogate
	refused(t, mixed.Translate, packet.Build(four.fromClient()), WrongFamily)
	refused(t, four.splice().ToClient.TranslateICMP, six.errorAbout(packet.Build(six.fromClient()), 48), WrongFamily)
}
