package packet

import (
	"encoding/binary"
	"net/netip"
)

// IPv6Size is the size of the fixed IPv6 header in bytes.
const IPv6Size = 40

// IPv6 is a view of an IPv6 header: at least IPv6Size bytes.
type IPv6 []byte

// Version returns the version number, 6 in a sound header.
func (h IPv6) Version() uint8 { return h[0] >> 4 }

// TrafficClass returns DSCP (upper six bits) and ECN (lower two).
func (h IPv6) TrafficClass() uint8 { return h[0]<<4 | h[1]>>4 }

// FlowLabel returns the 20-bit flow label.
func (h IPv6) FlowLabel() uint32 { return binary.BigEndian.Uint32(h) & 0xfffff }

// PayloadLen returns the length in bytes of everything behind the fixed header.
func (h IPv6) PayloadLen() int { return int(binary.BigEndian.Uint16(h[4:])) }

// NextHeader returns what follows the fixed header.
func (h IPv6) NextHeader() Protocol { return Protocol(h[6]) }

// HopLimit returns the hops that are left.
func (h IPv6) HopLimit() uint8 { return h[7] }

// Src returns the source address.
func (h IPv6) Src() netip.Addr { return netip.AddrFrom16([16]byte(h[8:24])) }

// Dst returns the destination address.
func (h IPv6) Dst() netip.Addr { return netip.AddrFrom16([16]byte(h[24:40])) }

// SetPayloadLen replaces the payload length, in bytes.
func (h IPv6) SetPayloadLen(n int) { binary.BigEndian.PutUint16(h[4:], uint16(n)) }

// SetHopLimit replaces the hop limit.
func (h IPv6) SetHopLimit(v uint8) { h[7] = v }

// SetSrc replaces the source address.
func (h IPv6) SetSrc(a netip.Addr) { b := a.As16(); copy(h[8:24], b[:]) }

// SetDst replaces the destination address.
func (h IPv6) SetDst(a netip.Addr) { b := a.As16(); copy(h[24:40], b[:]) }
