package hello

import (
	"encoding/binary"
	"net/netip"
)

// Hash is the input of policy hash for a session: all clients of a prefix (/24, /56 of IPv6) that name a server have the same.
// The name is as Canonical gives it. The kernel program computes the same from words of eight bytes.
func Hash(client netip.Addr, name string) uint64 {
	address := client.As16()
	if client.Unmap().Is4() {
		address[15] = 0
	} else {
		clear(address[7:])
	}
	h := uint64(0xcbf29ce484222325)
	mix := func(word uint64) {
		h = (h ^ word) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	mix(binary.LittleEndian.Uint64(address[:8]))
	mix(binary.LittleEndian.Uint64(address[8:]))
	padded := make([]byte, max(64, (len(name)+7)/8*8))
	for i := range len(name) {
		padded[i] = name[i] | 0x20
	}
	for ; len(padded) > 0; padded = padded[8:] {
		mix(binary.LittleEndian.Uint64(padded))
	}
	return h
}
