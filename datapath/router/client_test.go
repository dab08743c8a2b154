package router

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// client is a minimal client of a session.
type client struct {
	k        *rig
	f        family
	seq, ack packet.Seq // next to send, next expected
	options  packet.Options
	rtt      time.Duration // of its handshake, however long the test takes
	ts       bool
	tsval    uint32
	tsecr    uint32
}

// Options of clients' SYNs.
var (
	fullOptions = packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(0xfffffff0, 0).AppendNOP(1).AppendWindowScale(6)
	bareOptions = packet.Options{}.AppendMSS(1460)
)

// usual is the SYN of the family's usual client.
func (f family) usual() packet.Options {
	return packet.Options{}.AppendMSS(f.mss).AppendSACKPermitted().AppendTimestamps(0xfffffff0, 0).AppendNOP(1).AppendWindowScale(6)
}

// class is the class of legs that fits the family's usual client.
func (f family) class() uint8 { return Pending{MSS: f.mss, Timestamps: true}.Class(testMSS) }

func newClient(k *rig, f family, options packet.Options) *client {
	c := &client{k: k, f: f, seq: clientNext - 1, options: options, rtt: 100 * time.Microsecond}
	c.tsval, _, c.ts = options.Timestamps()
	return c
}

// syn is the client's SYN.
func (c *client) syn() packet.Spec {
	return packet.Spec{
		SrcMAC: clientMAC, DstMAC: routerMAC, Src: c.f.client, Dst: c.f.vip, Seq: c.seq, Flags: packet.SYN, Window: 64240,
		Options: c.options,
	}
}

// connect sends the SYN, takes the SYN-ACK and returns it.
func (c *client) connect(verdict routerVerdict) packet.Frame {
	c.k.t.Helper()
	f := c.k.want(packet.Build(c.syn()), verdict, actRedirect).parsed(c.k.t)
	tcp := f.TCP()
	if tcp.Flags() != packet.SYN|packet.ACK || tcp.Ack() != c.seq+1 {
		c.k.t.Fatalf("SYN-ACK: got %v, ack %d, want ack %d", tcp.Flags(), tcp.Ack(), c.seq+1)
	}
	c.seq, c.ack = c.seq+1, tcp.Seq()+1
	c.k.handshake(tcp.Seq(), c.rtt)
	told, _, ok := tcp.Options().Timestamps()
	c.ts = c.ts && ok
	c.tsecr = told
	return f
}

// handshake sets the duration of the handshake that began with this cookie.
func (k *rig) handshake(cookie packet.Seq, rtt time.Duration) {
	k.t.Helper()
	const done = 1 << 31
	slot := uint32(cookie) * 2654435761 >> 16
	k.must(k.maps.Handshakes.Update(slot, routerHandshake{
		Timed: uint64(done|rtt.Microseconds())<<32 | uint64(cookie), Sent: datapath.Clock(),
	}, ebpf.UpdateAny))
}

// packet is the client's next packet.
func (c *client) packet(flags packet.Flags, payload string) packet.Spec {
	s := packet.Spec{
		SrcMAC: clientMAC, DstMAC: routerMAC, Src: c.f.client, Dst: c.f.vip, Seq: c.seq, Ack: c.ack, Flags: flags,
		Window: 1000, Payload: []byte(payload), DontFragment: true,
	}
	if c.ts {
		c.tsval++
		s.Options = packet.Options{}.AppendNOP(2).AppendTimestamps(c.tsval, c.tsecr)
	}
	return s
}

// send runs the client's next packet and counts its bytes as sent.
func (c *client) send(flags packet.Flags, payload string, verdict routerVerdict, action uint32) result {
	c.k.t.Helper()
	r := c.k.want(packet.Build(c.packet(flags, payload)), verdict, action)
	c.seq += packet.Seq(len(payload))
	if flags.Has(packet.FIN) {
		c.seq++
	}
	return r
}

// surrogate is the surrogate's end of a server leg.
type surrogate struct {
	k            *rig
	f            family
	number       uint32
	seq, ack     packet.Seq
	ts           bool
	tsval, tsecr uint32
}

// idle puts leg number n into the pool of surrogate 1; the router's port is the family's plus n.
func (k *rig) idle(n uint32, f family, change ...func(*routerSplice)) *surrogate {
	k.t.Helper()
	_, server := f.legs()
	f.router = datapath.AddrPort(f.router.Addr().As16(), datapath.BigEndian(f.router.Port()+uint16(n)))
	server.Local = f.router
	s := spliceOf(server, server)
	s.State, s.LegClass, s.Surrogate = uint8(Idle), f.class(), 1
	s.Client = routerTuple{}
	s.Flags &^= uint32(routerSpliceFlagSPLICE_CLIENT_SACK | routerSpliceFlagSPLICE_CLIENT_WSCALE)
	s.Request, s.Response, s.Requests, s.ClientRequests = 0, 0, 0, 0
	s.TsSent = datapath.Clock() + 0x7fff0000 - 5
	s.TsEchoed = s.TsSent
	s.ToServerSeq, s.ToServerAck, s.TsToServer, s.TsToClient, s.TsClient, s.ClientShift = 0, 0, 0, 0, 0, 0
	for _, c := range change {
		c(&s)
	}
	k.put(n, s)
	return &surrogate{
		k: k, f: f, number: n, seq: packet.Seq(s.RcvNxt), ack: packet.Seq(s.SndNxt),
		ts: s.Flags&uint32(routerSpliceFlagSPLICE_TS) != 0, tsval: s.TsServer, tsecr: s.TsSent,
	}
}

// takes makes the surrogate receive what the kernel sent: in sequence, or the test fails.
func (s *surrogate) takes(r result) packet.Frame {
	s.k.t.Helper()
	f := r.parsed(s.k.t)
	tcp := f.TCP()
	if f.Src != s.f.router || f.Dst != s.f.surrogate {
		s.k.t.Fatalf("got a packet from %v to %v, want %v to %v", f.Src, f.Dst, s.f.router, s.f.surrogate)
	}
	if tcp.Checksum() != f.TransportChecksum() {
		s.k.t.Fatalf("checksum: got %#04x, want %#04x", tcp.Checksum(), f.TransportChecksum())
	}
	if len(f.Payload()) == 0 && s.ack.Less(tcp.Seq()) {
		s.ack = tcp.Seq() // the client's window, advertised after a request that went first: see TestWindowOfTheNextClient
	}
	if tcp.Seq() != s.ack || tcp.Flags().Has(packet.ACK) && s.seq.Less(tcp.Ack()) {
		s.k.t.Fatalf("surrogate: got seq %d, ack %d, want seq %d", tcp.Seq(), tcp.Ack(), s.ack)
	}
	s.ack += packet.Seq(len(f.Payload()))
	if tcp.Flags().Has(packet.FIN) {
		s.ack++
	}
	if val, _, ok := tcp.Options().Timestamps(); ok {
		if int32(val-s.tsecr) < 0 {
			s.k.t.Fatalf("surrogate: TSval went back from %d to %d", s.tsecr, val)
		}
		s.tsecr = val
	}
	return f
}

// takes makes the client receive what the kernel sent: in sequence, or the test fails.
func (c *client) takes(r result) packet.Frame {
	c.k.t.Helper()
	return c.takesFrame(r.parsed(c.k.t))
}

func (c *client) takesFrame(f packet.Frame) packet.Frame {
	c.k.t.Helper()
	tcp := f.TCP()
	if f.Src != c.f.vip || f.Dst != c.f.client {
		c.k.t.Fatalf("got a packet from %v to %v, want %v to %v", f.Src, f.Dst, c.f.vip, c.f.client)
	}
	if tcp.Checksum() != f.TransportChecksum() {
		c.k.t.Fatalf("checksum: got %#04x, want %#04x", tcp.Checksum(), f.TransportChecksum())
	}
	if tcp.Seq() != c.ack {
		c.k.t.Fatalf("client: got seq %d, want %d", tcp.Seq(), c.ack)
	}
	c.ack += packet.Seq(len(f.Payload()))
	if tcp.Flags().Has(packet.FIN) {
		c.ack++
	}
	if val, _, ok := tcp.Options().Timestamps(); ok {
		if int32(val-c.tsecr) < 0 {
			c.k.t.Fatalf("client: TSval went back from %d to %d", c.tsecr, val)
		}
		c.tsecr = val
	}
	return f
}

// packet is the surrogate's next packet.
func (s *surrogate) packet(flags packet.Flags, payload string) packet.Spec {
	p := packet.Spec{
		SrcMAC: surrogateMAC, DstMAC: routerBackMAC, Src: s.f.surrogate, Dst: s.f.router, Seq: s.seq, Ack: s.ack,
		Flags: flags, Window: 1000, Payload: []byte(payload), DontFragment: true,
	}
	if s.ts {
		s.tsval++
		p.Options = packet.Options{}.AppendNOP(2).AppendTimestamps(s.tsval, s.tsecr)
	}
	return p
}

func (s *surrogate) send(flags packet.Flags, payload string, verdict routerVerdict, action uint32) result {
	s.k.t.Helper()
	r := s.k.want(packet.Build(s.packet(flags, payload)), verdict, action)
	s.seq += packet.Seq(len(payload))
	if flags.Has(packet.FIN) {
		s.seq++
	}
	return r
}

// exchange runs a request and its response, all acknowledged.
func exchange(c *client, s *surrogate, request, response string, verdict routerVerdict) {
	c.k.t.Helper()
	s.takes(c.send(packet.ACK|packet.PSH, request, verdict, actRedirect))
	c.takes(s.send(packet.ACK|packet.PSH, response, routerVerdictTO_CLIENT, actRedirect))
	s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
}

const (
	plainRequest  = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
	plainResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

// spliced returns a session after its first exchange: client on leg 1 of surrogate 1.
func spliced(t *testing.T, f family) (*rig, *client, *surrogate) {
	t.Helper()
	k := newRig(t)
	k.vip(f)
	s := k.idle(1, f)
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
	return k, c, s
}
