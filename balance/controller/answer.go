package controller

import (
	"encoding/binary"
	"net/netip"

	"baton/balance/links"
	"baton/balance/tables"
	"baton/packet"
)

// etherTypeARP, and ARP for Ethernet and IPv4 (RFC 826): packet length and field offsets, in bytes.
const (
	etherTypeARP packet.EtherType = 0x0806

	arpSize     = 28
	arpFixed    = 0x0001_0800_0604 // hardware and protocol types with their lengths
	arpRequest  = 1
	arpReply    = 2
	arpSender   = 8
	arpSenderIP = 14
	arpTarget   = 18
	arpTargetIP = 24
)

// answer returns the internal gateways' reply to a frame, nil if it is not for them.
func answer(internal tables.Internal, b []byte) []byte {
	if len(b) < packet.EthernetSize {
		return nil
	}
	if packet.Ethernet(b).Type() == etherTypeARP {
		return answerARP(internal, b)
	}
	f, err := packet.Parse(b)
	if err != nil || !isICMP(f) {
		return nil
	}
	if f.Family == packet.FamilyIPv6 && f.ICMP().Type() == solicitation {
		return answerSolicitation(internal, f)
	}
	return answerEcho(internal, f)
}

// gateway returns the MAC of the gateway with an address.
func gateway(internal tables.Internal, a netip.Addr) (links.MAC, bool) {
	for class, g := range internal.Gateways {
		if a.IsValid() && (a == g.IPv4 || a == g.IPv6) {
			return tables.GatewayMAC(class), true
		}
	}
	return links.MAC{}, false
}

func answerARP(internal tables.Internal, b []byte) []byte {
	arp := b[packet.EthernetSize:]
	if len(arp) < arpSize || binary.BigEndian.Uint64(arp)>>16 != arpFixed || binary.BigEndian.Uint16(arp[6:]) != arpRequest {
		return nil
	}
	asked := netip.AddrFrom4([4]byte(arp[arpTargetIP:]))
	mac, ok := gateway(internal, asked)
	if !ok {
		return nil
	}
	reply := make([]byte, packet.EthernetSize+arpSize)
	eth := packet.Ethernet(reply)
	eth.SetDst(packet.Ethernet(b).Src())
	eth.SetSrc(packet.MAC(mac))
	eth.SetType(etherTypeARP)
	to := reply[packet.EthernetSize:]
	copy(to, arp[:6])
	binary.BigEndian.PutUint16(to[6:], arpReply)
	copy(to[arpSender:], mac[:])
	copy(to[arpSenderIP:], arp[arpTargetIP:arpTargetIP+4])
	copy(to[arpTarget:], arp[arpSender:arpTarget]) // both addresses of the sender
	return reply
}

// The flags of an advertisement (RFC 4861, 4.4).
const (
	flagRouter    = 1 << 31
	flagSolicited = 1 << 30
	flagOverride  = 1 << 29
)

func answerSolicitation(internal tables.Internal, f packet.Frame) []byte {
	m := f.ICMP()
	if len(m) < packet.ICMPSize+16 || m.Code() != 0 || f.TTL() != neighbourHops {
		return nil
	}
	target := netip.AddrFrom16([16]byte(m[packet.ICMPSize:]))
	mac, ok := gateway(internal, target)
	if !ok {
		return nil
	}
	to, flags := f.Src.Addr(), uint32(flagRouter|flagSolicited|flagOverride)
	if to.IsUnspecified() { // duplicate address detection (RFC 4862, 5.4.3)
		to, flags = netip.IPv6LinkLocalAllNodes(), flagRouter|flagOverride
	}
	return packet.BuildICMP(packet.ICMPSpec{
		SrcMAC: packet.MAC(mac), DstMAC: f.Ethernet().Src(), Src: target, Dst: to, TTL: neighbourHops, Type: advertise, MTU: flags,
		Quote: append(append(target.AsSlice(), optionTarget, 1), mac[:]...),
	})
}

func answerEcho(internal tables.Internal, f packet.Frame) []byte {
	m, reply := f.ICMP(), uint8(echoReply)
	if f.Family == packet.FamilyIPv6 {
		reply = echoReply6
	}
	mac, ok := gateway(internal, f.Dst.Addr())
	if !isPing(f) || m.Code() != 0 || !ok {
		return nil
	}
	return packet.BuildICMP(packet.ICMPSpec{
		SrcMAC: packet.MAC(mac), DstMAC: f.Ethernet().Src(), Src: f.Dst.Addr(), Dst: f.Src.Addr(), Type: reply,
		MTU: binary.BigEndian.Uint32(m[4:]), Quote: m[packet.ICMPSize:], // identifier, number and data are returned unchanged
	})
}
