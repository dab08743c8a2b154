package datapath

import (
	"encoding/binary"
	"net/netip"
)

// AddrPort is that of a record, whose IPv4 addresses are mapped ones.
func AddrPort(addr [16]uint8, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(addr).Unmap(), BigEndian(port))
}

// BigEndian gives the value whose bytes in memory are v's in network order.
func BigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
