package router

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"baton/datapath/kerneltest"
	"baton/packet"
	"baton/splice"
)

// modelCases is the number of random packets per direction and family.
const modelCases = 3000

// randomLegs are two legs of f's family with random ends and numbers. The router's options are those of the kernel program.
func randomLegs(r *rand.Rand, f family) (client, server splice.Leg) {
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
	leg := func() splice.Leg {
		return splice.Leg{
			Peer: end(), Local: end(), PeerMAC: mac(), LocalMAC: mac(), SndNxt: packet.Seq(edge(r)), RcvNxt: packet.Seq(edge(r)),
			WindowScaling: r.IntN(4) > 0, ShiftSent: OurWscale, ShiftOffered: uint8(r.IntN(16)),
			Timestamps: r.IntN(4) > 0, TSvalSent: edge(r), TSvalSeen: edge(r), SACK: r.IntN(4) > 0,
		}
	}
	return leg(), leg()
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

// randomOptions are options in random order: timestamps and SACK at most once, with others and padding in between.
func randomOptions(r *rand.Rand) packet.Options {
	if r.IntN(3) == 0 { // the usual layout has a fast path
		return packet.Options{}.AppendNOP(2).AppendTimestamps(edge(r), edge(r))
	}
	var o packet.Options
	var ts, sack bool
	for len(o) < packet.MaxOptions {
		room := packet.MaxOptions - len(o)
		switch kind := r.IntN(8); {
		case kind <= 1 && !ts && room >= packet.TimestampsSize:
			o, ts = o.AppendTimestamps(edge(r), edge(r)), true
		case kind <= 3 && !sack && room >= 2+packet.SACKBlockSize:
			var blocks []packet.SACKBlock
			for range 1 + r.IntN((room-2)/packet.SACKBlockSize) {
				blocks = append(blocks, packet.SACKBlock{Left: packet.Seq(edge(r)), Right: packet.Seq(edge(r))})
			}
			o, sack = o.AppendSACK(blocks...), true
		case kind == 4:
			o = o.AppendNOP(1)
		case kind == 5 && room >= 5:
			o = append(o, 254, 5, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()))
		case kind == 6:
			return o
		case kind == 7 && r.IntN(40) == 0: // malformed
			o = append(o, byte([]packet.OptionKind{254, packet.OptionSACK, packet.OptionTimestamps}[r.IntN(3)]))
			if room >= 2 {
				o = append(o, byte(r.IntN(40)))
			}
			return o
		}
	}
	return o
}

func randomPacket(r *rand.Rand, from splice.Leg) packet.Spec {
	payload := make([]byte, r.IntN(3)*r.IntN(1500))
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	flags := packet.Flags(r.Uint32()) &^ packet.SYN
	if r.IntN(3) > 0 {
		flags |= packet.ACK
	}
	if r.IntN(4) > 0 {
		flags &^= packet.RST
	}
	s := packet.Spec{
		SrcMAC: from.PeerMAC, DstMAC: from.LocalMAC, Src: from.Peer, Dst: from.Local, TOS: uint8(r.Uint32()),
		TTL: uint8(2 + r.IntN(254)), ID: uint16(r.Uint32()), DontFragment: r.IntN(2) == 0, FlowLabel: r.Uint32() & 0xfffff,
		Seq: packet.Seq(edge(r)), Ack: packet.Seq(edge(r)), Flags: flags, Window: uint16(r.Uint32()),
		Urgent: uint16(r.Uint32()), Payload: payload, Padding: r.IntN(3), Options: randomOptions(r),
	}
	if r.IntN(50) == 0 {
		s.TTL = 1
	}
	if len(payload) > 0 && flags&(packet.FIN|packet.RST) == 0 && r.IntN(10) == 0 { // checked where it could end a session
		s.Checksum = packet.SumWrong
	}
	return s
}

// verdictOf is the kernel's name for a reason not to translate.
var verdictOf = map[splice.Reason]routerVerdict{
	splice.BadOptions: routerVerdictDROP_BAD_OPTIONS,
	splice.TTL:        routerVerdictDROP_TTL,
	splice.NoACK:      routerVerdictDROP_BAD_FLAGS,
}

// around sets the session's numbers so that a packet of the client, or of the surrogate, is the next one.
func (s *routerSplice) around(sent packet.Spec, toServer bool) {
	snd, rcv := uint32(sent.Ack), uint32(sent.Seq)
	if toServer {
		snd, rcv = uint32(sent.Seq)+s.ToServerSeq, uint32(sent.Ack)+s.ToServerAck
	}
	s.SndNxt, s.SndUna, s.SndEdge, s.SndBase = snd, snd, snd+testWindow, snd-1
	s.RcvNxt, s.RcvAcked, s.RcvEdge, s.RcvBase = rcv, rcv, rcv+testWindow, rcv
}

// The kernel translates every packet as the model does, byte for byte, or drops it for the same reason.
func TestKernelTranslatesAsTheModel(t *testing.T) {
	k := newRig(t)
	r := kerneltest.Rand(t)
	for _, f := range families {
		for _, toServer := range []bool{true, false} {
			name := f.name + " to client"
			if toServer {
				name = f.name + " to server"
			}
			t.Run(name, func(t *testing.T) {
				k.t = t
				for range modelCases {
					k.translateOne(r, f, toServer)
				}
			})
		}
	}
}

func (k *rig) translateOne(r *rand.Rand, f family, toServer bool) {
	t := k.t
	t.Helper()
	client, server := randomLegs(r, f)
	model := splice.New(client, server)
	direction, verdict, from := model.ToClient, routerVerdictTO_CLIENT, server
	if toServer {
		direction, verdict, from = model.ToServer, routerVerdictTO_SERVER, client
	}
	sent := randomPacket(r, from)
	s := spliceOf(client, server)
	s.ClientRequests = 2 // no reset counts as a failed handoff
	if toServer {
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{client.Local: {MSS: 1400}}))
	}
	s.around(sent, toServer)
	k.put(0, s)
	defer func() {
		k.must(k.FreeLeg(0, server.Peer, server.Local))
		_ = k.maps.Flows.Delete(tuple(client.Peer, client.Local)) // a reset removed it
	}()

	frame := packet.Build(sent)
	want := bytes.Clone(frame)
	reason := direction.Translate(want)
	var flags uint32
	if sent.Checksum == packet.SumComplete && sent.Padding == 0 && r.IntN(2) == 0 {
		flags = checksumComplete
	}
	got := k.runWith(frame, flags)
	if reason != splice.Translated {
		if got.verdict != Verdict(verdictOf[reason]) || got.action != actShot {
			t.Fatalf("got verdict %v, action %d; the model says %v\n%+v", got.verdict, got.action, reason, sent)
		}
		return
	}
	if got.verdict != Verdict(verdict) || got.action != actRedirect {
		t.Fatalf("got verdict %v, action %d, want %v\n%+v\n%+v", got.verdict, got.action, Verdict(verdict), sent, s)
	}
	if !bytes.Equal(got.frame, want) {
		t.Fatalf("%+v\n%+v\nof   % x\ngot  % x\nwant % x", sent, s, frame, got.frame, want)
	}
}
