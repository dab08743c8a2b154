package handoff_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"baton/controller/handoff"
	"baton/controller/sessions"
	"baton/forwarder/model"
	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
	"baton/splice"
)

// line is switches 1, 2, … of the reference model: port 1 is towards the client, port 2 towards the surrogate.
type line struct {
	t        *testing.T
	switches []*model.Switch
}

func newLine(t *testing.T, n int) *line {
	l := &line{t: t}
	for range n {
		s := &model.Switch{Pipeline: pipeline.New(pipeline.Limits{Tables: 4})}
		for p := openflow.PortNo(1); p <= 3; p++ {
			s.Ports = append(s.Ports, model.Port{No: p, There: true, Live: true})
		}
		l.switches = append(l.switches, s)
	}
	return l
}

func (l *line) add(sw uint64, m openflow.Message) {
	l.t.Helper()
	if err := openflow.Check(m); err != nil {
		l.t.Fatalf("%+v: %v", m, err)
	}
	if _, err := l.switches[sw-1].Pipeline.Apply(time.Time{}, m); err != nil {
		l.t.Fatalf("%+v: %v", m, err)
	}
}

// carry brings a frame from one end to the other, and returns it, or where it was lost.
func (l *line) carry(frame []byte, back bool) ([]byte, string) {
	i, step, in, out := 0, 1, openflow.PortNo(1), openflow.PortNo(2)
	if back {
		i, step, in, out = len(l.switches)-1, -1, 2, 1
	}
	for ; i >= 0 && i < len(l.switches); i += step {
		r := l.switches[i].Receive(in, frame)
		if len(r.Sent) != 1 || r.Sent[0].Port != out {
			return nil, fmt.Sprintf("switch %d sends %+v", i+1, r.Sent)
		}
		frame = r.Sent[0].Frame
	}
	return frame, ""
}

// pair is a random client's session and leg that fit.
func pair(r *rand.Rand, six bool) handoff.Pair {
	end := func() netip.AddrPort {
		var b [16]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		b[0] = 10
		a := netip.AddrFrom16(b)
		if !six {
			a = netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrPortFrom(a, uint16(r.Uint32()))
	}
	mac := func() packet.MAC {
		return packet.MAC{2, 1, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
	}
	near := func() uint32 { return []uint32{0, 0x80000000, r.Uint32()}[r.IntN(3)] + uint32(r.IntN(9)) - 4 }
	stamps, sack := r.IntN(2) == 0, r.IntN(2) == 0
	leg := func(local packet.MAC) splice.Leg {
		return splice.Leg{
			Peer: end(), Local: end(), PeerMAC: mac(), LocalMAC: local, SndNxt: packet.Seq(near()), RcvNxt: packet.Seq(near()),
			WindowScaling: r.IntN(3) > 0, ShiftSent: uint8(r.IntN(15)), ShiftOffered: uint8(r.IntN(15)),
			Timestamps: stamps, TSvalSent: near(), TSvalSeen: near(), SACK: sack, MSSSent: 1460, MSSOffered: 1460,
		}
	}
	router := mac()
	p := handoff.Pair{Client: leg(router), Leg: leg(router)}
	if r.IntN(2) == 0 {
		p.Leg.Peer = netip.AddrPortFrom(p.Leg.Peer.Addr(), p.Client.Local.Port()) // as usual: both are port 80
		p.Leg.Local = netip.AddrPortFrom(p.Client.Local.Addr(), p.Leg.Local.Port())
	}
	return p
}

// segment is a random packet of a session.
func segment(r *rand.Rand, src, dst netip.AddrPort, from, to packet.MAC, l splice.Leg) []byte {
	s := packet.Spec{SrcMAC: from, DstMAC: to, Src: src, Dst: dst, Seq: packet.Seq(r.Uint32()), Ack: packet.Seq(r.Uint32()),
		Flags: packet.Flags(r.Uint32())&^(packet.SYN|packet.URG) | packet.ACK, Window: uint16(r.Uint32()), DontFragment: true, ID: uint16(r.Uint32()), TOS: uint8(r.Uint32())}
	if l.Timestamps {
		s.Options = s.Options.AppendNOP(r.IntN(3)).AppendTimestamps(r.Uint32(), r.Uint32())
	}
	if l.SACK && r.IntN(2) == 0 {
		s.Options = s.Options.AppendSACK(packet.SACKBlock{Left: packet.Seq(r.Uint32()), Right: packet.Seq(r.Uint32())})
	}
	s.Payload = make([]byte, r.IntN(3)*r.IntN(700))
	for i := range s.Payload {
		s.Payload[i] = byte(r.Uint32())
	}
	return packet.Build(s)
}

// translated is what the session's translation makes of a frame; switches of one network do not count down the TTL.
func translated(t *testing.T, d splice.Direction, frame []byte) []byte {
	t.Helper()
	b := bytes.Clone(frame)
	raise(t, b)
	if reason := d.Translate(b); reason != splice.Translated {
		t.Fatal(reason)
	}
	return b
}

// raise adds one to the TTL.
func raise(t *testing.T, b []byte) {
	f, err := packet.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if f.Family == packet.FamilyIPv6 {
		b[f.L3+7]++
		return
	}
	ip := f.IPv4()
	ip.SetTTL(ip.TTL() + 1)
	ip.SetChecksum(0)
	ip.SetChecksum(packet.Checksum(ip[:packet.IPv4Size], 0))
}

// TestPlan: through any line of switches, wherever the core is, the flow mods make of random packets what the pure translation makes of them.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 400 {
		n, pin := 1+r.IntN(4), r.IntN(2) == 0
		core := r.IntN(n)
		p := pair(r, round%2 == 0)
		at := uint64(1 + r.IntN(n)) // the request router's switch
		p.Router = sessions.Point{Switch: at, Port: 3}
		if err := p.Fit(); err != nil {
			t.Fatal(err)
		}
		var path []handoff.Hop
		for i := range n {
			path = append(path, handoff.Hop{Switch: uint64(i + 1), In: 1, Out: 2})
		}
		plan, err := p.Plan(uint32(round+1), path, func(sw uint64) bool { return sw <= uint64(core+1) }, handoff.Timeouts{Idle: 60, Answer: 3}, pin)
		if err != nil {
			t.Fatal(err)
		}
		l := newLine(t, n)
		for i := range n {
			for mac, out := range map[packet.MAC]openflow.PortNo{p.Client.PeerMAC: 1, p.Leg.PeerMAC: 2} {
				m := openflow.NewFlowMod(openflow.FlowAdd)
				m.Priority, m.Match = 100, openflow.Match{}.MAC(openflow.FieldEthDst, mac)
				m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: []openflow.Action{openflow.ActionOutput{Port: out}}}}
				l.add(uint64(i+1), m)
			}
		}
		for _, m := range plan.Mods {
			l.add(m.Switch, m.FlowMod)
			if m.Cookie != 0xb702<<48|uint64(round+1) {
				t.Fatalf("cookie %x", m.Cookie)
			}
		}
		s := splice.New(p.Client, p.Leg)
		for range 8 {
			compare(t, r, l, p, s, round)
		}
		silent(t, r, l, p, at)
	}
}

// compare sends a packet each way.
func compare(t *testing.T, r *rand.Rand, l *line, p handoff.Pair, s splice.Splice, round int) {
	t.Helper()
	there := segment(r, p.Client.Peer, p.Client.Local, p.Client.PeerMAC, p.Client.LocalMAC, p.Client)
	want := translated(t, s.ToServer, there)
	if got, lost := l.carry(there, false); lost != "" || !bytes.Equal(got, want) {
		t.Fatalf("round %d, to the surrogate: %s\n%x\n%x", round, lost, got, want)
	}
	here := segment(r, p.Leg.Peer, p.Leg.Local, p.Leg.PeerMAC, p.Leg.LocalMAC, p.Leg)
	want = translated(t, s.ToClient, here)
	if got, lost := l.carry(here, true); lost != "" || !bytes.Equal(got, want) {
		t.Fatalf("round %d, to the client: %s\n%x\n%x", round, lost, got, want)
	}
}

// silent: what the router's sockets say goes nowhere; a session that the client opens to the surrogate itself is not touched.
func silent(t *testing.T, r *rand.Rand, l *line, p handoff.Pair, at uint64) {
	t.Helper()
	for _, frame := range [][]byte{
		segment(r, p.Client.Local, p.Client.Peer, p.Client.LocalMAC, p.Client.PeerMAC, p.Client),
		segment(r, p.Leg.Local, p.Leg.Peer, p.Leg.LocalMAC, p.Leg.PeerMAC, p.Leg),
	} {
		if res := l.switches[at-1].Receive(3, frame); len(res.Sent) > 0 {
			t.Fatalf("the router's packets go to %+v", res.Sent)
		}
	}
	own := segment(r, p.Client.Peer, p.Leg.Peer, p.Client.PeerMAC, p.Leg.PeerMAC, p.Client)
	if got, lost := l.carry(own, false); lost != "" || !bytes.Equal(got, own) {
		t.Fatalf("the client's own session with the surrogate: %s\n%x\n%x", lost, got, own)
	}
	answer := segment(r, p.Leg.Peer, p.Client.Peer, p.Leg.PeerMAC, p.Client.PeerMAC, p.Client)
	if got, lost := l.carry(answer, true); lost != "" || !bytes.Equal(got, answer) {
		t.Fatalf("its answer: %s\n%x\n%x", lost, got, answer)
	}
}

// TestEquations: the increments are those of the paper's equations 1 to 4.
func TestEquations(t *testing.T) {
	var srs, scr, src, ssr, rrs, rcr uint32 = 4294967000, 17, 900, 3000000000, 512, 78
	p := pair(rand.New(rand.NewPCG(3, 4)), false)
	// An initial sequence number is that of the SYN, which counts as a byte on both sessions.
	p.Client.RcvNxt, p.Client.SndNxt = packet.Seq(scr+1+rcr), packet.Seq(src+1)
	p.Leg.SndNxt, p.Leg.RcvNxt = packet.Seq(srs+1+rrs), packet.Seq(ssr+1)
	plan, err := p.Plan(1, []handoff.Hop{{Switch: 1, In: 1, Out: 2}, {Switch: 2, In: 1, Out: 2}}, func(sw uint64) bool { return sw == 2 }, handoff.Timeouts{Idle: 60, Answer: 3}, false)
	if err != nil {
		t.Fatal(err)
	}
	seqCS := (srs - scr) + (rrs - rcr) // equation 1
	seqSC := src - ssr                 // equation 3
	for label, want := range map[string][2]uint32{"flow mod 4": {seqCS, -seqSC}, "flow mod 2": {seqSC, -seqCS}} {
		found := false
		for _, m := range plan.Mods {
			if m.Label != label {
				continue
			}
			found = true
			for _, a := range m.Instructions[0].(openflow.InstructionApplyActions).Actions {
				switch a := a.(type) {
				case openflow.ActionIncSeq:
					if a.By != want[0] {
						t.Errorf("%s: inc_seq(%d), want %d", label, a.By, want[0])
					}
				case openflow.ActionIncAck:
					if a.By != want[1] {
						t.Errorf("%s: inc_ack(%d), want %d", label, a.By, want[1])
					}
				}
			}
		}
		if !found {
			t.Errorf("no %s: %v", label, plan.Mods)
		}
	}
}

// TestWatchedIsValid: what every switch gets is in order, and for IPv6 as well.
func TestWatchedIsValid(t *testing.T) {
	for _, host := range []string{"10.0.0.%d", "[fd00::%d]"} {
		at := func(n int, port int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf(host+":%d", n, port)) }
		a := handoff.Addresses{
			Services:   []handoff.Service{{Address: at(1, 80)}, {Address: at(2, 80), Routers: []netip.Addr{at(3, 1).Addr(), at(4, 1).Addr()}}},
			Surrogates: []handoff.Surrogate{{Name: "a", Address: at(5, 80)}, {Name: "b", Address: at(6, 8080)}},
		}
		all := a.Watched()
		if want := 2*3 + 3*2*3; len(all) != want {
			t.Errorf("%d entries, want %d", len(all), want)
		}
		l := newLine(t, 1)
		for _, m := range all {
			l.add(1, m)
		}
	}
}
