package emulator

import "encoding/binary"

// A frame is a virtio_net_hdr (linux/virtio_net.h) and an Ethernet frame, as a TAP device with IFF_VNET_HDR reads and
// writes them. With a GSO type it stands for several packets of a wire.
const (
	vnetLen     = 10
	ethernetLen = 14
	vlanLen     = 4

	// maxFrame is the longest frame that a TAP device hands over (bytes).
	maxFrame = vnetLen + ethernetLen + vlanLen + 65535

	flagNeedsChecksum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM

	gsoNone  = 0
	gsoTCPv4 = 1
	gsoTCPv6 = 4
	gsoUDPL4 = 5
	gsoECN   = 0x80 // flag of TCP: the segments after the first lose CWR

	tcpFIN, tcpPSH, tcpCWR = 0x01, 0x08, 0x80

	protocolTCP, protocolUDP = 6, 17
)

// packets is how a frame divides into packets of the wire.
type packets struct {
	count   int // 1 for a frame that is no GSO frame
	headers int // bytes of link, network and transport headers; 0 when count is 1
	size    int // bytes of payload in all packets but the last
	l3, l4  int // offsets in the Ethernet frame
}

// divide finds the packets of a frame. A frame that it does not understand is one packet.
func divide(frame []byte) packets {
	one := packets{count: 1}
	if len(frame) < vnetLen+ethernetLen {
		return one
	}
	vnet, b := frame[:vnetLen], frame[vnetLen:]
	p := packets{size: int(binary.NativeEndian.Uint16(vnet[4:])), l3: ethernetLen, l4: int(binary.NativeEndian.Uint16(vnet[6:]))}
	if vnet[0]&flagNeedsChecksum == 0 || p.size == 0 {
		return one
	}
	if binary.BigEndian.Uint16(b[12:]) == 0x8100 {
		p.l3 += vlanLen
	}
	fixed := 20
	if vnet[1]&^gsoECN == gsoUDPL4 {
		fixed = 8
	}
	network := 20
	if len(b) > p.l3 && b[p.l3]>>4 == 6 {
		network = 40
	}
	if p.l4 < p.l3+network || p.l4+fixed > len(b) {
		return one
	}
	switch vnet[1] &^ gsoECN {
	case gsoTCPv4, gsoTCPv6:
		p.headers = p.l4 + int(b[p.l4+12]>>4)*4
	case gsoUDPL4:
		p.headers = p.l4 + 8
	default:
		return one
	}
	payload := len(b) - p.headers
	if p.headers < p.l4+fixed || payload <= p.size {
		return one
	}
	p.count = (payload + p.size - 1) / p.size
	return p
}

// wire is how many bytes a frame's packets have on a wire.
func (p packets) wire(frame []byte) int {
	return len(frame) - vnetLen + (p.count-1)*p.headers
}

// length is how many bytes of a frame the packets [from, to) take by themselves, at most.
func (p packets) length(from, to int) int { return vnetLen + p.headers + (to-from)*p.size }

// cut writes packets from (included) to to (not included) of a frame into dst, which is large enough (length),
// and returns the frame that it has made. Its checksums are as partial or whole as the frame's.
func (p packets) cut(dst, frame []byte, from, to int) []byte {
	start := vnetLen + p.headers + from*p.size
	end := min(vnetLen+p.headers+to*p.size, len(frame))
	dst = append(dst[:0], frame[:vnetLen+p.headers]...)
	dst = append(dst, frame[start:end]...)
	vnet, b := dst[:vnetLen], dst[vnetLen:]
	// How much of it a device copies first. A frame that a host has only forwarded says its own length, and TAP refuses a frame that
	// is shorter than it says.
	binary.NativeEndian.PutUint16(vnet[2:], uint16(p.headers))
	if to-from == 1 {
		vnet[1] = gsoNone
		binary.NativeEndian.PutUint16(vnet[4:], 0)
	}
	l4 := b[p.l4:]
	var protocol byte
	var checksum []byte
	if frame[1]&^gsoECN == gsoUDPL4 {
		protocol, checksum = protocolUDP, l4[6:8]
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	} else {
		protocol, checksum = protocolTCP, l4[16:18]
		binary.BigEndian.PutUint32(l4[4:], binary.BigEndian.Uint32(l4[4:])+uint32(from*p.size))
		if to < p.count {
			l4[13] &^= tcpFIN | tcpPSH
		}
		if from > 0 {
			l4[13] &^= tcpCWR
			vnet[1] &^= gsoECN
		}
	}
	if b[p.l3]>>4 == 4 {
		ip := b[p.l3:p.l4]
		binary.BigEndian.PutUint16(ip[2:], uint16(len(b)-p.l3))
		binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+uint16(from)) // as Linux numbers segments
		ip[10], ip[11] = 0, 0
		binary.BigEndian.PutUint16(ip[10:], ^fold(sum(0, ip)))
	} else {
		binary.BigEndian.PutUint16(b[p.l3+4:], uint16(len(b)-p.l3-40))
	}
	binary.BigEndian.PutUint16(checksum, fold(pseudo(b, p.l3, len(l4), protocol)))
	return dst
}

// complete fills in the checksum that a frame of one packet leaves to hardware.
func complete(frame []byte) {
	vnet, b := frame[:vnetLen], frame[vnetLen:]
	if vnet[0]&flagNeedsChecksum == 0 {
		return
	}
	start, offset := int(binary.NativeEndian.Uint16(vnet[6:])), int(binary.NativeEndian.Uint16(vnet[8:]))
	if start+offset+2 > len(b) {
		return
	}
	c := ^fold(sum(0, b[start:])) // the pseudo header's sum stands in the field
	if c == 0 && offset == 6 {
		c = 0xffff // UDP: 0 would say that there is none (RFC 768)
	}
	binary.BigEndian.PutUint16(b[start+offset:], c)
	vnet[0] &^= flagNeedsChecksum
}

// pseudo sums the pseudo header (RFC 9293 3.1, RFC 8200 8.1) of a packet whose network header begins at l3.
func pseudo(b []byte, l3, length int, protocol byte) uint32 {
	addresses := b[l3+12 : l3+20]
	if b[l3]>>4 == 6 {
		addresses = b[l3+8 : l3+40]
	}
	return sum(uint32(length)+uint32(protocol), addresses)
}

// sum adds 16-bit words in network byte order; up to 64 KiB of them do not overflow.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
