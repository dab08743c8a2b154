package frame

import (
	"encoding/binary"

	"baton/packet"
)

// InsertVLAN puts a tag behind the addresses of a frame and returns the frame, which is in b's memory if there is room. Bytes that
// are no Ethernet header are returned as they are.
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
