package packet

import (
	"encoding/binary"
	"net/netip"
)

// Sum returns the 16-bit one's complement sum of start and b, read as big-endian words, not complemented (RFC 1071).
// An odd last byte is padded with a zero on its right. The sum is 0 only when start and all of b are 0.
func Sum(b []byte, start uint16) uint16 {
	return fold(addWords(uint64(start), b))
}

// Checksum returns the complement of [Sum]: what goes into a checksum field that was zero in b, and 0 for a b whose
// field already holds the right value.
func Checksum(b []byte, start uint16) uint16 { return ^Sum(b, start) }

// PseudoHeader returns the sum, not complemented, of the pseudo header of RFC 9293 section 3.1 (IPv4) or RFC 8200
// section 8.1 (IPv6). length is that of the transport header and its payload, in bytes. Linux leaves exactly this value
// in the checksum field of a CHECKSUM_PARTIAL packet.
func PseudoHeader(src, dst netip.Addr, protocol Protocol, length int) uint16 {
	sum := uint64(protocol) + uint64(length>>16) + uint64(length&0xffff)
	return fold(addWords(addWords(sum, src.AsSlice()), dst.AsSlice()))
}

// UpdateChecksum returns check after the bytes old that it covers were replaced by replacement (RFC 1624, equation 3).
// The bytes must start at an even offset of what the checksum covers. A checksum that was wrong stays wrong by the same
// difference. The result is never 0xffff, which in one's complement is another zero, unless nothing contributed.
func UpdateChecksum(check uint16, old, replacement []byte) uint16 {
	return ^fold(addWords(subWords(uint64(^check), old), replacement))
}

// UpdatePartial does the same for the checksum field of a CHECKSUM_PARTIAL packet, which holds the sum of the pseudo
// header and not its complement.
func UpdatePartial(sum uint16, old, replacement []byte) uint16 {
	return fold(addWords(subWords(uint64(sum), old), replacement))
}

func addWords(sum uint64, b []byte) uint64 {
	for len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// subWords adds the one's complement of every word of b: subtraction without a borrow.
func subWords(sum uint64, b []byte) uint64 {
	for len(b) >= 2 {
		sum += uint64(^binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(^(uint16(b[0]) << 8))
	}
	return sum
}

func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
