package frame

import (
	"encoding/binary"

	"baton/packet"
)

// InsertVLAN inserts a tag behind the addresses of a frame, in b's memory if its capacity allows, and returns the frame. Bytes shorter than an
// Ethernet header are returned unchanged.
func InsertVLAN(b []byte, protocol packet.EtherType, tci uint16) []byte {
	if len(b) < addressesSize {
		return b
	}
	b = append(b, 0, 0, 0, 0)
	copy(b[addressesSize+vlanSize:], b[addressesSize:len(b)-vlanSize])
	binary.BigEndian.PutUint16(b[addressesSize:], uint16(protocol))
	binary.BigEndian.PutUint16(b[addressesSize+typeSize:], tci)
	return b
}
