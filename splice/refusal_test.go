package splice

import (
	"testing"

	"baton/packet"
)

func TestTranslateRefuses(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		tcp := packet.EthernetSize + f.ipSize
		ttl := packet.EthernetSize + 8
		protocol := packet.EthernetSize + 9
		if f.name == "IPv6" {
			ttl, protocol = packet.EthernetSize+7, packet.EthernetSize+6
		}
		options := func(o ...byte) func(*packet.Spec) { return func(s *packet.Spec) { s.Options = o } }
		set := func(at int, v byte) func([]byte) []byte { return func(b []byte) []byte { b[at] = v; return b } }
		tests := []struct {
			name   string
			spec   func(s *packet.Spec)
			change func(b []byte) []byte
			want   Reason
		}{
			{"TTL 1", func(s *packet.Spec) { s.TTL = 1 }, nil, TTL},
			{"TTL 0", nil, set(ttl, 0), TTL},
			{"SYN", func(s *packet.Spec) { s.Flags = packet.SYN }, nil, SYN},
			{"SYN-ACK", func(s *packet.Spec) { s.Flags = packet.SYN | packet.ACK }, nil, SYN},
			{"SYN with TTL 1", func(s *packet.Spec) { s.Flags, s.TTL = packet.SYN, 1 }, nil, SYN},
			{"UDP", nil, set(protocol, 17), NotTCP},
			{"ICMP", nil, set(protocol, 1), NotTCP},
			{"ICMPv6", nil, set(protocol, 58), NotTCP},
			{"ARP", nil, set(13, 6), NotIP},
			{"VLAN", nil, func(b []byte) []byte { b[12], b[13] = 0x81, 0; return b }, NotIP},
			{"empty", nil, func([]byte) []byte { return nil }, NotIP},
			{"cut in the IP header", nil, func(b []byte) []byte { return b[:packet.EthernetSize+f.ipSize-1] }, Truncated},
			{"cut in the TCP header", nil, func(b []byte) []byte { return b[:tcp+19] }, Truncated},
			{"cut in the payload", nil, func(b []byte) []byte { return b[:len(b)-1] }, Truncated},
			{"data offset past the packet", func(s *packet.Spec) { s.Payload = nil }, set(tcp+12, 6<<4), Truncated},
			{"data offset 4", nil, set(tcp+12, 4<<4), BadHeader},
			{"version", nil, set(packet.EthernetSize, 0x55), BadHeader},
			{"option of length 0", options(8, 0, 0, 0), nil, BadOptions},
			{"option of length 1", options(254, 1, 0, 0), nil, BadOptions},
			{"option past the header", options(1, 1, 8, 10), nil, BadOptions},
			{"option without a length", options(1, 1, 1, 254), nil, BadOptions},
			{"bad option behind a good one", optionsWith(timestamps(1, 2), 3, 0), nil, BadOptions},
			{"timestamps of 9 bytes", options(8, 9, 1, 2, 3, 4, 5, 6, 7, 1, 1, 1), nil, BadOptions},
			{"timestamps of 12 bytes", options(8, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), nil, BadOptions},
			{"SACK without a block", options(5, 2, 1, 1), nil, BadOptions},
			{"SACK with half a block", options(5, 6, 1, 2, 3, 4, 1, 1), nil, BadOptions},
		}
		if f.name == "IPv4" {
			tests = append(tests, []struct {
				name   string
				spec   func(s *packet.Spec)
				change func(b []byte) []byte
				want   Reason
			}{
				{"IPv4 options", func(s *packet.Spec) { s.IPOptions = []byte{148, 4, 0, 0} }, nil, IPOptions},
				{"first fragment", func(s *packet.Spec) { s.MoreFragments = true }, nil, Fragment},
				{"last fragment", func(s *packet.Spec) { s.FragmentOffset = 1480 }, nil, Fragment},
				{"UDP fragment", func(s *packet.Spec) { s.FragmentOffset = 1480 }, set(protocol, 17), NotTCP},
				{"header length 4", nil, set(packet.EthernetSize, 0x44), BadHeader},
				{"total length 0", nil, func(b []byte) []byte { b[16], b[17] = 0, 0; return b }, BadHeader},
			}...)
		} else {
			extension := func(kind packet.Protocol) func(*packet.Spec) {
				return func(s *packet.Spec) { s.ExtensionType, s.Extension = kind, make([]byte, 8) }
			}
			tests = append(tests, []struct {
				name   string
				spec   func(s *packet.Spec)
				change func(b []byte) []byte
				want   Reason
			}{
				{"fragment header", extension(44), nil, Fragment},
				{"hop-by-hop", extension(0), nil, ExtensionHeader},
				{"routing", extension(43), nil, ExtensionHeader},
				{"AH", extension(51), nil, ExtensionHeader},
				{"destination options", extension(60), nil, ExtensionHeader},
			}...)
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := f.fromClient()
				if tt.spec != nil {
					tt.spec(&s)
				}
				frame := packet.Build(s)
				if tt.change != nil {
					frame = tt.change(frame)
				}
				refused(t, f.splice().ToServer.Translate, frame, tt.want)
				refused(t, f.splice().ToServer.TranslatePartial, frame, tt.want)
			})
		}
	})
}

// optionsWith sets the options o with the bytes more behind them.
func optionsWith(o packet.Options, more ...byte) func(*packet.Spec) {
	return func(s *packet.Spec) { s.Options = append(o, more...) }
}

// Other options stay byte for byte, also after the end-of-options option.
func TestTranslateKeepsOtherOptions(t *testing.T) {
	tests := []struct {
		name string
		o    packet.Options
	}{
		{"unknown", packet.Options{253, 4, 0xde, 0xad}},
		{"MSS, window scale and SACK-permitted outside a SYN", packet.Options{}.AppendMSS(9000).AppendWindowScale(14).AppendSACKPermitted().AppendNOP(3)},
		{"MD5 signature", append(packet.Options{1, 1, 19, 18}, make([]byte, 16)...)},
		{"behind the end", packet.Options{0, 8, 10, 1, 2, 3, 4, 5}},
		{"a bad one behind the end", packet.Options{1, 0, 8, 0}},
	}
	eachFamily(t, func(t *testing.T, f family) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s := f.fromClient()
				s.Options = tt.o
				frame := translated(t, f.splice().ToServer, s)
				parsed, _ := packet.Parse(frame)
				if got := parsed.TCP().Options(); string(got) != string(tt.o) {
					t.Errorf("got % x, want % x", got, tt.o)
				}
			})
		}
	})
}
