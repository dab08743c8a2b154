package packet

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
)

// router answers with errors in these tests.
var router4, router6 = netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:2::1")

// quoting returns an ICMP error about the packet in frame, of which n bytes from the IP header on are quoted.
func quoting(frame []byte, kind, code uint8, n int) []byte {
	f, _ := Parse(frame)
	s := ICMPSpec{Src: router4, Dst: f.Src.Addr(), Type: kind, Code: code, MTU: 1400, Quote: frame[EthernetSize:][:n]}
	if f.Family == FamilyIPv6 {
		s.Src = router6
	}
	return BuildICMP(s)
}

func quotingFrames() [][]byte {
	four, six := Build(spec4()), Build(spec6())
	return [][]byte{
		quoting(four, ICMPv4Unreachable, ICMPv4CodeFragNeeded, len(four)-EthernetSize),
		quoting(four, ICMPv4TimeExceeded, 0, IPv4Size+8),
		quoting(six, ICMPv6PacketTooBig, 0, len(six)-EthernetSize),
		quoting(six, ICMPv6Unreachable, 0, IPv6Size+8),
	}
}

func TestQuote(t *testing.T) {
	tests := []struct {
		name       string
		frame      []byte
		kind, code uint8
		n          int
		whole      bool
		data       int
	}{
		{"IPv4, 8 bytes of TCP", Build(spec4()), ICMPv4TimeExceeded, 0, 28, false, 8},
		{"IPv4, 19 bytes of TCP", Build(spec4()), ICMPv4Unreachable, ICMPv4CodeFragNeeded, 39, false, 19},
		{"IPv4, the header", Build(spec4()), ICMPv4Unreachable, 1, 40, true, 20},
		{"IPv4, all", Build(spec4()), ICMPv4Unreachable, 1, 45, true, 20},
		{"IPv6, 8 bytes of TCP", Build(spec6()), ICMPv6Unreachable, 0, 48, false, 8},
		{"IPv6, all", Build(spec6()), ICMPv6PacketTooBig, 0, 65, true, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			original, _ := Parse(tt.frame)
			f, err := Parse(quoting(tt.frame, tt.kind, tt.code, tt.n))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := f.ICMP().Checksum(), f.TransportChecksum(); got != want {
				t.Errorf("checksum: got %#04x, want %#04x", got, want)
			}
			if f.ICMP().Type() != tt.kind || f.ICMP().Code() != tt.code || f.ICMP().MTU(f.Family) != 1400 {
				t.Errorf("got type %d, code %d, MTU %d", f.ICMP().Type(), f.ICMP().Code(), f.ICMP().MTU(f.Family))
			}
			q, err := f.Quote()
			if err != nil {
				t.Fatal(err)
			}
			if q.Whole != tt.whole || q.Src != original.Src || q.Dst != original.Dst || q.Data-q.L4 != tt.data {
				t.Errorf("got whole %v, %v > %v, %d bytes of TCP", q.Whole, q.Src, q.Dst, q.Data-q.L4)
			}
		})
	}
}

// RFC 4884: extensions may follow the quotation, which is then padded to 128 bytes.
func TestQuoteEndsBeforeExtensions(t *testing.T) {
	frame := Build(spec4())
	quote := append(bytes.Clone(frame[EthernetSize:]), make([]byte, 128-45+8)...)
	f, err := Parse(BuildICMP(ICMPSpec{Src: router4, Dst: client4.Addr(), Type: ICMPv4TimeExceeded, Quote: quote}))
	if err != nil {
		t.Fatal(err)
	}
	q, err := f.Quote()
	if err != nil {
		t.Fatal(err)
	}
	if string(q.Payload()) != "hello" {
		t.Errorf("got payload %q", q.Payload())
	}
}

func TestQuoteErrors(t *testing.T) {
	options, later, first := spec4(), spec4(), spec4()
	options.IPOptions = make([]byte, 4)
	later.FragmentOffset = 8
	first.MoreFragments = true
	extension := spec6()
	extension.ExtensionType, extension.Extension = 60, make([]byte, 8)
	all := func(s Spec, kind uint8) []byte {
		b := Build(s)
		return quoting(b, kind, 0, len(b)-EthernetSize)
	}
	short := edited(spec4(), func(b []byte) { b[34+12] = 4 << 4 })
	tests := []struct {
		name  string
		frame []byte
		want  error
	}{
		{"TCP", Build(spec4()), ErrNotError},
		{"echo request", all(spec4(), 8), ErrNotError},
		{"redirect", all(spec4(), 5), ErrNotError},
		{"ICMPv6 echo request", all(spec6(), 128), ErrNotError},
		{"IPv4 options", all(options, 3), ErrIPOptions},
		{"later fragment", all(later, 3), ErrFragment},
		{"first fragment", all(first, 3), nil},
		{"extension header", all(extension, 1), ErrExtensionHeader},
		{"7 bytes of TCP", quoting(Build(spec4()), 3, 4, 27), ErrTruncated},
		{"7 bytes of TCP over IPv6", quoting(Build(spec6()), 2, 0, 47), ErrTruncated},
		{"half an IPv4 header", quoting(Build(spec4()), 3, 4, 10), ErrTruncated},
		{"nothing", quoting(Build(spec4()), 3, 4, 0), ErrTruncated},
		{"data offset 4", quoting(short, 3, 4, 40), ErrHeader},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse(tt.frame)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Quote(); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestQuoteOfAnotherProtocolHasNoPorts(t *testing.T) {
	udp := edited(spec4(), func(b []byte) { b[14+9] = 17 })
	f, err := Parse(quoting(udp, 3, 3, 28))
	if err != nil {
		t.Fatal(err)
	}
	q, err := f.Quote()
	if err != nil || q.Protocol != 17 || q.Src.Port() != 0 || q.Whole {
		t.Errorf("got protocol %d, source %v, whole %v, error %v", q.Protocol, q.Src, q.Whole, err)
	}
}
