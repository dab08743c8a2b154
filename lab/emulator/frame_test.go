package emulator

import (
	"encoding/binary"
	"net/netip"
)

// gsoFrame builds a frame as a TAP device delivers it: headers, and a payload whose bytes encode their offset.
type gsoFrame struct {
	v6, udp bool
	vlan    bool
	size    int // of a packet's payload
	payload int
	seq     uint32
	flags   byte // of TCP
	options int  // bytes of TCP options
}

func (f gsoFrame) build() []byte {
	l4Len := 20 + f.options
	if f.udp {
		l4Len = 8
	}
	vnet := make([]byte, vnetLen)
	b := make([]byte, 12)
	if f.vlan {
		b = append(b, 0x81, 0, 0, 7)
	}
	protocol := byte(protocolTCP)
	if f.udp {
		protocol = protocolUDP
	}
	if f.v6 {
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(l4Len+f.payload))
		b = append(b, protocol, 64)
		for _, a := range []string{"fd00::1", "fd00::2"} {
			b = append(b, netip.MustParseAddr(a).AsSlice()...)
		}
	} else {
		b = append(b, 8, 0, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(20+l4Len+f.payload))
		b = append(b, 0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2) // identification 65534: it wraps
	}
	l4 := len(b)
	if f.udp {
		b = append(b, 0x10, 0, 0x20, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(l4Len+f.payload))
		b = append(b, 0, 0)
	} else {
		b = append(b, 0x10, 0, 0x20, 0)
		b = binary.BigEndian.AppendUint32(b, f.seq)
		b = append(b, 0, 0, 0, 1, byte(l4Len/4<<4), f.flags, 0x10, 0, 0, 0, 0, 0)
		b = append(b, make([]byte, f.options)...)
	}
	l3 := l4 - 20
	if f.v6 {
		l3 = l4 - 40
	}
	checksum, kind := 16, byte(gsoTCPv4)
	switch {
	case f.udp:
		checksum, kind = 6, gsoUDPL4
	case f.v6:
		kind = gsoTCPv6
	}
	for i := range f.payload {
		b = append(b, byte(i)^byte(i>>8))
	}
	binary.BigEndian.PutUint16(b[l4+checksum:], fold(pseudo(b, l3, len(b)-l4, protocol)))
	vnet[0] = flagNeedsChecksum
	if f.payload > f.size {
		vnet[1] = kind
		binary.NativeEndian.PutUint16(vnet[4:], uint16(f.size))
	}
	if f.flags&tcpCWR != 0 && vnet[1] != gsoNone {
		vnet[1] |= gsoECN
	}
	binary.NativeEndian.PutUint16(vnet[2:], uint16(l4+l4Len))
	binary.NativeEndian.PutUint16(vnet[6:], uint16(l4))
	binary.NativeEndian.PutUint16(vnet[8:], uint16(checksum))
	return append(vnet, b...)
}

// plain is a frame of one packet without checksums to be completed: n bytes of Ethernet frame that carry a number.
func plain(n int, number uint32) []byte {
	b := make([]byte, vnetLen+n)
	binary.BigEndian.PutUint16(b[vnetLen+12:], 0x88b5) // IEEE 802 local experimental
	binary.BigEndian.PutUint32(b[vnetLen+ethernetLen:], number)
	return b
}

func number(frame []byte) int { return int(binary.BigEndian.Uint32(frame[vnetLen+ethernetLen:])) }

// own copies a frame into a buffer as a line wants it.
func own(p *pool, frame []byte) []byte {
	return append(p.get(len(frame))[:0], frame...)
}
