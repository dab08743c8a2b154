// Package neighbour reads and makes the messages by which hosts find each other's MAC addresses: ARP (RFC 826) and IPv6 neighbour discovery
// (RFC 4861). A controller learns hosts from them, answers them, and asks hosts with them.
package neighbour

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"baton/packet"
)

// EtherTypeARP is that of ARP.
const EtherTypeARP packet.EtherType = 0x0806

// Types of neighbour discovery messages (RFC 4861, section 4).
const (
	NeighbourSolicit     = 135
	NeighbourAdvertise   = 136
	protocolICMPv6       = 58
	arpSize              = 28
	ndSize               = 24 // solicitation or advertisement without options
	optionSource         = 1
	optionTarget         = 2
	optionSize           = 8 // of a link-layer address of Ethernet
	flagRouter           = 0x80
	flagSolicited        = 0x40
	flagOverride         = 0x20
	hopLimit             = 255
	arpRequest, arpReply = 1, 2
)

// Broadcast is Ethernet's.
var Broadcast = packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Message is a question for the MAC address of Target, or the answer of it.
type Message struct {
	Answer bool
	// MAC and Address are the sender's. Address is invalid in a probe for duplicates (RFC 5227, RFC 4862), whose sender does not have Target
	// yet.
	MAC     packet.MAC
	Address netip.Addr
	// Target is the address that is asked for. In an answer it is the sender's own.
	Target netip.Addr
	// To is the destination: of an answer the host that had asked.
	To packet.MAC
	// Asker is, in an answer to be made, the address of the host that had asked; invalid for all nodes.
	Asker netip.Addr
}

// Parse reads a message. False: the frame is none, or a malformed or forged one: of ARP the sender's address must be the frame's, and of
// neighbour discovery the hop limit 255 and the checksum right.
func Parse(frame []byte) (Message, bool) {
	if len(frame) < packet.EthernetSize {
		return Message{}, false
	}
	e := packet.Ethernet(frame)
	switch body := frame[packet.EthernetSize:]; e.Type() {
	case EtherTypeARP:
		return parseARP(e, body)
	case packet.EtherTypeIPv6:
		return parseND(e, body)
	}
	return Message{}, false
}

func parseARP(e packet.Ethernet, b []byte) (Message, bool) {
	if len(b) < arpSize || binary.BigEndian.Uint32(b) != 1<<16|0x0800 || b[4] != 6 || b[5] != 4 {
		return Message{}, false
	}
	operation := binary.BigEndian.Uint16(b[6:])
	m := Message{
		Answer: operation == arpReply, MAC: packet.MAC(b[8:14]), Address: netip.AddrFrom4([4]byte(b[14:18])),
		Target: netip.AddrFrom4([4]byte(b[24:28])), To: e.Dst(),
	}
	if operation != arpRequest && operation != arpReply || m.MAC != e.Src() {
		return Message{}, false
	}
	if m.Answer {
		m.Asker, m.Target = m.Target, m.Address
	}
	if m.Address.IsUnspecified() {
		m.Address = netip.Addr{}
	}
	return m, m.Target.IsValid()
}

func parseND(e packet.Ethernet, b []byte) (Message, bool) {
	if len(b) < packet.IPv6Size+ndSize || b[0]>>4 != 6 || b[6] != protocolICMPv6 || b[7] != hopLimit {
		return Message{}, false
	}
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < ndSize || packet.IPv6Size+length > len(b) {
		return Message{}, false
	}
	src, dst := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	icmp := b[packet.IPv6Size : packet.IPv6Size+length]
	if packet.Checksum(icmp, packet.PseudoHeader(src, dst, protocolICMPv6, length)) != 0 {
		return Message{}, false
	}
	m := Message{MAC: e.Src(), Address: src, Target: netip.AddrFrom16([16]byte(icmp[8:24])), To: e.Dst()}
	want := byte(optionSource)
	switch icmp[0] {
	case NeighbourSolicit:
	case NeighbourAdvertise:
		m.Answer, m.Address, m.Asker, want = true, m.Target, dst, optionTarget
	default:
		return Message{}, false
	}
	if src.Is4In6() || dst.Is4In6() || m.Target.Is4In6() { // would speak for a host of IPv4
		return Message{}, false
	}
	if icmp[1] != 0 || m.Target.IsMulticast() || !options(icmp[ndSize:], want, e.Src()) {
		return Message{}, false
	}
	if m.Address.IsUnspecified() {
		m.Address = netip.Addr{}
	}
	return m, true
}

// options tells whether options are well-formed and none of that kind has another MAC address than the frame's.
func options(b []byte, kind byte, src packet.MAC) bool {
	for len(b) > 0 {
		if len(b) < optionSize {
			return false
		}
		size := int(b[1]) * 8
		if size == 0 || size > len(b) {
			return false
		}
		if b[0] == kind && (size != optionSize || packet.MAC(b[2:8]) != src) {
			return false
		}
		b = b[size:]
	}
	return true
}

// Build makes the frame of a message. Target and the addresses must be of one family. A question to Broadcast, or to the zero MAC, is sent as its
// family does: to everyone, or to the group of those that may have the address.
func Build(m Message) []byte {
	if m.Target.Unmap().Is4() {
		return buildARP(m)
	}
	return buildND(m)
}

func buildARP(m Message) []byte {
	to, hardware := m.To, m.To
	if to == (packet.MAC{}) || to == Broadcast {
		to, hardware = Broadcast, packet.MAC{}
	}
	operation, target := uint16(arpRequest), m.Target
	if m.Answer {
		operation, target = arpReply, m.Asker
	}
	b := slices.Concat(to[:], m.MAC[:], []byte{8, 6, 0, 1, 8, 0, 6, 4})
	b = binary.BigEndian.AppendUint16(b, operation)
	b = append(append(b, m.MAC[:]...), four(m.Address)...)
	b = append(append(b, hardware[:]...), four(target)...)
	return append(b, make([]byte, 60-len(b))...) // Ethernet's minimum without its checksum
}

func four(a netip.Addr) []byte {
	if a.Unmap().Is4() {
		v := a.As4()
		return v[:]
	}
	return make([]byte, 4)
}

func buildND(m Message) []byte {
	src, dst, to := m.Address, m.Target, m.To
	kind, option, flags := byte(NeighbourSolicit), byte(optionSource), uint32(0)
	target := m.Target.As16()
	if m.Answer {
		kind, option, flags = NeighbourAdvertise, optionTarget, flagSolicited|flagOverride
		src, dst = m.Target, m.Asker
		if !dst.IsValid() {
			dst, flags = netip.IPv6LinkLocalAllNodes(), flagOverride
		}
	} else if to == (packet.MAC{}) || to == Broadcast {
		dst = SolicitedNode(m.Target)
		to = GroupMAC(dst)
	}
	if !src.IsValid() {
		src = netip.IPv6Unspecified()
		dst = SolicitedNode(m.Target) // RFC 4862, section 5.4.2, whoever the frame is for
	}
	icmp := []byte{kind, 0, 0, 0}
	icmp = binary.BigEndian.AppendUint32(icmp, flags<<24)
	icmp = append(icmp, target[:]...)
	if !src.IsUnspecified() {
		icmp = append(append(icmp, option, 1), m.MAC[:]...)
	}
	binary.BigEndian.PutUint16(icmp[2:], packet.Checksum(icmp, packet.PseudoHeader(src, dst, protocolICMPv6, len(icmp))))
	b := slices.Concat(to[:], m.MAC[:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(icmp)), protocolICMPv6, hopLimit})
	s, d := src.As16(), dst.As16()
	return slices.Concat(b, s[:], d[:], icmp)
}

// SolicitedNode is the group of the hosts that may have an address (RFC 4291, section 2.7.1).
func SolicitedNode(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom16([16]byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, b[13], b[14], b[15]})
}

// GroupMAC is the MAC address of an IPv6 group (RFC 2464, section 7).
func GroupMAC(a netip.Addr) packet.MAC {
	b := a.As16()
	return packet.MAC{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// Sender is the IP address that a frame says its sender has; invalid if it says none. For ARP and neighbour discovery see [Parse].
func Sender(frame []byte) netip.Addr {
	if len(frame) < packet.EthernetSize {
		return netip.Addr{}
	}
	switch b := frame[packet.EthernetSize:]; packet.Ethernet(frame).Type() {
	case packet.EtherTypeIPv4:
		if len(b) >= packet.IPv4Size && b[0]>>4 == 4 {
			return packet.IPv4(b).Src()
		}
	case packet.EtherTypeIPv6:
		if len(b) >= packet.IPv6Size && b[0]>>4 == 6 {
			return packet.IPv6(b).Src()
		}
	case EtherTypeARP:
		if m, ok := Parse(frame); ok {
			return m.Address
		}
	}
	return netip.Addr{}
}

// Receiver is the IP address that a frame goes to; invalid if it has none.
func Receiver(frame []byte) netip.Addr {
	if len(frame) < packet.EthernetSize {
		return netip.Addr{}
	}
	switch b := frame[packet.EthernetSize:]; packet.Ethernet(frame).Type() {
	case packet.EtherTypeIPv4:
		if len(b) >= packet.IPv4Size && b[0]>>4 == 4 {
			return packet.IPv4(b).Dst()
		}
	case packet.EtherTypeIPv6:
		if len(b) >= packet.IPv6Size && b[0]>>4 == 6 {
			return packet.IPv6(b).Dst()
		}
	}
	return netip.Addr{}
}
