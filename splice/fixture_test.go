package splice

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"baton/packet"
)

// newRand returns a generator whose seed is in the test's log.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// family holds the ends of a splice and what the tests name after it.
type family struct {
	name                            string
	client, vip, router, surrogate  netip.AddrPort
	hop                             netip.Addr // reports errors
	ipSize                          int
	tooBig, tooBigCode, timeExpired uint8
}

// Every test of the translation runs over both.
var families = []family{
	{
		"IPv4",
		netip.MustParseAddrPort("192.0.2.7:49152"), netip.MustParseAddrPort("203.0.113.9:80"),
		netip.MustParseAddrPort("10.2.1.1:40001"), netip.MustParseAddrPort("10.2.1.2:8080"),
		netip.MustParseAddr("10.9.9.1"), packet.IPv4Size, packet.ICMPv4Unreachable, packet.ICMPv4CodeFragNeeded,
		packet.ICMPv4TimeExceeded,
	},
	{
		"IPv6",
		netip.MustParseAddrPort("[2001:db8::7]:49152"), netip.MustParseAddrPort("[2001:db8:9::9]:80"),
		netip.MustParseAddrPort("[fd00:2:1::1]:40001"), netip.MustParseAddrPort("[fd00:2:1::2]:8080"),
		netip.MustParseAddr("fd00:9:9::1"), packet.IPv6Size, packet.ICMPv6PacketTooBig, 0, packet.ICMPv6TimeExceeded,
	},
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

func (f family) legs() (client, server Leg) {
	client = Leg{
		Peer: f.client, Local: f.vip, PeerMAC: clientMAC, LocalMAC: routerMAC, SndNxt: vipNext, RcvNxt: clientNext,
		WindowScaling: true, ShiftSent: 7, ShiftOffered: 6, Timestamps: true, TSvalSent: 0x10, TSvalSeen: 0xfffffff0,
		SACK: true, MSSSent: 1400, MSSOffered: 1460,
	}
	server = Leg{
		Peer: f.surrogate, Local: f.router, PeerMAC: surrogateMAC, LocalMAC: routerBackMAC, SndNxt: routerNext,
		RcvNxt: surrogateNext, WindowScaling: true, ShiftSent: 9, ShiftOffered: 5, Timestamps: true,
		TSvalSent: 0x50, TSvalSeen: 0x7fffffff, SACK: true, MSSSent: 1400, MSSOffered: 1460,
	}
	return client, server
}

func (f family) splice() Splice { return New(f.legs()) }

// fromClient is a packet from the client, fromSurrogate one from the surrogate.
func (f family) fromClient() packet.Spec {
	return packet.Spec{
		SrcMAC: clientMAC, DstMAC: routerMAC, Src: f.client, Dst: f.vip, TOS: 0xb8, TTL: 64, ID: 0x1234,
		DontFragment: true, FlowLabel: 0x12345, Seq: clientNext, Ack: vipNext, Flags: packet.ACK | packet.PSH,
		Window: 1000, Payload: []byte("GET / HTTP/1.1\r\n"),
	}
}

func (f family) fromSurrogate() packet.Spec {
	return packet.Spec{
		SrcMAC: surrogateMAC, DstMAC: routerBackMAC, Src: f.surrogate, Dst: f.router, TOS: 0x02, TTL: 60, ID: 0xffff,
		FlowLabel: 0xfffff, Seq: surrogateNext, Ack: routerNext, Flags: packet.ACK, Window: 1000,
		Payload: []byte("HTTP/1.1 200 OK\r\n\r\nodd"),
	}
}

// eachFamily runs a test over IPv4 and IPv6.
func eachFamily(t *testing.T, test func(t *testing.T, f family)) {
	t.Helper()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// translated builds s and requires that d forwards it.
func translated(t testing.TB, d Direction, s packet.Spec) []byte {
	t.Helper()
	frame := packet.Build(s)
	size := len(frame)
	translate := d.Translate
	if s.Checksum == packet.SumPartial {
		translate = d.TranslatePartial
	}
	if reason := translate(frame); reason != Translated {
		t.Fatalf("translate: got %v, want %v", reason, Translated)
	}
	if len(frame) != size {
		t.Fatalf("length: got %d, want %d", len(frame), size)
	}
	return frame
}

// refused requires that translate returns the reason and does not touch the frame.
func refused(t testing.TB, translate func([]byte) Reason, frame []byte, want Reason) {
	t.Helper()
	before := bytes.Clone(frame)
	if got := translate(frame); got != want {
		t.Errorf("reason: got %v, want %v", got, want)
	}
	if !bytes.Equal(frame, before) {
		t.Errorf("a frame that was not forwarded has changed:\ngot  % x\nwant % x", frame, before)
	}
}

func timestamps(val, ecr uint32) packet.Options {
	return packet.Options{}.AppendNOP(2).AppendTimestamps(val, ecr)
}
