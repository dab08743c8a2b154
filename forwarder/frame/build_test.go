package frame

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"baton/packet"
)

// recipe is a frame to build. The parts stand in the order of the wire.
type recipe struct {
	tags     []byte // behind the addresses, before the network header's EtherType
	mpls     []byte // labels, instead of that EtherType
	v6       bool
	options  []byte // of IPv4, or IPv6 extension headers: the first byte of each but the last names the next
	extended packet.Protocol
	protocol packet.Protocol
	fragment uint16 // IPv4's field
	id       uint16
	seq      uint32
	flags    packet.Flags
	tcp      []byte // TCP options
	payload  int
	padding  int
}

// sum says what stands in the transport checksum.
type sum int

const (
	right sum = iota
	partial
	wrong
	none
)

func (r recipe) build(s sum) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	b = append(b, r.tags...)
	switch {
	case r.mpls != nil:
		b = append(b, r.mpls...)
	case r.v6:
		b = append(b, 0x86, 0xdd)
	default:
		b = append(b, 0x08, 0x00)
	}
	segment := r.transport()
	at, src, dst := len(b), []byte{10, 0, 0, 1}, []byte{10, 0, 0, 2}
	if r.v6 {
		next := r.protocol
		if r.options != nil {
			next = r.extended
		}
		src, dst = make([]byte, 16), slices.Repeat([]byte{0xfd}, 16)
		b = append(b, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(len(r.options)+len(segment)))
		b = append(append(append(b, byte(next), 64), src...), dst...)
		b = append(b, r.options...)
	} else {
		head := packet.IPv4Size + len(r.options)
		b = append(b, 0x40|byte(head/4), 0)
		b = binary.BigEndian.AppendUint16(b, uint16(head+len(segment)))
		b = binary.BigEndian.AppendUint16(b, r.id)
		b = binary.BigEndian.AppendUint16(b, r.fragment)
		b = append(append(append(b, 64, byte(r.protocol), 0, 0), src...), dst...)
		b = append(b, r.options...)
		packet.IPv4(b[at:]).SetChecksum(packet.Checksum(b[at:], 0))
	}
	r.setSum(segment, s, plainSum(src, dst, []byte{0, byte(r.protocol), byte(len(segment) >> 8), byte(len(segment))}))
	return append(append(b, segment...), make([]byte, r.padding)...)
}

// plainSum is RFC 1071 to the letter, as something to hold against the package's own: the parts have even lengths.
func plainSum(parts ...[]byte) uint16 {
	total := 0
	for _, p := range parts {
		for i, v := range p {
			if i%2 == 0 {
				total += int(v) << 8
			} else {
				total += int(v)
			}
		}
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

func (r recipe) transport() []byte {
	var b []byte
	switch r.protocol {
	case packet.ProtocolTCP:
		b = make([]byte, packet.TCPSize)
		tcp := packet.TCP(b)
		tcp.SetSrcPort(80)
		tcp.SetDstPort(5555)
		tcp.SetSeq(packet.Seq(r.seq))
		tcp.SetFlags(r.flags)
		b[12] = byte(packet.TCPSize+len(r.tcp)) << 2
		b = append(b, r.tcp...)
	case protocolUDP:
		b = []byte{0, 53, 0, 99, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(b[4:], uint16(udpSize+r.payload))
	case protocolSCTP:
		b = []byte{0, 53, 0, 99, 1, 2, 3, 4, 0, 0, 0, 0}
	default:
		b = make([]byte, 8)
	}
	for i := range r.payload {
		b = append(b, byte(i*7+i>>8))
	}
	return b
}

func (r recipe) setSum(segment []byte, s sum, pseudo uint16) {
	var field []byte
	switch r.protocol {
	case packet.ProtocolTCP:
		field = segment[16:18]
	case protocolUDP:
		field = segment[6:8]
	case protocolSCTP:
		if s == right || s == wrong {
			binary.LittleEndian.PutUint32(segment[8:], crc32.Checksum(segment, crc32.MakeTable(crc32.Castagnoli))^uint32(s))
		}
		return
	default:
		return
	}
	value := uint16(0)
	switch s {
	case right, wrong:
		value = ^plainSum([]byte{byte(pseudo >> 8), byte(pseudo)}, segment)
		if value == 0 && r.protocol == protocolUDP {
			value = 0xffff
		}
		if s == wrong {
			value ^= 0x5a5a
		}
	case partial:
		value = pseudo
	}
	binary.BigEndian.PutUint16(field, value)
}

var (
	vlan    = []byte{0x81, 0, 0x20, 5}
	double  = []byte{0x88, 0xa8, 0x20, 5, 0x81, 0, 0, 6}
	labels  = []byte{0x88, 0x47, 0, 1, 0x10, 64, 0, 2, 0x21, 64}
	pbb     = append([]byte{0x88, 0xe7, 0, 0, 1, 2}, 2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4)
	inSNAP  = []byte{0, 100, 0xaa, 0xaa, 3, 0, 0, 0}
	hop     = []byte{60, 0, 1, 4, 0, 0, 0, 0, 6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // hop-by-hop, then destination options
	stamps  = []byte{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}
	routers = []byte{0x94, 4, 0, 0} // IPv4 router alert
)

// recipes are packets whose transport header is found.
var recipes = []struct {
	name string
	recipe
}{
	{"TCP over IPv4", recipe{protocol: packet.ProtocolTCP, payload: 100}},
	{"TCP over IPv4, odd", recipe{protocol: packet.ProtocolTCP, payload: 101, tcp: stamps}},
	{"TCP over IPv6", recipe{v6: true, protocol: packet.ProtocolTCP, payload: 99}},
	{"UDP over IPv4", recipe{protocol: protocolUDP, payload: 11}},
	{"UDP over IPv6", recipe{v6: true, protocol: protocolUDP, payload: 12}},
	{"without payload", recipe{protocol: packet.ProtocolTCP}},
	{"padded", recipe{protocol: packet.ProtocolTCP, padding: 6}},
	{"IPv6, padded", recipe{v6: true, protocol: protocolUDP, padding: 3}},
	{"IPv4 options", recipe{options: routers, protocol: packet.ProtocolTCP, payload: 10}},
	{"IPv6 extension headers", recipe{v6: true, options: hop, extended: 0, protocol: packet.ProtocolTCP, payload: 10}},
	{"in a VLAN", recipe{tags: vlan, protocol: packet.ProtocolTCP, payload: 100}},
	{"in a VLAN in another", recipe{tags: double, v6: true, protocol: protocolUDP, payload: 100}},
	{"behind labels", recipe{mpls: labels, protocol: packet.ProtocolTCP, payload: 100}},
	{"behind labels, IPv6", recipe{tags: vlan, mpls: labels, v6: true, protocol: protocolUDP, payload: 100}},
	{"in a backbone", recipe{tags: pbb, protocol: packet.ProtocolTCP, payload: 100}},
	{"a VLAN in a backbone", recipe{tags: slices.Concat(pbb, vlan), protocol: packet.ProtocolTCP, payload: 100}},
	{"in SNAP", recipe{tags: inSNAP, protocol: packet.ProtocolTCP, payload: 100}},
	{"in SNAP in a VLAN", recipe{tags: slices.Concat(vlan, inSNAP), v6: true, protocol: protocolUDP, payload: 100}},
	{"not to be fragmented", recipe{fragment: 0x4000, protocol: packet.ProtocolTCP, payload: 100}},
	{"SCTP", recipe{protocol: protocolSCTP, payload: 20}},
	{"SCTP over IPv6", recipe{v6: true, protocol: protocolSCTP, payload: 20}},
}

func TestPlainSum(t *testing.T) {
	if got, want := plainSum([]byte{0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7}), uint16(0xddf2); got != want { // RFC 1071 section 3
		t.Errorf("sum %#x, want %#x", got, want)
	}
}
