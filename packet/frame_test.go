package packet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
)

var (
	client4 = netip.MustParseAddrPort("192.0.2.7:49152")
	server4 = netip.MustParseAddrPort("198.51.100.9:80")
	client6 = netip.MustParseAddrPort("[2001:db8::7]:49152")
	server6 = netip.MustParseAddrPort("[2001:db8:1::9]:80")
)

func spec4() Spec { return Spec{Src: client4, Dst: server4, Flags: ACK, Payload: []byte("hello")} }
func spec6() Spec { return Spec{Src: client6, Dst: server6, Flags: ACK, Payload: []byte("hello")} }

// edited builds s and lets change alter the frame.
func edited(s Spec, change func(b []byte)) []byte {
	b := Build(s)
	change(b)
	return b
}

// The frame was composed by hand; its checksums were computed as the remainder of the header, one big number, by 65535.
func TestParseGoldenSYN(t *testing.T) {
	b := []byte{
		0x02, 0, 0, 0, 0, 0x02, // destination MAC
		0x02, 0, 0, 0, 0, 0x01, // source MAC
		0x08, 0x00, // IPv4
		0x45, 0x03, 0x00, 0x3c, // version and length, TOS (CE), total length 60
		0x12, 0x34, 0x40, 0x00, // id, DF
		0x40, 0x06, 0x3c, 0x41, // TTL 64, TCP, checksum
		0xc0, 0x00, 0x02, 0x07, // 192.0.2.7
		0xc6, 0x33, 0x64, 0x09, // 198.51.100.9
		0xc0, 0x00, 0x00, 0x50, // ports 49152, 80
		0xff, 0xff, 0xff, 0xfe, // seq
		0x00, 0x00, 0x00, 0x00, // ack
		0xa0, 0xc2, 0xfa, 0xf0, // 40 bytes, SYN|ECE|CWR, window 64240
		0x9b, 0xb5, 0x00, 0x00, // checksum, urgent
		0x02, 0x04, 0x05, 0xb4, // MSS 1460
		0x04, 0x02, // SACK permitted
		0x08, 0x0a, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, // timestamps
		0x01,             // NOP
		0x03, 0x03, 0x07, // window scale 7
	}
	f, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if f.L3 != 14 || f.L4 != 34 || f.Data != 74 || f.End != 74 || f.Family != FamilyIPv4 || f.Protocol != ProtocolTCP ||
		f.Src != client4 || f.Dst != server4 {
		t.Errorf("got L3 %d L4 %d Data %d End %d family %d protocol %d %v > %v",
			f.L3, f.L4, f.Data, f.End, f.Family, f.Protocol, f.Src, f.Dst)
	}
	if sum := Checksum(f.IPv4(), 0); sum != 0 {
		t.Errorf("IPv4 checksum: the sum over the header is %#04x", sum)
	}
	if got, want := f.TransportChecksum(), f.TCP().Checksum(); got != want {
		t.Errorf("TCP checksum: got %#04x, want %#04x", got, want)
	}
	built := Build(Spec{
		SrcMAC: MAC{2, 0, 0, 0, 0, 1}, DstMAC: MAC{2, 0, 0, 0, 0, 2}, Src: client4, Dst: server4, TOS: 3, ID: 0x1234,
		DontFragment: true, Seq: 0xfffffffe, Flags: SYN | ECE | CWR, Window: 64240,
		Options: Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(0x01020304, 0).AppendNOP(1).
			AppendWindowScale(7),
	})
	if !bytes.Equal(built, b) {
		t.Errorf("Build:\ngot  % x\nwant % x", built, b)
	}
}

func TestParseErrors(t *testing.T) {
	with := func(s Spec, change func(*Spec)) []byte { change(&s); return Build(s) }
	tests := []struct {
		name  string
		frame []byte
		want  error
	}{
		{"empty", nil, ErrNotIP},
		{"half an Ethernet header", make([]byte, 13), ErrNotIP},
		{"ARP", edited(spec4(), func(b []byte) { Ethernet(b).SetType(0x0806) }), ErrNotIP},
		{"half an IPv4 header", Build(spec4())[:EthernetSize+10], ErrTruncated},
		{"half an IPv6 header", Build(spec6())[:EthernetSize+30], ErrTruncated},
		{"IPv4 with version 6", edited(spec4(), func(b []byte) { b[14] = 0x65 }), ErrHeader},
		{"IPv6 with version 4", edited(spec6(), func(b []byte) { b[14] = 0x40 }), ErrHeader},
		{"IPv4 header length 16", edited(spec4(), func(b []byte) { b[14] = 0x44 }), ErrHeader},
		{"IPv4 total length below its header", edited(spec4(), func(b []byte) { IPv4(b[14:]).SetTotalLen(19) }), ErrHeader},
		{"IPv4 options past the frame", edited(spec4(), func(b []byte) { b[14] = 0x4f; IPv4(b[14:]).SetTotalLen(60) }), ErrTruncated},
		{"IPv4 total length past the frame", Build(spec4())[:58], ErrTruncated},
		{"IPv6 payload length past the frame", Build(spec6())[:78], ErrTruncated},
		{"IPv4 options", with(spec4(), func(s *Spec) { s.IPOptions = []byte{148, 4, 0, 0} }), ErrIPOptions},
		{"first fragment", with(spec4(), func(s *Spec) { s.MoreFragments = true }), ErrFragment},
		{"last fragment", with(spec4(), func(s *Spec) { s.FragmentOffset = 8 }), ErrFragment},
		{"IPv6 fragment", with(spec6(), func(s *Spec) { s.ExtensionType, s.Extension = 44, make([]byte, 8) }), ErrFragment},
		{"hop-by-hop", with(spec6(), func(s *Spec) { s.ExtensionType, s.Extension = 0, make([]byte, 8) }), ErrExtensionHeader},
		{"destination options", with(spec6(), func(s *Spec) { s.ExtensionType, s.Extension = 60, make([]byte, 8) }), ErrExtensionHeader},
		{"TCP header cut by the IPv4 length", edited(spec4(), func(b []byte) { IPv4(b[14:]).SetTotalLen(39) }), ErrTruncated},
		{"TCP header cut by the IPv6 length", edited(spec6(), func(b []byte) { IPv6(b[14:]).SetPayloadLen(19) }), ErrTruncated},
		{"data offset 4", edited(spec4(), func(b []byte) { b[34+12] = 4 << 4 }), ErrHeader},
		{"data offset past the packet", edited(spec4(), func(b []byte) { b[34+12] = 7 << 4 }), ErrTruncated},
		{"half an ICMP header", edited(spec4(), func(b []byte) { b[14+9] = 1; IPv4(b[14:]).SetTotalLen(27) }), ErrTruncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := bytes.Clone(tt.frame)
			if _, err := Parse(tt.frame); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if !bytes.Equal(tt.frame, before) {
				t.Error("Parse changed the frame")
			}
		})
	}
}

func TestParseLeavesPaddingOut(t *testing.T) {
	for _, s := range []Spec{spec4(), spec6()} {
		s.Payload, s.Padding = []byte("x"), 5
		f, err := Parse(Build(s))
		if err != nil {
			t.Fatal(err)
		}
		if string(f.Payload()) != "x" || len(f.Bytes) != f.End+5 {
			t.Errorf("IPv%d: got payload %q, %d bytes behind the end", f.Family, f.Payload(), len(f.Bytes)-f.End)
		}
	}
}

func TestParseOfOtherProtocolsStopsAtIP(t *testing.T) {
	tests := []struct {
		name  string
		frame []byte
	}{
		{"UDP", edited(spec4(), func(b []byte) { b[14+9] = 17 })},
		{"UDP fragment", edited(spec4(), func(b []byte) { b[14+9] = 17; b[14+6] = 0x20 })},
		{"UDP cut short", edited(spec4(), func(b []byte) { b[14+9] = 17 })[:40]},
		{"ESP over IPv6", edited(spec6(), func(b []byte) { b[14+6] = 50 })},
		{"ICMPv6 over IPv4", edited(spec4(), func(b []byte) { b[14+9] = 58 })},
		{"ICMPv4 over IPv6", edited(spec6(), func(b []byte) { b[14+6] = 1 })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse(tt.frame)
			if err != nil {
				t.Fatal(err)
			}
			if f.Data != f.L4 || f.Src.Port() != 0 || f.Dst.Port() != 0 || f.Protocol == ProtocolTCP || f.End > len(tt.frame) {
				t.Errorf("got Data %d, L4 %d, %v > %v, protocol %d, End %d", f.Data, f.L4, f.Src, f.Dst, f.Protocol, f.End)
			}
		})
	}
}

func TestBuildFields(t *testing.T) {
	options := Options{}.AppendMSS(1).AppendWindowScale(2) // 7 bytes: padded to 8
	s := Spec{
		SrcMAC: MAC{1}, DstMAC: MAC{2}, Src: client6, Dst: server6, TOS: 0xab, TTL: 3, FlowLabel: 0xfedcb,
		Seq: 1, Ack: 2, Flags: ACK | URG, Window: 4, Urgent: 5, Options: options, Payload: []byte("odd"),
	}
	f, err := Parse(Build(s))
	if err != nil {
		t.Fatal(err)
	}
	ip, tcp := f.IPv6(), f.TCP()
	if f.Ethernet().Src() != s.SrcMAC || f.Ethernet().Dst() != s.DstMAC || f.Src != client6 || f.Dst != server6 ||
		ip.TrafficClass() != 0xab || ip.FlowLabel() != 0xfedcb || ip.HopLimit() != 3 || ip.Version() != 6 {
		t.Errorf("IPv6: got % x", f.Bytes[:f.L4])
	}
	if tcp.Seq() != 1 || tcp.Ack() != 2 || tcp.Flags() != ACK|URG || tcp.Window() != 4 || tcp.Urgent() != 5 ||
		tcp.HeaderLen() != 28 || !bytes.Equal(tcp.Options(), append(options, 0)) || string(f.Payload()) != "odd" {
		t.Errorf("TCP: got % x", f.Bytes[f.L4:])
	}
	if got, want := tcp.Checksum(), f.TransportChecksum(); got != want {
		t.Errorf("checksum: got %#04x, want %#04x", got, want)
	}
}

func TestBuildChecksumKinds(t *testing.T) {
	for _, s := range []Spec{spec4(), spec6()} {
		right, _ := Parse(Build(s))
		s.Checksum = SumPartial
		partial, _ := Parse(Build(s))
		s.Checksum = SumWrong
		wrong, _ := Parse(Build(s))
		if got, want := right.TCP().Checksum(), right.TransportChecksum(); got != want {
			t.Errorf("SumComplete: got %#04x, want %#04x", got, want)
		}
		// What the device does with CHECKSUM_PARTIAL: sum the segment, field included, and store the complement.
		if got, want := Checksum(partial.Bytes[partial.L4:], 0), right.TCP().Checksum(); got != want {
			t.Errorf("SumPartial, completed: got %#04x, want %#04x", got, want)
		}
		if wrong.TCP().Checksum() == wrong.TransportChecksum() {
			t.Error("SumWrong: got the right one")
		}
	}
}

func TestBuildPanicsOnTheImpossible(t *testing.T) {
	tests := []struct {
		name string
		s    Spec
	}{
		{"mixed families", Spec{Src: client4, Dst: server6}},
		{"41 bytes of TCP options", Spec{Src: client4, Dst: server4, Options: make(Options, 41)}},
		{"IPv4 options of 3 bytes", Spec{Src: client4, Dst: server4, IPOptions: make([]byte, 3)}},
		{"64 KiB of payload", Spec{Src: client4, Dst: server4, Payload: make([]byte, 65536)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Build(tt.s)
		})
	}
}

// FuzzParse: no panic, no byte changed; offsets in order and inside; every view that a nil error allows can be read.
func FuzzParse(f *testing.F) {
	f.Add(Build(spec4()))
	f.Add(Build(spec6()))
	for _, b := range quotingFrames() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		p, err := Parse(b)
		if err == nil {
			if p.L3 != EthernetSize || p.L4 <= p.L3 || p.Data < p.L4 || p.End < p.L4 || p.End > len(b) {
				t.Fatalf("offsets %d %d %d %d of %d", p.L3, p.L4, p.Data, p.End, len(b))
			}
			p.TTL()
			if p.Protocol == ProtocolTCP {
				if tcp := p.TCP(); tcp.HeaderLen() != len(tcp) || len(tcp)+len(p.Payload()) != p.End-p.L4 ||
					binary.BigEndian.Uint16(b[p.L4:]) != p.Src.Port() {
					t.Fatalf("TCP header of %d bytes, payload of %d", len(tcp), len(p.Payload()))
				}
				p.TransportChecksum()
			}
			if q, err := p.Quote(); err == nil {
				if q.L3 != p.Data || q.L4 < q.L3 || q.Data < q.L4 || q.End < q.Data || q.End > p.End {
					t.Fatalf("quote's offsets %d %d %d %d within %d-%d", q.L3, q.L4, q.Data, q.End, p.Data, p.End)
				}
				q.TTL()
				if q.Protocol == ProtocolTCP {
					q.TCP().Seq()
					if q.Whole && len(q.TCP()) != q.TCP().HeaderLen() {
						t.Fatalf("whole header of %d bytes, states %d", len(q.TCP()), q.TCP().HeaderLen())
					}
					q.TCP().Options()
				}
			}
		}
		if !bytes.Equal(b, before) {
			t.Fatal("Parse changed the frame")
		}
	})
}
