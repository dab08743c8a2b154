package tables

import (
	"baton/balance/config"
	"baton/openflow"
	"baton/packet"
)

// protocolUDP and etherTypeARP are missing in package packet, which reads only TCP and ICMP.
const (
	protocolUDP  packet.Protocol  = 17
	etherTypeARP packet.EtherType = 0x0806
)

// ports returns the port fields of a protocol that has any.
func ports(p packet.Protocol) (source, dest openflow.Field, ok bool) {
	switch p {
	case packet.ProtocolTCP:
		return openflow.FieldTCPSrc, openflow.FieldTCPDst, true
	case protocolUDP:
		return openflow.FieldUDPSrc, openflow.FieldUDPDst, true
	}
	return 0, 0, false
}

// matches returns one match for each port of a service, because OpenFlow 1.3 has no masks for ports; one if the service is all ports.
func (m service) matches(begin openflow.Match) []openflow.Match {
	p := packet.Protocol(m.Protocol)
	begin = ofProtocol(begin, p)
	_, dest, ok := ports(p)
	if !ok || m.First <= 1 && m.Last == 1<<16-1 {
		return []openflow.Match{begin}
	}
	var list []openflow.Match
	for port := int(m.First); port <= int(m.Last); port++ {
		list = append(list, with(begin).Uint(dest, uint64(port)))
	}
	return list
}

type service config.Service
