package quictest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
)

// Datagram is a UDP datagram of a capture.
type Datagram struct {
	Src, Dst netip.AddrPort
	Payload  []byte
}

// Link types of a capture.
const (
	linkEthernet = 1
	linkPPP      = 9
)

// ReadPcap gives the UDP datagrams of a capture in the classic format, written on a little-endian machine, that are whole and not
// fragmented.
func ReadPcap(path string) ([]Datagram, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b) < 24 || binary.LittleEndian.Uint32(b) != 0xa1b2c3d4 {
		return nil, errors.New("not a pcap file of a little-endian machine")
	}
	link := binary.LittleEndian.Uint32(b[20:])
	var out []Datagram
	for b = b[24:]; len(b) >= 16; {
		length := int(binary.LittleEndian.Uint32(b[8:]))
		if length > len(b)-16 {
			break // cut off while it was written
		}
		if d, ok := datagramOf(b[16:16+length], link); ok {
			out = append(out, d)
		}
		b = b[16+length:]
	}
	return out, nil
}

func datagramOf(frame []byte, link uint32) (Datagram, bool) {
	skip := 14
	if link == linkPPP {
		skip = 2
	} else if link != linkEthernet {
		return Datagram{}, false
	}
	if len(frame) < skip+1 {
		return Datagram{}, false
	}
	ip := frame[skip:]
	switch {
	case ip[0] == 0x45 && len(ip) >= 28 && ip[9] == 17 && binary.BigEndian.Uint16(ip[6:])&0x3fff == 0:
		return udpOf(ip[20:], ip[12:16], ip[16:20])
	case ip[0]>>4 == 6 && len(ip) >= 48 && ip[6] == 17:
		return udpOf(ip[40:], ip[8:24], ip[24:40])
	}
	return Datagram{}, false
}

func udpOf(udp, src, dst []byte) (Datagram, bool) {
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if length < 8 || length > len(udp) {
		return Datagram{}, false
	}
	from, _ := netip.AddrFromSlice(src)
	to, _ := netip.AddrFromSlice(dst)
	return Datagram{
		Src:     netip.AddrPortFrom(from, binary.BigEndian.Uint16(udp)),
		Dst:     netip.AddrPortFrom(to, binary.BigEndian.Uint16(udp[2:])),
		Payload: udp[8:length],
	}, true
}
