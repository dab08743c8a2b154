package router

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
	"baton/splice"
)

// family holds the ends of a session.
type family struct {
	name                           string
	client, vip, router, surrogate netip.AddrPort
	hop                            netip.Addr // reports errors
	mss                            uint16     // usual
}

var families = []family{
	{
		"IPv4",
		netip.MustParseAddrPort("192.0.2.7:49152"), netip.MustParseAddrPort("203.0.113.9:80"),
		netip.MustParseAddrPort("10.2.1.1:40001"), netip.MustParseAddrPort("10.2.1.2:8080"),
		netip.MustParseAddr("198.51.100.1"), 1460,
	},
	{
		"IPv6",
		netip.MustParseAddrPort("[2001:db8::7]:49152"), netip.MustParseAddrPort("[2001:db8:9::9]:80"),
		netip.MustParseAddrPort("[fd00:2:1::1]:40001"), netip.MustParseAddrPort("[fd00:2:1::2]:8080"),
		netip.MustParseAddr("fd00:9:9::1"), 1440,
	},
}

func eachFamily(t *testing.T, test func(t *testing.T, f family)) {
	t.Helper()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

var (
	clientMAC     = packet.MAC{2, 0, 0, 0, 0, 1}
	routerMAC     = packet.MAC{2, 0, 0, 0, 0, 2}
	routerBackMAC = packet.MAC{2, 0, 0, 0, 0, 3}
	surrogateMAC  = packet.MAC{2, 0, 0, 0, 0, 4}
)

// The numbers of the two legs are around the wrap, in all combinations.
const (
	clientNext    packet.Seq = 0xffffff00 // the client's next byte
	vipNext       packet.Seq = 0x00000010
	routerNext    packet.Seq = 0x00000100 // the same byte as clientNext, for the surrogate
	surrogateNext packet.Seq = 0xfffffff8 // the same byte as vipNext
)

// legs are a client leg and a server leg with all options.
func (f family) legs() (client, server splice.Leg) {
	client = splice.Leg{
		Peer: f.client, Local: f.vip, PeerMAC: clientMAC, LocalMAC: routerMAC, SndNxt: vipNext, RcvNxt: clientNext,
		WindowScaling: true, ShiftSent: OurWscale, ShiftOffered: 6, Timestamps: true, TSvalSent: 0x10,
		TSvalSeen: 0xfffffff0, SACK: true,
	}
	server = splice.Leg{
		Peer: f.surrogate, Local: f.router, PeerMAC: surrogateMAC, LocalMAC: routerBackMAC, SndNxt: routerNext,
		RcvNxt: surrogateNext, WindowScaling: true, ShiftSent: OurWscale, ShiftOffered: 5, Timestamps: true,
		TSvalSent: 0x50, TSvalSeen: 0x7fffffff, SACK: true,
	}
	return client, server
}

// testWindow is the window advertised by the ends of the tests' sessions.
const testWindow = 1 << 20

// spliceOf is the kernel's record of a session on two legs, at the legs' numbers.
func spliceOf(client, server splice.Leg) routerSplice {
	now := datapath.Clock()
	s := routerSplice{
		State: uint8(Active), LegClass: usualClass,
		ServerShift: min(server.ShiftOffered, 14), ClientShift: min(client.ShiftOffered, 14),
		Server: tuple(server.Peer, server.Local), Client: tuple(client.Peer, client.Local),
		SndNxt: uint32(server.SndNxt), SndUna: uint32(server.SndNxt),
		RcvNxt: uint32(server.RcvNxt), RcvAcked: uint32(server.RcvNxt), RcvBase: uint32(server.RcvNxt),
		ToServerSeq: server.SndNxt.Sub(client.RcvNxt), ToServerAck: server.RcvNxt.Sub(client.SndNxt),
		TsToServer: server.TSvalSent - client.TSvalSeen, TsToClient: client.TSvalSent - server.TSvalSeen,
		TsServer: server.TSvalSeen, TsSent: server.TSvalSent, TsEchoed: server.TSvalSent, TsClient: client.TSvalSent,
		SndBase: uint32(server.SndNxt) - 1, SndAhead: uint32(server.SndNxt), SndEdge: uint32(server.SndNxt) + testWindow, SndSpan: testWindow,
		RcvEdge: uint32(server.RcvNxt) + testWindow, RcvSpan: testWindow,
		Request: uint8(routerFramingFRAMING_OPAQUE), Response: uint8(routerFramingFRAMING_OPAQUE),
		Requests: 1, ClientRequests: 1, ServerMss: 1460, Seen: now, Since: now, Opened: now,
	}
	for flag, on := range map[routerSpliceFlag]bool{
		routerSpliceFlagSPLICE_TS:            client.Timestamps && server.Timestamps,
		routerSpliceFlagSPLICE_CLIENT_SACK:   client.SACK,
		routerSpliceFlagSPLICE_SERVER_SACK:   server.SACK,
		routerSpliceFlagSPLICE_CLIENT_WSCALE: client.WindowScaling,
		routerSpliceFlagSPLICE_SERVER_WSCALE: server.WindowScaling,
	} {
		if on {
			s.Flags |= uint32(flag)
		}
	}
	const minute = 60000 // no route lookup, however slow the test is
	s.ToServer.Ifindex, s.ToServer.Checked, s.ToServer.Dmac, s.ToServer.Smac = 1, now+minute, server.PeerMAC, server.LocalMAC
	s.ToClient.Ifindex, s.ToClient.Checked, s.ToClient.Dmac, s.ToClient.Smac = 1, now+minute, client.PeerMAC, client.LocalMAC
	return s
}

// put writes a splice, its flows and, if idle, its queue entry.
func (k *rig) put(n uint32, s routerSplice) {
	k.t.Helper()
	k.must(k.used(n))
	k.must(k.maps.Splices.Update(n, &s, ebpf.UpdateAny))
	k.must(k.maps.Flows.Update(s.Server, routerFlow{Splice: n, Side: uint32(routerSideSIDE_SERVER)}, ebpf.UpdateAny))
	switch State(s.State) {
	case Active, Closing:
		k.must(k.maps.Flows.Update(s.Client, routerFlow{Splice: n, Side: uint32(routerSideSIDE_CLIENT)}, ebpf.UpdateAny))
		k.count(s.Surrogate, func(c *routerSurrogate) { c.Active++ })
	case Idle:
		k.must(k.makeQueue(s.Surrogate, s.LegClass))
		k.must(k.putIdle(s.Surrogate, s.LegClass, n))
		k.count(s.Surrogate, func(c *routerSurrogate) {
			c.Idle[s.LegClass]++
			if s.Band == BandFresh {
				c.Fresh[s.LegClass]++
			}
		})
	}
}

func (k *rig) count(surrogate uint16, change func(*routerSurrogate)) {
	k.t.Helper()
	var c routerSurrogate
	k.must(k.maps.Surrogates.Lookup(uint32(surrogate), &c))
	change(&c)
	k.must(k.maps.Surrogates.Update(uint32(surrogate), &c, ebpf.UpdateAny))
}

// vip creates the family's VIP, with all requests to pool 1 and that pool to surrogate 1.
func (k *rig) vip(f family, change ...func(*VIP)) {
	k.t.Helper()
	v := VIP{ID: 3, MSS: 1400, OnePool: true, Pool: 1}
	for _, c := range change {
		c(&v)
	}
	k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: v}))
	k.must(k.SetPool(1, Pool{Policy: RoundRobin, Table: []uint16{1}}))
}

// fromClient is the client's next packet, fromSurrogate the surrogate's.
func (f family) fromClient(payload string) packet.Spec {
	return packet.Spec{
		SrcMAC: clientMAC, DstMAC: routerMAC, Src: f.client, Dst: f.vip, TTL: 64, DontFragment: true,
		Seq: clientNext, Ack: vipNext, Flags: packet.ACK, Window: 1000, Payload: []byte(payload),
		Options: packet.Options{}.AppendNOP(2).AppendTimestamps(0xfffffff8, 0x18),
	}
}

func (f family) fromSurrogate(payload string) packet.Spec {
	return packet.Spec{
		SrcMAC: surrogateMAC, DstMAC: routerBackMAC, Src: f.surrogate, Dst: f.router, TTL: 60, DontFragment: true,
		Seq: surrogateNext, Ack: routerNext, Flags: packet.ACK, Window: 1000, Payload: []byte(payload),
		Options: packet.Options{}.AppendNOP(2).AppendTimestamps(0x80000007, 0x58),
	}
}
