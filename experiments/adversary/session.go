package adversary

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"baton/experiments/adversary/script"
	"baton/lab"
	"baton/packet"
)

// crowd is the adversary's clients: sessions without a kernel, by address.
type crowd struct {
	n *network

	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
	whose    map[netip.AddrPort]script.Script // last script of each address
}

// newCrowd starts to receive.
func newCrowd(n *network) *crowd {
	c := &crowd{n: n, sessions: map[netip.AddrPort]*session{}, whose: map[netip.AddrPort]script.Script{}}
	n.evil.Interface("eth0").Capture(lab.CaptureOptions{Keep: toEvil, Each: func(p lab.Packet) { c.take(p.Data) }})
	return c
}

// toEvil reports whether an Ethernet frame is IPv4 and to one of the adversary's addresses.
func toEvil(frame []byte) bool {
	if len(frame) < 34 || packet.Ethernet(frame).Type() != packet.EtherTypeIPv4 {
		return false
	}
	dst := frame[30:34]
	return dst[0] == 10 && dst[1] == 1 && dst[2] == 0 && dst[3] >= firstEvil && dst[3] < firstEvil+evils
}

func (c *crowd) take(b []byte) {
	f, err := packet.Parse(b)
	if err != nil || f.Protocol != packet.ProtocolTCP {
		return
	}
	c.mu.Lock()
	s := c.sessions[f.Dst]
	c.mu.Unlock()
	if s == nil || s.forgotten() {
		refuse(c.n.wire, f)
		return
	}
	s.take(f)
}

// refuse responds like a host without the connection (RFC 9293, 3.10.7.1).
func refuse(w *wire, f packet.Frame) {
	tcp := f.TCP()
	if tcp.Flags().Has(packet.RST) {
		return
	}
	answer := packet.Spec{Src: f.Dst, Dst: f.Src, Flags: packet.RST, Seq: tcp.Ack()}
	if !tcp.Flags().Has(packet.ACK) {
		answer.Seq, answer.Flags = 0, packet.RST|packet.ACK
		answer.Ack = tcp.Seq().Add(segmentLength(f))
	}
	w.put(packet.Build(answer), 0)
}

// segmentLength counts SYN and FIN, too.
func segmentLength(f packet.Frame) uint32 {
	n := uint32(len(f.Payload()))
	if f.TCP().Flags().Has(packet.SYN) {
		n++
	}
	if f.TCP().Flags().Has(packet.FIN) {
		n++
	}
	return n
}

// session is one of the adversary's sessions.
type session struct {
	crowd  *crowd
	local  netip.AddrPort
	vip    netip.AddrPort
	token  string
	random *rand.Rand
	came   chan struct{} // signals a reception; one at a time

	mu          sync.Mutex
	first       uint32 // number of the first byte
	nxt, una    uint32
	most        uint32 // end of everything sent with a valid checksum
	rcv         uint32 // next byte of the response
	window      uint32 // of the receiver, scaled
	shift       uint8
	stamps      bool
	stampedAt   time.Time
	stampBase   uint32
	peerStamp   uint32
	open, reset bool
	over        bool // by an RST that the peer must have accepted
	finSent     bool
	finCame     bool
	ended       bool // forgotten: its address refuses
	tail        []byte
	foreign     bool // received foreign bytes; reported once
	anew        bool // sent another SYN, whose numbers are not tracked
	tagged      uint16
}

// script is the last one of an address.
func (c *crowd) script(a netip.AddrPort) (s script.Script, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok = c.whose[a]
	return s, ok
}

func (c *crowd) session(local, vip netip.AddrPort, token string, random *rand.Rand, whose script.Script) *session {
	s := &session{crowd: c, local: local, vip: vip, token: token, random: random, came: make(chan struct{}, 1),
		stampBase: random.Uint32(), stampedAt: time.Now()}
	c.mu.Lock()
	c.sessions[local], c.whose[local] = s, whose
	c.mu.Unlock()
	return s
}

func (s *session) forgotten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// take handles a received segment.
func (s *session) take(f packet.Frame) {
	tcp := f.TCP()
	s.mu.Lock()
	if val, _, ok := tcp.Options().Timestamps(); ok {
		s.peerStamp = val
	}
	flags, opened := tcp.Flags(), false
	if flags.Has(packet.SYN | packet.ACK) {
		if !s.open {
			s.open, s.rcv = true, uint32(tcp.Seq())+1
			s.una, s.nxt, s.first = uint32(tcp.Ack()), uint32(tcp.Ack()), uint32(tcp.Ack())
			s.most = s.nxt
			s.shift, _ = tcp.Options().WindowScale()
			opened = true
		}
	} else if flags.Has(packet.RST) {
		s.reset = !s.open || uint32(tcp.Seq()) == s.rcv
	} else {
		s.reset = false // about something else: the peer continues
	}
	if ack := uint32(tcp.Ack()); flags.Has(packet.ACK) && int32(ack-s.una) > 0 && int32(s.nxt-ack) >= 0 {
		s.una = ack
	} else if beyond := int32(ack - s.most); flags.Has(packet.ACK) && !flags.Has(packet.RST) && s.open && beyond > 0 && beyond < vicinity && !s.foreign && !s.anew {
		s.foreign = true
		s.crowd.n.ledger.add(Wrong, "%d bytes of %v were acknowledged that no segment with a right checksum had", beyond, s.local)
	}
	s.window = uint32(tcp.Window()) << s.shift
	s.read(uint32(tcp.Seq()), f.Payload(), flags.Has(packet.FIN))
	s.mu.Unlock()
	if opened { // at once: distant clients get other legs, and the innocents are near
		s.acknowledge(0)
	}
	select {
	case s.came <- struct{}{}:
	default:
	}
}

// read accepts payload in order, and looks for foreign bytes.
func (s *session) read(seq uint32, b []byte, fin bool) {
	if !s.open {
		return
	}
	skip := int32(s.rcv - seq)
	if skip < 0 || int(skip) > len(b) {
		return
	}
	b = b[skip:]
	s.rcv += uint32(len(b))
	if fin {
		s.rcv++
		s.finCame = true
	}
	s.tail = append(s.tail, b...)
	if !s.foreign && bytes.Contains(s.tail, []byte(script.InnocentMark)) {
		s.foreign = true
		s.crowd.n.ledger.add(Wrong, "the adversary's client %v received what is an innocent's: %.300q", s.local, s.tail)
	}
	if keep := len(script.InnocentMark); len(s.tail) > keep {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-keep:]...)
	}
}

// await waits for a reception, and then for a pause.
func (s *session) await(most time.Duration) {
	timeout := time.NewTimer(most)
	defer timeout.Stop()
	select {
	case <-s.came:
	case <-timeout.C:
		return
	}
	for {
		select {
		case <-s.came:
		case <-timeout.C:
			return
		case <-time.After(3 * time.Millisecond):
			return
		}
	}
}

// number evaluates one of a step's numbers. sent: those of the client's bytes, else of received ones.
func (s *session) number(n script.Number, sent bool) uint32 {
	base := s.nxt
	if !sent {
		base = s.rcv
	}
	switch n.From {
	case script.Random:
		base = s.random.Uint32()
	case script.Zero:
		base = 0
	case script.Oldest:
		if sent {
			base = s.una
		}
	case script.First:
		if sent {
			base = s.first
		}
	case script.End:
		if sent {
			base = s.una + s.window
		} else {
			base = s.rcv + 65535
		}
	}
	return base + uint32(n.Plus)
}

// clock is the current timestamp, in ms.
func (s *session) clock() uint32 { return s.stampBase + uint32(time.Since(s.stampedAt).Milliseconds()) }

// options are those of a segment of the session.
func (s *session) options(step script.Step) packet.Options {
	var o packet.Options
	if strings.Contains(step.Flags, "S") || step.Do == script.Open {
		o = o.AppendMSS(1460)
		if step.Do == script.Open {
			o = o.AppendNOP(1).AppendWindowScale(7)
			if step.SACK {
				o = o.AppendSACKPermitted()
			}
		}
	} else if step.SACK {
		o = o.AppendNOP(2).AppendSACK(packet.SACKBlock{Left: packet.Seq(s.random.Uint32()), Right: packet.Seq(s.random.Uint32())})
	}
	if !s.stamps && step.Do != script.Open && step.Stamps == script.StampsRight {
		return o
	}
	return appendStamps(o, step.Stamps, s.clock(), s.peerStamp, s.random)
}

// nearly half of the number space: just still ahead
const half = 1<<31 - 1<<16

func appendStamps(o packet.Options, kind script.Stamps, now, echo uint32, random *rand.Rand) packet.Options {
	if len(o) > packet.MaxOptions-12 {
		return o
	}
	switch kind {
	case script.StampsRight:
		return o.AppendNOP(2).AppendTimestamps(now, echo)
	case script.StampsAhead:
		return o.AppendNOP(2).AppendTimestamps(now+half, echo)
	case script.StampsBehind:
		return o.AppendNOP(2).AppendTimestamps(now-half, echo)
	case script.StampsGarbage:
		return o.AppendNOP(2).AppendTimestamps(random.Uint32(), random.Uint32())
	case script.StampsShort:
		return append(o, byte(packet.OptionTimestamps), 6, 1, 2, 3, 4)
	}
	return o
}

// mostPayload is what fits a frame with any options.
const mostPayload = 1400

// send sends the segments of a step. Valid next bytes advance the session.
func (s *session) send(step script.Step) {
	for range max(step.Times, 1) {
		payload := step.Payload(s.token, s.random)
		s.mu.Lock()
		s.reset, s.over = false, false // it continues anyway
		spec := packet.Spec{Src: s.local, Dst: s.vip, Flags: step.FlagBits(), Window: step.Window, Urgent: step.Urgent,
			Seq: packet.Seq(s.number(step.Seq, true)), Ack: packet.Seq(s.number(step.Ack, false)), Options: s.options(step)}
		if step.BadSum {
			spec.Checksum = packet.SumWrong
		}
		end := uint32(spec.Seq) + uint32(len(payload))
		if !step.BadSum && step.VLAN == s.tagged && int32(uint32(spec.Seq)-s.nxt) <= 0 && int32(end-s.nxt) > 0 && spec.Flags.Has(packet.ACK) &&
			!spec.Flags.Has(packet.RST) && !spec.Flags.Has(packet.SYN) {
			s.nxt = end
		}
		if !step.BadSum && spec.Flags.Has(packet.FIN|packet.ACK) && end == s.nxt && !spec.Flags.Has(packet.SYN) {
			s.nxt++
			s.finSent = true
		}
		s.over = s.ends(step, spec)
		s.sent(step, spec, end)
		if spec.Flags&(packet.SYN|packet.ACK|packet.RST) == packet.SYN && !step.BadSum && !s.open {
			s.tagged = step.VLAN // of the handshake that may come of it
		}
		s.mu.Unlock()
		s.crowd.n.cut(s.crowd.n.wire, spec, payload, step.VLAN)
	}
}

// vicinity bounds the distance of two numbers of one session.
const vicinity = 1 << 20

// sent records the end of what may be acknowledged.
func (s *session) sent(step script.Step, spec packet.Spec, end uint32) {
	if spec.Flags.Has(packet.SYN) {
		s.anew = true
	}
	if spec.Flags.Has(packet.FIN) || s.nxt == s.first && uint32(spec.Ack) == s.rcv+end-s.first+1 {
		end++ // also of what the cookie makes a keepalive: both numbers are off by as much
	}
	if !step.BadSum && int32(end-s.most) < vicinity {
		s.most = laterOf(s.most, end)
	}
}

// laterOf is the later of two numbers of one session.
func laterOf(a, b uint32) uint32 {
	if int32(b-a) > 0 {
		return b
	}
	return a
}

// ends reports whether a segment is an RST that the peer and anything in between must accept: well-formed, with the expected
// numbers.
func (s *session) ends(step script.Step, spec packet.Spec) bool {
	return s.open && !step.BadSum && step.VLAN == s.tagged && step.Stamps != script.StampsShort && spec.Flags.Has(packet.RST) &&
		!spec.Flags.Has(packet.SYN) && uint32(spec.Seq) == s.una && s.una == s.nxt && (!spec.Flags.Has(packet.ACK) || uint32(spec.Ack) == s.rcv)
}

// cut splits a segment into as many frames as its payload needs.
func (n *network) cut(w *wire, spec packet.Spec, payload []byte, vlan uint16) {
	flags := spec.Flags
	for {
		piece := payload[:min(mostPayload, len(payload))]
		payload = payload[len(piece):]
		spec.Payload, spec.Flags = piece, flags
		if len(payload) > 0 {
			spec.Flags &^= packet.FIN
		}
		w.put(packet.Build(spec), vlan)
		n.ledger.segments.Add(1)
		if len(payload) == 0 {
			return
		}
		spec.Seq = spec.Seq.Add(uint32(len(piece)))
	}
}

// acknowledge acknowledges everything received.
func (s *session) acknowledge(flags packet.Flags) {
	s.mu.Lock()
	spec := packet.Spec{Src: s.local, Dst: s.vip, Flags: packet.ACK | flags, Window: 65535, Seq: packet.Seq(s.nxt), Ack: packet.Seq(s.rcv),
		Options: s.options(script.Step{Stamps: script.StampsRight})}
	if flags.Has(packet.FIN) {
		s.nxt++
		s.most = laterOf(s.most, s.nxt)
		s.finSent = true
	}
	vlan, open := s.tagged, s.open
	s.mu.Unlock()
	if open {
		s.crowd.n.cut(s.crowd.n.wire, spec, nil, vlan)
	}
}

// patience is how long the adversary's client waits for a SYN-ACK.
const patience = 500 * time.Millisecond

// connect makes the handshake.
func (s *session) connect(step script.Step) {
	s.mu.Lock()
	s.stamps, s.tagged = step.Stamps != script.StampsNone, step.VLAN
	iss := s.random.Uint32()
	spec := packet.Spec{Src: s.local, Dst: s.vip, Flags: packet.SYN, Window: step.Window, Seq: packet.Seq(iss), Options: s.options(step)}
	if step.BadSum {
		spec.Checksum = packet.SumWrong
	}
	s.mu.Unlock()
	most := patience
	if step.VLAN != 0 || step.BadSum {
		most = 30 * time.Millisecond // no response is expected
	}
	s.crowd.n.cut(s.crowd.n.wire, spec, nil, step.VLAN)
	for deadline := time.After(most); ; {
		select {
		case <-s.came:
		case <-deadline:
			return
		}
		s.mu.Lock()
		open, reset := s.open, s.reset
		s.mu.Unlock()
		if open && step.VLAN != 0 {
			s.crowd.n.ledger.add(Tag, "the VIP answers a SYN of VLAN %d", step.VLAN)
		}
		if open || reset {
			return
		}
	}
}

// leave closes the session as a kernel would.
func (s *session) leave() {
	s.acknowledge(packet.FIN)
	s.await(50 * time.Millisecond)
	s.acknowledge(0)
}

// farewell ends what is left of the session: by an RST at the peer's number, and one after everything sent. A session that has
// ended by TCP's rules gets none, so that a leg that missed its end is found. From then on the address refuses.
func (s *session) farewell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if !s.open || s.reset || s.over || s.finSent && s.finCame && s.una == s.nxt {
		return
	}
	for _, seq := range slices.Compact([]uint32{s.una, s.nxt}) {
		s.crowd.n.wire.put(packet.Build(packet.Spec{Src: s.local, Dst: s.vip, Flags: packet.RST | packet.ACK, Seq: packet.Seq(seq),
			Ack: packet.Seq(s.rcv)}), s.tagged)
	}
}
