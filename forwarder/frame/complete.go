package frame

import (
	"encoding/binary"
	"hash/crc32"

	"baton/packet"
)

// Complete fills in, in place, the checksum of a TCP or UDP packet that only holds the sum of its pseudo header, as Linux leaves it for the
// network card (CHECKSUM_PARTIAL), and an empty one of an SCTP packet. Other checksums are kept, even if wrong: correcting them would hide a
// fault from the controller. Everything else is left alone, including fragments.
func Complete(b []byte) {
	if l, ok := find(b, false); ok {
		l.complete(b)
	}
}

func (l *layout) complete(b []byte) {
	segment := b[l.l4:l.end]
	switch l.protocol {
	case packet.ProtocolTCP:
		partial := l.pseudo(b, len(segment))
		field := segment[16:18]
		if binary.BigEndian.Uint16(field) == partial {
			binary.BigEndian.PutUint16(field, packet.Checksum(segment, 0))
		}
	case protocolUDP:
		// UDP's own length counts (RFC 768)
		length := int(binary.BigEndian.Uint16(segment[4:]))
		if length < udpSize || length > len(segment) {
			return
		}
		field := segment[6:8]
		if binary.BigEndian.Uint16(field) == l.pseudo(b, length) {
			binary.BigEndian.PutUint16(field, notNone(packet.Checksum(segment[:length], 0)))
		}
	case protocolSCTP:
		field := segment[8:12]
		if binary.LittleEndian.Uint32(field) == 0 {
			binary.LittleEndian.PutUint32(field, crc32.Checksum(segment, castagnoli)) // RFC 9260 appendix A
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// notNone returns a computed UDP checksum as it is sent: 0 would mean that there is none (RFC 768).
func notNone(checksum uint16) uint16 {
	if checksum == 0 {
		return 0xffff
	}
	return checksum
}
