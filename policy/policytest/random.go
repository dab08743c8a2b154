// Package policytest has random clients for tests of policies: few networks, so that prefixes overlap and hold some of the clients.
package policytest

import (
	"math/rand/v2"
	"net/netip"
)

// Client returns an address of a client, of either family.
func Client(r *rand.Rand) netip.Addr {
	if r.IntN(4) == 0 {
		return netip.AddrFrom16([16]byte{0x20, 1, byte(r.IntN(3)), 15: byte(r.IntN(4))})
	}
	return netip.AddrFrom4([4]byte{10, byte(r.IntN(3)), byte(r.IntN(4)), byte(r.IntN(256))})
}

// Prefix returns a network with a client, of any length.
func Prefix(r *rand.Rand) netip.Prefix {
	a := Client(r)
	p, _ := a.Prefix(r.IntN(a.BitLen() + 1))
	return p
}
