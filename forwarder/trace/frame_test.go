package trace

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"baton/packet"
)

// TestFrame: what is given is in the frame, at its place.
func TestFrame(t *testing.T) {
	const macs = "020000000002" + "020000000001"
	tests := []struct {
		name, text string
		want       string // hexadecimal, from the start; a dot is any digit
	}{
		{"bytes", macs + "88b5", macs + "88b5"},
		{"bytes with colons and spaces", "02:00:00:00:00:02 02:00:00:00:00:01 88 b5", macs + "88b5"},
		{"addresses alone", "eth_dst=ff:ff:ff:ff:ff:ff", "ffffffffffff" + "020000000001" + "88b5"},
		{"type", "eth_type=0x8847", macs + "8847"},
		{"VLAN", "vlan_vid=5,vlan_pcp=3", macs + "8100" + "6005" + "88b5"},
		{"ARP", "arp_op=2,arp_tpa=10.0.0.9", macs + "0806" + "0001080006040002" + "020000000001" + "c0000201" + "000000000000" + "0a000009"},
		{"IPv4 alone", "ipv4_src=10.0.0.1,ip_dscp=46,ip_ecn=1", macs + "0800" + "45b9001400004000" + "40fd...." + "0a000001" + "c0000202"},
		{"IPv6 alone", "ipv6_dst=2001:db8::9,ipv6_flabel=0x12345", macs + "86dd" + "60012345" + "0000fd40" + "20010db8000000000000000000000001" + "20010db8000000000000000000000009"},
		{"TCP", "tcp_dst=443,tcp_flags=0x10", macs + "0800" + "45000028" + "00004000" + "4006...." + "c0000201c0000202" + "9c4001bb" + "0000000000000000" + "5010ffff"},
		{"TCP by number", "ip_proto=6", macs + "0800" + "45000028" + "00004000" + "4006...." + "c0000201c0000202" + "9c400050"},
		{"UDP over IPv6", "ipv6_src=fe80::1,udp_src=53", macs + "86dd" + "60000000" + "00081140" + "fe800000000000000000000000000001" + "20010db8000000000000000000000002" + "003500500008"},
		{"ICMP", "icmpv4_type=3,icmpv4_code=4", macs + "0800" + "4500001c" + "00004000" + "4001...." + "c0000201c0000202" + "0304"},
		{"ICMPv6", "icmpv6_type=135", macs + "86dd" + "60000000" + "00083a40" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002" + "8700"},
		{"behind a tag", "vlan_vid=0xfff, udp_dst=1", macs + "8100" + "0fff" + "0800" + "4500001c" + "00004000" + "4011...." + "c0000201c0000202" + "9c400001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Frame(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte(hex.EncodeToString(b))
			for i := range tt.want {
				if tt.want[i] == '.' && i < len(got) {
					got[i] = '.'
				}
			}
			if !bytes.HasPrefix(got, []byte(tt.want)) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			checkSums(t, b)
		})
	}
}

// checkSums: checksums that there are, are right.
func checkSums(t *testing.T, b []byte) {
	t.Helper()
	ip := b[packet.EthernetSize:]
	if bytes.Equal(b[12:14], []byte{0x81, 0}) {
		ip = ip[4:]
	}
	six := len(ip) >= packet.IPv6Size && ip[0]>>4 == 6
	if !six && (len(ip) < packet.IPv4Size || ip[0] != 0x45) {
		return
	}
	if six {
		h := packet.IPv6(ip)
		if sum := packet.Sum(ip[packet.IPv6Size:], packet.PseudoHeader(h.Src(), h.Dst(), h.NextHeader(), h.PayloadLen())); h.PayloadLen() > 0 && sum != 0xffff {
			t.Errorf("the transport's checksum is wrong: %#x", sum)
		}
		return
	}
	h := packet.IPv4(ip)
	if sum := packet.Sum(ip[:packet.IPv4Size], 0); sum != 0xffff || h.TotalLen() != len(ip) {
		t.Errorf("IPv4's checksum gives %#x; length %d of %d bytes", sum, h.TotalLen(), len(ip))
	}
	start := uint16(0)
	if h.Protocol() != protocolICMP {
		start = packet.PseudoHeader(h.Src(), h.Dst(), h.Protocol(), len(ip)-packet.IPv4Size)
	}
	if sum := packet.Sum(ip[packet.IPv4Size:], start); len(ip) > packet.IPv4Size && sum != 0xffff {
		t.Errorf("the transport's checksum is wrong: %#x", sum)
	}
}

func TestFrameRefuses(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "no Ethernet header"},
		{"0102", "no Ethernet header"},
		{"hello", "neither hexadecimal"},
		{"tcp_dst", "neither hexadecimal"},
		{"tcp_dst=80,tcp_dst=81", "not one field=value"},
		{"tcp_dst=80,", "not one field=value"},
		{"tcp_dst=", "not one field=value"},
		{"tcp_dst=65536", "16 bits"},
		{"vlan_vid=4096", "12 bits"},
		{"ip_dscp=-1", "6 bits"},
		{"eth_src=1:2", "Ethernet address"},
		{"ipv4_dst=2001:db8::1", "that family"},
		{"ipv6_dst=10.0.0.1", "that family"},
		{"ipv6_dst=fe80::1%eth0", "that family"},
		{"tcp_dst=80,udp_dst=53", "udp_dst: not with the other fields"},
		{"ipv4_dts=192.0.2.1", `"ipv4_dts" is not a field (did you mean ipv4_dst?)`},
		{"ipv4_dst=10.0.0.1,ipv6_dst=::1", "ipv4_dst"},
		{"mpls_label=5", "mpls_label"},
		{"in_port=1", "in_port"},
		{"arp_op=1,tcp_dst=80", "tcp_dst"},
	}
	for _, tt := range tests {
		if _, err := Frame(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func FuzzFrame(f *testing.F) {
	for _, text := range []string{"tcp_dst=80", "vlan_vid=5,arp_op=1", "0200", "ipv6_src=::1,ip_proto=58", "eth_type=0x800,udp_src=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Frame(text)
		if err == nil && len(b) < packet.EthernetSize {
			t.Errorf("%q: a frame of %d bytes", text, len(b))
		}
		if err == nil && strings.Contains(text, "=") {
			checkSums(t, b)
		}
	})
}
