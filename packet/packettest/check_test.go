package packettest

import (
	"net/netip"
	"testing"

	"baton/packet"
)

// recorder counts what a checker reports.
type recorder struct {
	testing.TB
	failures int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failures++ }
func (r *recorder) Fatalf(string, ...any) { r.failures++ }

var (
	src4 = netip.MustParseAddrPort("192.0.2.7:1000")
	dst4 = netip.MustParseAddrPort("198.51.100.9:80")
	src6 = netip.MustParseAddrPort("[2001:db8::7]:1000")
	dst6 = netip.MustParseAddrPort("[2001:db8::9]:80")
	sack = packet.SACKBlock{Left: 5, Right: 9}
)

func spec() packet.Spec {
	return packet.Spec{
		SrcMAC: packet.MAC{1}, DstMAC: packet.MAC{2}, Src: src4, Dst: dst4, TOS: 4, TTL: 5, ID: 6, DontFragment: true,
		FlowLabel: 13, Seq: 7, Ack: 8, Flags: packet.ACK, Window: 9, Urgent: 10, Payload: []byte("body"),
		Options: packet.Options{}.AppendMSS(11).AppendWindowScale(12).AppendTimestamps(1, 2).AppendSACK(sack),
	}
}

// Every checker accepts the packet that it describes and refuses one that differs in its field alone.
func TestCheckers(t *testing.T) {
	four, six, partial := spec(), spec(), spec()
	six.Src, six.Dst = src6, dst6
	partial.Checksum = packet.SumPartial
	with := func(s packet.Spec, change func(*packet.Spec)) []byte { change(&s); return packet.Build(s) }
	quote := packet.Build(four)[packet.EthernetSize:]
	tooBig := packet.ICMPSpec{Src: dst4.Addr(), Dst: src4.Addr(), Type: 3, Code: 4, MTU: 1400, Quote: quote}
	icmp := func(change func(*packet.ICMPSpec)) []byte { s := tooBig; change(&s); return packet.BuildICMP(s) }
	options := append(packet.Options(nil), four.Options...)
	options = append(options, 0)
	tests := []struct {
		name      string
		check     Checker
		good, bad []byte
	}{
		{"MACs", MACs(four.SrcMAC, four.DstMAC), packet.Build(four), with(four, func(s *packet.Spec) { s.SrcMAC[5] = 1 })},
		{"Src", Src(src4), packet.Build(four), with(four, func(s *packet.Spec) { s.Src = netip.AddrPortFrom(src4.Addr(), 1) })},
		{"Dst", Dst(dst4), packet.Build(four), with(four, func(s *packet.Spec) { s.Dst = netip.AddrPortFrom(src4.Addr(), 80) })},
		{"TTL", TTL(5), packet.Build(six), with(six, func(s *packet.Spec) { s.TTL = 6 })},
		{"TOS of IPv4", TOS(4), packet.Build(four), with(four, func(s *packet.Spec) { s.TOS = 5 })},
		{"TOS of IPv6", TOS(4), packet.Build(six), with(six, func(s *packet.Spec) { s.TOS = 5 })},
		{"Fragmenting", Fragmenting(6, true), packet.Build(four), with(four, func(s *packet.Spec) { s.DontFragment = false })},
		{"Fragmenting of IPv6", Fragmenting(6, true), packet.Build(four), packet.Build(six)},
		{"FlowLabel", FlowLabel(13), packet.Build(six), with(six, func(s *packet.Spec) { s.FlowLabel = 14 })},
		{"FlowLabel of IPv4", FlowLabel(13), packet.Build(six), packet.Build(four)},
		{"Checksums", Checksums(), packet.Build(four), with(four, func(s *packet.Spec) { s.Checksum = packet.SumWrong })},
		{"Checksums: partial", Checksums(), packet.Build(six), packet.Build(partial)},
		{"Checksums: IPv4", Checksums(), packet.Build(four), func() []byte { b := packet.Build(four); b[14+8]--; return b }()},
		{"Checksums: ICMP", Checksums(), packet.BuildICMP(tooBig), func() []byte { b := packet.BuildICMP(tooBig); b[34+1]++; return b }()},
		{"PartialChecksum", PartialChecksum(), packet.Build(partial), packet.Build(four)},
		{"Payload", Payload([]byte("body")), packet.Build(four), with(four, func(s *packet.Spec) { s.Payload = []byte("bodies") })},
		{"TCP", TCP(), packet.Build(four), packet.BuildICMP(tooBig)},
		{"Seq", TCP(Seq(7)), packet.Build(four), with(four, func(s *packet.Spec) { s.Seq++ })},
		{"Ack", TCP(Ack(8)), packet.Build(four), with(four, func(s *packet.Spec) { s.Ack++ })},
		{"Flags", TCP(Flags(packet.ACK)), packet.Build(four), with(four, func(s *packet.Spec) { s.Flags |= packet.PSH })},
		{"Window", TCP(Window(9)), packet.Build(four), with(four, func(s *packet.Spec) { s.Window++ })},
		{"Urgent", TCP(Urgent(10)), packet.Build(four), with(four, func(s *packet.Spec) { s.Urgent++ })},
		{"MSS", TCP(MSS(11)), packet.Build(four), with(four, func(s *packet.Spec) { s.Options = nil })},
		{"WindowScale", TCP(WindowScale(12)), packet.Build(four), with(four, func(s *packet.Spec) { s.Options = nil })},
		{"Timestamps", TCP(Timestamps(1, 2)), packet.Build(four), with(four, func(s *packet.Spec) { s.Options = packet.Options{}.AppendTimestamps(1, 3) })},
		{"Timestamps 0", TCP(Timestamps(0, 0)), with(four, func(s *packet.Spec) { s.Options = packet.Options{}.AppendTimestamps(0, 0) }), with(four, func(s *packet.Spec) { s.Options = nil })},
		{"SACK", TCP(SACK(sack)), packet.Build(four), with(four, func(s *packet.Spec) { s.Options = packet.Options{}.AppendSACK(sack, sack) })},
		{"no SACK", TCP(SACK()), with(four, func(s *packet.Spec) { s.Options = nil }), packet.Build(four)},
		{"NoOption", TCP(NoOption(packet.OptionMSS)), with(four, func(s *packet.Spec) { s.Options = nil }), packet.Build(four)},
		{"NoOption, malformed", TCP(NoOption(packet.OptionMSS)), with(four, func(s *packet.Spec) { s.Options = nil }), with(four, func(s *packet.Spec) { s.Options = packet.Options{9, 0} })},
		{"OptionBytes", TCP(OptionBytes(options)), packet.Build(four), with(four, func(s *packet.Spec) { s.Options = nil })},
		{"ICMP", ICMP(3, 4), packet.BuildICMP(tooBig), icmp(func(s *packet.ICMPSpec) { s.Code = 3 })},
		{"ICMP of TCP", ICMP(3, 4), packet.BuildICMP(tooBig), packet.Build(four)},
		{"ICMP's quote", ICMP(3, 4, Src(src4), TCP(Seq(7))), packet.BuildICMP(tooBig), icmp(func(s *packet.ICMPSpec) { s.Quote = packet.Build(partial)[14:]; s.Quote[20+7]++ })},
		{"MTU", MTU(1400), packet.BuildICMP(tooBig), icmp(func(s *packet.ICMPSpec) { s.MTU = 1 })},
		{"MTU of TCP", MTU(1400), packet.BuildICMP(tooBig), packet.Build(four)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			Check(t, tt.good, tt.check)
			r := &recorder{TB: t}
			if Check(r, tt.bad, tt.check); r.failures == 0 {
				t.Error("the frame that differs was accepted")
			}
		})
	}
}

func TestCheckStopsOnAFrameThatDoesNotParse(t *testing.T) {
	r := &recorder{TB: t}
	if Check(r, []byte{1}); r.failures != 1 {
		t.Errorf("got %d failures, want 1", r.failures)
	}
}
