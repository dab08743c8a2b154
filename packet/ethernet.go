package packet

import (
	"encoding/binary"
	"fmt"
)

// EthernetSize is the size of the Ethernet header in bytes.
const EthernetSize = 14

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// EtherType says what an Ethernet frame carries.
type EtherType uint16

// The EtherTypes that [Parse] looks into.
const (
	EtherTypeIPv4 EtherType = 0x0800
	EtherTypeIPv6 EtherType = 0x86dd
)

// Ethernet is a view of an Ethernet header: at least EthernetSize bytes.
type Ethernet []byte

// Dst returns the destination address.
func (e Ethernet) Dst() MAC { return MAC(e[0:6]) }

// Src returns the source address.
func (e Ethernet) Src() MAC { return MAC(e[6:12]) }

// Type returns the EtherType.
func (e Ethernet) Type() EtherType { return EtherType(binary.BigEndian.Uint16(e[12:])) }

// SetDst replaces the destination address.
func (e Ethernet) SetDst(m MAC) { copy(e[0:6], m[:]) }

// SetSrc replaces the source address.
func (e Ethernet) SetSrc(m MAC) { copy(e[6:12], m[:]) }

// SetType replaces the EtherType.
func (e Ethernet) SetType(t EtherType) { binary.BigEndian.PutUint16(e[12:], uint16(t)) }
