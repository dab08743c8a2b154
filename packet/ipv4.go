package packet

import (
	"encoding/binary"
	"net/netip"
)

// IPv4Size is the size of an IPv4 header without options, in bytes.
const IPv4Size = 20

// IPv4 is a view of an IPv4 header: at least IPv4Size bytes, and HeaderLen bytes where options are read.
type IPv4 []byte

const (
	ipv4DontFragment  = 0x4000
	ipv4MoreFragments = 0x2000
	ipv4OffsetMask    = 0x1fff
)

// Version returns the version number, 4 in a sound header.
func (h IPv4) Version() uint8 { return h[0] >> 4 }

// HeaderLen returns the length of the header in bytes as the header itself states it.
func (h IPv4) HeaderLen() int { return int(h[0]&0x0f) * 4 }

// TOS returns DSCP (upper six bits) and ECN (lower two).
func (h IPv4) TOS() uint8 { return h[1] }

// TotalLen returns the length of header and payload in bytes.
func (h IPv4) TotalLen() int { return int(binary.BigEndian.Uint16(h[2:])) }

// ID returns the identification.
func (h IPv4) ID() uint16 { return binary.BigEndian.Uint16(h[4:]) }

// DontFragment reports the DF bit.
func (h IPv4) DontFragment() bool { return h.fragment()&ipv4DontFragment != 0 }

// MoreFragments reports the MF bit.
func (h IPv4) MoreFragments() bool { return h.fragment()&ipv4MoreFragments != 0 }

// FragmentOffset returns the offset of a fragment in bytes.
func (h IPv4) FragmentOffset() int { return int(h.fragment()&ipv4OffsetMask) * 8 }

// IsFragment reports whether the packet is a piece of a larger one, the first piece included.
func (h IPv4) IsFragment() bool { return h.fragment()&(ipv4MoreFragments|ipv4OffsetMask) != 0 }

// TTL returns the time to live in hops.
func (h IPv4) TTL() uint8 { return h[8] }

// Protocol returns what the packet carries.
func (h IPv4) Protocol() Protocol { return Protocol(h[9]) }

// Checksum returns the header checksum.
func (h IPv4) Checksum() uint16 { return binary.BigEndian.Uint16(h[10:]) }

// Src returns the source address.
func (h IPv4) Src() netip.Addr { return netip.AddrFrom4([4]byte(h[12:16])) }

// Dst returns the destination address.
func (h IPv4) Dst() netip.Addr { return netip.AddrFrom4([4]byte(h[16:20])) }

// SetTOS replaces DSCP and ECN. No setter touches the checksum.
func (h IPv4) SetTOS(v uint8) { h[1] = v }

// SetTotalLen replaces the length, in bytes.
func (h IPv4) SetTotalLen(n int) { binary.BigEndian.PutUint16(h[2:], uint16(n)) }

// SetID replaces the identification.
func (h IPv4) SetID(id uint16) { binary.BigEndian.PutUint16(h[4:], id) }

// SetTTL replaces the time to live.
func (h IPv4) SetTTL(v uint8) { h[8] = v }

// SetChecksum replaces the header checksum.
func (h IPv4) SetChecksum(v uint16) { binary.BigEndian.PutUint16(h[10:], v) }

// SetSrc replaces the source address, which must be IPv4.
func (h IPv4) SetSrc(a netip.Addr) { b := a.As4(); copy(h[12:16], b[:]) }

// SetDst replaces the destination address, which must be IPv4.
func (h IPv4) SetDst(a netip.Addr) { b := a.As4(); copy(h[16:20], b[:]) }

func (h IPv4) fragment() uint16 { return binary.BigEndian.Uint16(h[6:]) }
