package splice

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"baton/packet"
)

// randomSplice joins two random legs of f's family. The addresses and ports are random, too.
func randomSplice(r *rand.Rand, f family) (Splice, Leg, Leg) {
	end := func() netip.AddrPort {
		b := f.client.Addr().AsSlice()
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		a, _ := netip.AddrFromSlice(b)
		return netip.AddrPortFrom(a, uint16(r.Uint32()))
	}
	mac := func() (m packet.MAC) {
		for i := range m {
			m[i] = byte(r.Uint32())
		}
		return m
	}
	leg := func() Leg {
		return Leg{
			Peer: end(), Local: end(), PeerMAC: mac(), LocalMAC: mac(), SndNxt: packet.Seq(edge(r)), RcvNxt: packet.Seq(edge(r)),
			WindowScaling: r.IntN(4) > 0, ShiftSent: uint8(r.IntN(16)), ShiftOffered: uint8(r.IntN(16)),
			Timestamps: r.IntN(4) > 0, TSvalSent: edge(r), TSvalSeen: edge(r), SACK: r.IntN(4) > 0,
		}
	}
	client, server := leg(), leg()
	return New(client, server), client, server
}

// edge returns a number that is often near the wrap or sign change of 32 bits.
func edge(r *rand.Rand) uint32 {
	near := uint32(r.IntN(5)) - 2
	switch r.IntN(4) {
	case 0:
		return near
	case 1:
		return 0x80000000 + near
	}
	return r.Uint32()
}

// passage is a random packet of one direction, before and after its translation. want is made from what the design's
// table says, by composing the packet anew, so that the oracle shares no code with the translation.
type passage struct{ sent, want packet.Spec }

func randomPassage(r *rand.Rand, from, to Leg) passage {
	payload := make([]byte, r.IntN(3)*r.IntN(1500))
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	flags := packet.Flags(r.Uint32()) &^ packet.SYN
	if r.IntN(3) > 0 {
		flags |= packet.ACK
	}
	if !flags.Has(packet.ACK) {
		flags |= packet.RST
	}
	sent := packet.Spec{
		SrcMAC: from.PeerMAC, DstMAC: from.LocalMAC, Src: from.Peer, Dst: from.Local, TOS: uint8(r.Uint32()),
		TTL: uint8(2 + r.IntN(254)), ID: uint16(r.Uint32()), DontFragment: r.IntN(2) == 0, FlowLabel: r.Uint32() & 0xfffff,
		Seq: packet.Seq(edge(r)), Ack: packet.Seq(edge(r)), Flags: flags, Window: uint16(r.Uint32()),
		Urgent: uint16(r.Uint32()), Payload: payload, Padding: r.IntN(3),
	}
	hasAck := flags.Has(packet.ACK)
	want := sent
	want.Flags, want.Urgent = sent.Flags&^packet.URG, 0
	want.SrcMAC, want.DstMAC, want.Src, want.Dst = to.LocalMAC, to.PeerMAC, to.Local, to.Peer
	want.TTL--
	// A byte with the sender's number x is as far from the receiver's current number as x was from the sender's.
	want.Seq = to.SndNxt + (sent.Seq - from.RcvNxt)
	ack := func(n packet.Seq) packet.Seq { return to.RcvNxt + (n - from.SndNxt) }
	if hasAck {
		want.Ack = ack(sent.Ack)
	}
	bytesOpen := uint64(sent.Window)
	if from.WindowScaling {
		bytesOpen *= 1 << min(from.ShiftOffered, 14)
	}
	if to.WindowScaling {
		bytesOpen /= 1 << min(to.ShiftSent, 14)
	}
	if sent.Window > 0 {
		bytesOpen = max(bytesOpen, 1)
	}
	want.Window = uint16(min(bytesOpen, 65535))

	for len(sent.Options) < packet.MaxOptions {
		room := packet.MaxOptions - len(sent.Options)
		switch kind := r.IntN(5); {
		case kind == 0 && room >= packet.TimestampsSize:
			val, ecr := edge(r), edge(r)
			sent.Options = sent.Options.AppendTimestamps(val, ecr)
			if !from.Timestamps || !to.Timestamps {
				want.Options = want.Options.AppendNOP(packet.TimestampsSize)
				continue
			}
			val = to.TSvalSent + (val - from.TSvalSeen)
			if hasAck {
				ecr = to.TSvalSeen + (ecr - from.TSvalSent)
			}
			want.Options = want.Options.AppendTimestamps(val, ecr)
		case kind == 1 && room >= 2+packet.SACKBlockSize:
			var blocks, shifted []packet.SACKBlock
			for range 1 + r.IntN((room-2)/packet.SACKBlockSize) {
				b := packet.SACKBlock{Left: packet.Seq(edge(r)), Right: packet.Seq(edge(r))}
				blocks, shifted = append(blocks, b), append(shifted, packet.SACKBlock{Left: ack(b.Left), Right: ack(b.Right)})
			}
			sent.Options = sent.Options.AppendSACK(blocks...)
			if !from.SACK || !to.SACK {
				want.Options = want.Options.AppendNOP(2 + len(blocks)*packet.SACKBlockSize)
				continue
			}
			want.Options = want.Options.AppendSACK(shifted...)
		case kind == 2:
			sent.Options, want.Options = sent.Options.AppendNOP(1), want.Options.AppendNOP(1)
		case kind == 3 && room >= 5:
			other := []byte{254, 5, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
			sent.Options, want.Options = append(sent.Options, other...), append(want.Options, other...)
		case kind == 4:
			return passage{sent, want}
		}
	}
	return passage{sent, want}
}

const passages = 20000

// The translation of any packet is the packet one would build from scratch, checksums included.
func TestTranslateEqualsComposingAnew(t *testing.T) {
	r := newRand(t)
	eachFamily(t, func(t *testing.T, f family) {
		for range passages {
			s, client, server := randomSplice(r, f)
			d, p := s.ToServer, randomPassage(r, client, server)
			if r.IntN(2) == 0 {
				d, p = s.ToClient, randomPassage(r, server, client)
			}
			if r.IntN(3) == 0 {
				p.sent.Checksum, p.want.Checksum = packet.SumPartial, packet.SumPartial
			}
			if got, want := translated(t, d, p.sent), packet.Build(p.want); !bytes.Equal(got, want) {
				t.Fatalf("%+v\nof   % x\ngot  % x\nwant % x", d, packet.Build(p.sent), got, want)
			}
		}
	})
}

// A wrong checksum stays wrong by the same amount: the receiver still notices.
func TestTranslateKeepsAWrongChecksumWrong(t *testing.T) {
	r := newRand(t)
	eachFamily(t, func(t *testing.T, f family) {
		for range passages / 4 {
			s, client, server := randomSplice(r, f)
			p := randomPassage(r, client, server)
			frame := packet.Build(p.sent)
			parsed, _ := packet.Parse(frame)
			errorBy := uint16(1 + r.IntN(0xfffe)) // in one's complement: neither of the two zeros
			add := func(check uint16) uint16 { return packet.Sum([]byte{byte(check >> 8), byte(check)}, errorBy) }
			parsed.TCP().SetChecksum(add(parsed.TCP().Checksum()))
			if f.name == "IPv4" {
				parsed.IPv4().SetChecksum(add(parsed.IPv4().Checksum()))
			}
			if got := s.ToServer.Translate(frame); got != Translated {
				t.Fatal(got)
			}
			same := func(a, b uint16) bool { return a%0xffff == b%0xffff }
			parsed, _ = packet.Parse(frame)
			if want := add(parsed.TransportChecksum()); !same(parsed.TCP().Checksum(), want) {
				t.Fatalf("TCP checksum: got %#04x, want %#04x", parsed.TCP().Checksum(), want)
			}
			if f.name == "IPv4" {
				right, _ := packet.Parse(packet.Build(p.want))
				if want := add(right.IPv4().Checksum()); !same(parsed.IPv4().Checksum(), want) {
					t.Fatalf("IPv4 checksum: got %#04x, want %#04x", parsed.IPv4().Checksum(), want)
				}
			}
		}
	})
}

// inverse returns the direction that undoes d, except TTL and losses by rounding or stripping.
func inverse(d Direction, src, dst packet.MAC) Direction {
	return Direction{
		Match: d.Rewrite, Rewrite: d.Match, SrcMAC: src, DstMAC: dst, DeltaSeq: -d.DeltaSeq, DeltaAck: -d.DeltaAck,
		Timestamps: d.Timestamps, DeltaTSval: -d.DeltaTSval, DeltaTSecr: -d.DeltaTSecr, SACK: d.SACK, Window: d.Window.inverse(),
	}
}

// Translating and undoing restores the packet, two hops later.
func TestTranslateThenInverseIsIdentityButForTTL(t *testing.T) {
	r := newRand(t)
	eachFamily(t, func(t *testing.T, f family) {
		for range passages {
			_, client, server := randomSplice(r, f)
			client.SACK, server.SACK, client.Timestamps, server.Timestamps = true, true, true, true
			server.WindowScaling, server.ShiftSent = client.WindowScaling, client.ShiftOffered
			d, p := New(client, server).ToServer, randomPassage(r, client, server)
			p.sent.TTL = uint8(3 + r.IntN(253))
			frame := translated(t, d, p.sent)
			if got := inverse(d, client.PeerMAC, client.LocalMAC).Translate(frame); got != Translated {
				t.Fatal(got)
			}
			p.sent.TTL -= 2
			p.sent.Flags, p.sent.Urgent = p.sent.Flags&^packet.URG, 0
			if want := packet.Build(p.sent); !bytes.Equal(frame, want) {
				t.Fatalf("%+v\ngot  % x\nwant % x", d, frame, want)
			}
		}
	})
}

// An error about any packet of ToServer comes back to the client with what the client sent.
func TestTranslateICMPUndoesTheOtherDirection(t *testing.T) {
	r := newRand(t)
	eachFamily(t, func(t *testing.T, f family) {
		for range passages / 4 {
			_, client, server := randomSplice(r, f)
			client.SACK, server.SACK, client.Timestamps, server.Timestamps = true, true, true, true
			server.WindowScaling, server.ShiftSent = client.WindowScaling, client.ShiftOffered
			s, p := New(client, server), randomPassage(r, client, server)
			p.sent.Padding = 0
			sent := translated(t, s.ToServer, p.sent)
			p.sent.TTL--
			p.sent.Flags, p.sent.Urgent = p.sent.Flags&^packet.URG, 0
			original := packet.Build(p.sent)[packet.EthernetSize:]
			header := f.ipSize + packet.TCPSize + (len(p.sent.Options)+3)/4*4
			n := header + r.IntN(len(original)-header+1)
			frame := packet.BuildICMP(packet.ICMPSpec{
				Src: f.hop, Dst: server.Local.Addr(), Type: f.tooBig, Code: f.tooBigCode, MTU: r.Uint32() & 0xffff,
				Quote: sent[packet.EthernetSize:][:n],
			})
			if got := s.ToClient.TranslateICMP(frame); got != Translated {
				t.Fatal(got)
			}
			parsed, err := packet.Parse(frame)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(parsed.Payload(), original[:n]) {
				t.Fatalf("%+v\ngot  % x\nwant % x", s.ToClient, parsed.Payload(), original[:n])
			}
			if got, want := parsed.ICMP().Checksum(), parsed.TransportChecksum(); got != want {
				t.Fatalf("ICMP checksum: got %#04x, want %#04x", got, want)
			}
		}
	})
}
