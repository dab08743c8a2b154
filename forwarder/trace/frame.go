package trace

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"baton/document"
	"baton/packet"
)

// Frame builds a frame from text: its bytes in hexadecimal, or fields by their OpenFlow names, such as "ipv4_dst=10.0.0.1,tcp_dst=80". Fields
// that are not given get defaults, so that the result is a complete packet with valid checksums: "tcp_dst=80" is TCP over IPv4.
func Frame(text string) ([]byte, error) {
	if !strings.Contains(text, "=") {
		b, err := hex.DecodeString(strings.NewReplacer(" ", "", ":", "", "\n", "").Replace(text))
		if err != nil {
			return nil, fmt.Errorf("packet %q: neither hexadecimal bytes nor a list of field=value", text)
		}
		if len(b) < packet.EthernetSize {
			return nil, fmt.Errorf("packet of %d bytes: no Ethernet header", len(b))
		}
		return b, nil
	}
	f := fields{given: make(map[string]string)}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := f.given[name]; twice || value == "" {
			return nil, fmt.Errorf("packet: %q is not one field=value", part)
		}
		f.given[name] = value
	}
	b := f.frame()
	if f.err == nil && len(f.given) > 0 {
		f.err = unused(slices.Sorted(maps.Keys(f.given)))
	}
	return b, f.err
}

// names are the fields that a packet can be built from.
var names = strings.Fields("eth_src eth_dst eth_type vlan_vid vlan_pcp arp_op arp_spa arp_tpa arp_sha arp_tha ipv4_src ipv4_dst ipv6_src ipv6_dst ipv6_flabel " +
	"ip_proto ip_dscp ip_ecn tcp_src tcp_dst tcp_flags udp_src udp_dst icmpv4_type icmpv4_code icmpv6_type icmpv6_code")

// unused is the error of fields that are of no use: those that are not known, or else that do not go together.
func unused(given []string) error {
	for _, name := range given {
		if !slices.Contains(names, name) {
			return fmt.Errorf("packet: %q is not a field (%s)", name, document.Meant(name, names))
		}
	}
	return fmt.Errorf("packet: %s: not with the other fields; give the packet as bytes", strings.Join(given, ", "))
}

// fields are the fields not used yet, and the first error.
type fields struct {
	given map[string]string
	err   error
}

// has reports whether a field with one of the prefixes was given.
func (f *fields) has(prefixes ...string) bool {
	for name := range f.given {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
	}
	return false
}

func (f *fields) take(name string) (string, bool) {
	v, ok := f.given[name]
	delete(f.given, name)
	return v, ok
}

func (f *fields) fail(name, value, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("packet: %s=%s: want %s", name, value, want)
	}
}

func (f *fields) number(name string, bits int, otherwise uint64) uint64 {
	s, ok := f.take(name)
	if !ok {
		return otherwise
	}
	v, err := strconv.ParseUint(s, 0, bits)
	if err != nil {
		f.fail(name, s, fmt.Sprintf("a number of %d bits", bits))
	}
	return v
}

func (f *fields) mac(name string, otherwise byte) []byte {
	s, ok := f.take(name)
	if !ok {
		return []byte{2, 0, 0, 0, 0, otherwise} // locally administered
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err != nil || len(b) != 6 {
		f.fail(name, s, "an Ethernet address")
		return make([]byte, 6)
	}
	return b
}

// addr defaults to addresses reserved for documentation (RFC 5737, RFC 3849).
func (f *fields) addr(name string, six bool, otherwise byte) netip.Addr {
	s, ok := f.take(name)
	if !ok && six {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: otherwise})
	}
	if !ok {
		return netip.AddrFrom4([4]byte{192, 0, 2, otherwise})
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4() == six || a.Zone() != "" {
		f.fail(name, s, "an address of that family")
		return f.addr("", six, otherwise)
	}
	return a
}

const (
	typeVLAN = 0x8100
	typeARP  = 0x0806
	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd
)

func (f *fields) frame() []byte {
	b := append(f.mac("eth_dst", 2), f.mac("eth_src", 1)...)
	if f.has("vlan_") {
		b = binary.BigEndian.AppendUint16(b, typeVLAN)
		b = binary.BigEndian.AppendUint16(b, uint16(f.number("vlan_pcp", 3, 0)<<13|f.number("vlan_vid", 12, 0)))
	}
	switch kind := f.kind(); kind {
	case typeARP:
		return f.arp(binary.BigEndian.AppendUint16(b, typeARP))
	case typeIPv4, typeIPv6:
		return f.ip(binary.BigEndian.AppendUint16(b, kind), kind == typeIPv6)
	default:
		return binary.BigEndian.AppendUint16(b, kind)
	}
}

// kind is the EtherType: as given, or as implied by the other fields.
func (f *fields) kind() uint16 {
	switch {
	case f.has("eth_type"):
		return uint16(f.number("eth_type", 16, 0))
	case f.has("arp_"):
		return typeARP
	case f.has("ipv6_", "icmpv6_"):
		return typeIPv6
	case f.has("ip_", "ipv4_", "icmpv4_", "tcp_", "udp_"):
		return typeIPv4
	}
	return 0x88b5 // for experiments (IEEE 802)
}

func (f *fields) arp(b []byte) []byte {
	b = append(b, 0, 1, 8, 0, 6, 4)
	b = binary.BigEndian.AppendUint16(b, uint16(f.number("arp_op", 16, 1)))
	b = append(append(b, f.mac("arp_sha", 1)...), f.addr("arp_spa", false, 1).AsSlice()...)
	tha := make([]byte, 6)
	if f.has("arp_tha") {
		tha = f.mac("arp_tha", 0)
	}
	return append(append(b, tha...), f.addr("arp_tpa", false, 2).AsSlice()...)
}

// IP protocol numbers.
const (
	protocolICMP   = 1
	protocolTCP    = 6
	protocolUDP    = 17
	protocolICMPv6 = 58
)

func (f *fields) ip(b []byte, six bool) []byte {
	family := "ipv4"
	if six {
		family = "ipv6"
	}
	src, dst := f.addr(family+"_src", six, 1), f.addr(family+"_dst", six, 2)
	class := byte(f.number("ip_dscp", 6, 0)<<2 | f.number("ip_ecn", 2, 0))
	protocol, payload := f.transport(src, dst)
	if six {
		b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(class)<<20|uint32(f.number("ipv6_flabel", 20, 0)))
		b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
		b = append(b, protocol, packet.DefaultTTL)
		return slices.Concat(b, src.AsSlice(), dst.AsSlice(), payload)
	}
	head := []byte{0x45, class, 0, 0, 0, 0, 0x40, 0, packet.DefaultTTL, protocol, 0, 0}
	head = slices.Concat(head, src.AsSlice(), dst.AsSlice())
	ip := packet.IPv4(head)
	ip.SetTotalLen(len(head) + len(payload))
	ip.SetChecksum(packet.Checksum(head, 0))
	return slices.Concat(b, head, payload)
}

// transport builds what follows the network header.
func (f *fields) transport(src, dst netip.Addr) (protocol byte, b []byte) {
	ports := func(name string) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(f.number(name+"_src", 16, 40000)))
		return binary.BigEndian.AppendUint16(b, uint16(f.number(name+"_dst", 16, 80)))
	}
	number := byte(f.number("ip_proto", 8, 253)) // for experiments (RFC 3692)
	is := func(n byte, prefix string) bool { return number == n || f.has(prefix) }
	sum, at := true, 0
	switch {
	case is(protocolTCP, "tcp_"):
		const syn = 2
		protocol, at = protocolTCP, 16
		b = append(ports("tcp"), make([]byte, 16)...)
		b[12] = packet.TCPSize / 4 << 4
		b[13] = byte(f.number("tcp_flags", 8, syn))
		binary.BigEndian.PutUint16(b[14:], 0xffff)
	case is(protocolUDP, "udp_"):
		protocol, at = protocolUDP, 6
		b = append(ports("udp"), 0, 8, 0, 0)
	case is(protocolICMP, "icmpv4_"):
		protocol, at, sum = protocolICMP, 2, false
		b = []byte{byte(f.number("icmpv4_type", 8, 8)), byte(f.number("icmpv4_code", 8, 0)), 0, 0, 0, 1, 0, 1}
	case is(protocolICMPv6, "icmpv6_"):
		protocol, at = protocolICMPv6, 2
		b = []byte{byte(f.number("icmpv6_type", 8, 128)), byte(f.number("icmpv6_code", 8, 0)), 0, 0, 0, 1, 0, 1}
	default:
		return number, nil
	}
	start := uint16(0)
	if sum {
		start = packet.PseudoHeader(src, dst, packet.Protocol(protocol), len(b))
	}
	binary.BigEndian.PutUint16(b[at:], packet.Checksum(b, start))
	return protocol, b
}
