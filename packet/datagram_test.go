package packet

import (
	"bytes"
	"net/netip"
	"testing"
)

// TestDatagram: what is built is read back, and its checksum is that of RFC 768.
func TestDatagram(t *testing.T) {
	for _, tt := range []struct{ src, dst string }{{"10.0.0.1:5000", "10.0.0.2:443"}, {"[fd00::1]:5000", "[fd00::2]:443"}} {
		s := DatagramSpec{Src: netip.MustParseAddrPort(tt.src), Dst: netip.MustParseAddrPort(tt.dst), Payload: []byte("payload")}
		b := BuildDatagram(s)
		f, err := Parse(append(bytes.Clone(b), 0, 0, 0)) // Ethernet's padding
		if err != nil {
			t.Fatal(err)
		}
		d, ok := f.Datagram()
		if !ok || d.Src != s.Src || d.Dst != s.Dst || string(d.Payload) != "payload" {
			t.Errorf("read back as %+v, %v", d, ok)
		}
		if sum := Checksum(b[f.L4:], PseudoHeader(s.Src.Addr(), s.Dst.Addr(), ProtocolUDP, len(b)-f.L4)); sum != 0 {
			t.Errorf("the checksum is wrong by %#x", sum)
		}
		for _, damage := range []struct {
			name  string
			frame func(b []byte) []byte
		}{
			{"shorter than it says", func(b []byte) []byte { return b[:len(b)-1] }},
			{"a length below its header's", func(b []byte) []byte { b[f.L4+4], b[f.L4+5] = 0, 7; return b }},
			{"another protocol", func(b []byte) []byte {
				at := f.L3 + 9
				if f.Family == FamilyIPv6 {
					at = f.L3 + 6
				}
				b[at] = 132
				return b
			}},
		} {
			bad, _ := Parse(damage.frame(bytes.Clone(b)))
			if d, ok := bad.Datagram(); ok {
				t.Errorf("%s: read as %+v", damage.name, d)
			}
		}
	}
	f, err := Parse(BuildDatagram(DatagramSpec{Src: netip.MustParseAddrPort("10.0.0.1:1"), Dst: netip.MustParseAddrPort("10.0.0.2:2"), NoSum: true}))
	if err != nil || f.Bytes[f.L4+6] != 0 || f.Bytes[f.L4+7] != 0 {
		t.Errorf("a checksum that was not asked for: %v", err)
	}
	f.Bytes[f.L3+6] = 0x20 // more fragments
	if _, ok := f.Datagram(); ok {
		t.Error("a fragment was read")
	}
}
