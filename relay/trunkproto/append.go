package trunkproto

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
)

// The PROXY protocol's signature, version and commands, families (section 2.2), and type of an id (2.2.5).
const (
	signature   = "\r\n\r\n\x00\r\nQUIT\n"
	prefixSize  = 16 // signature, command, family, length
	commandSelf = 0x20
	commandFor  = 0x21
	familyNone  = 0x00
	familyIPv4  = 0x11
	familyIPv6  = 0x21
	typeID      = 0x05
)

// Our types of TLVs, from the range for applications (2.2.8). Unknown types below typeSkip must be refused.
const (
	typeVersion    = 0xe0
	typeVia        = 0xe1
	typePassed     = 0xe2
	typeClient     = 0xe3
	typeTarget     = 0xe4
	typeSkip       = 0xe8
	typeCongestion = 0xe8
	typeSeal       = 0xef
	tlvSize        = 3 // type and length
)

const maxCongestion = 15 // TCP_CA_NAME_MAX without its zero byte

// Append appends the header that a relay named self sends to the first of Via, on the trunk with that relay's hello. s is nil for TLS
// trunks; otherwise it is for the trunk's secret. The error means that the header cannot be sent, and may wrap [ErrHops] or [ErrLoop]; b is
// then returned unchanged.
func (h *Header) Append(b []byte, self string, hello *Hello, s *Sealer) ([]byte, error) {
	if err := h.check(self); err != nil {
		return b, fmt.Errorf("write the header: %w", err)
	}
	start := len(b)
	if h.Probe {
		b = append(append(b, signature...), commandSelf, familyNone, 0, 0)
	} else {
		b = appendAddresses(b, h.Client, h.Server)
	}
	b = append(appendTLV(b, typeVersion, 1), Version)
	b = append(appendTLV(b, typeID, IDSize), h.ID[:]...)
	b = append(appendTLV(b, typeVia, len(h.Via)), h.Via...)
	if len(h.Passed) == 0 {
		b = append(appendTLV(b, typePassed, len(self)), self...)
	} else {
		b = append(appendTLV(b, typePassed, len(h.Passed)+1+len(self)), h.Passed...)
		b = append(append(b, ','), self...)
	}
	if h.ClientAddress != Hidden {
		b = append(appendTLV(b, typeClient, 1), byte(h.ClientAddress))
	}
	if h.Probe && h.Server.IsValid() {
		address := h.Server.Addr().Unmap()
		b = appendTLV(b, typeTarget, address.BitLen()/8+2)
		b = wire.AppendUint16(appendAddress(b, address), h.Server.Port())
	}
	if h.Congestion != "" {
		b = append(appendTLV(b, typeCongestion, len(h.Congestion)), h.Congestion...)
	}
	if s != nil {
		b = appendTLV(b, typeSeal, sha256.Size)
	}
	size := len(b) - start
	if s != nil {
		size += sha256.Size
	}
	wire.PutUint16(b[start+prefixSize-2:], uint16(size-prefixSize))
	if s != nil {
		b = append(b, s.seal(hello, b[start:])...)
	}
	return b, nil
}

// check returns why the header is invalid. A valid one is shorter than MaxHeader.
func (h *Header) check(self string) error {
	switch {
	case !ValidName(self):
		return fmt.Errorf("%q is not a valid relay name", self)
	case !h.Via.valid():
		return fmt.Errorf("invalid route %q", h.Via)
	case len(h.Passed) > 0 && !h.Passed.valid():
		return fmt.Errorf("invalid relays passed %q", h.Passed)
	case h.Passed.Len()+1+h.Via.Len() > MaxHops:
		return ErrHops
	case h.Via.Has(self) || h.Passed.Has(self):
		return ErrLoop
	case !h.Probe && !(h.Client.IsValid() && h.Client.Addr().Zone() == ""):
		return fmt.Errorf("invalid client %v", h.Client)
	case (!h.Probe || h.Server.IsValid()) && !Connectable(h.Server):
		return fmt.Errorf("%v cannot be connected to", h.Server)
	case h.ClientAddress > ProxyHeader:
		return errors.New("unknown client address")
	case h.Congestion != "" && !validCongestion(h.Congestion):
		return fmt.Errorf("%q is not a valid name of a congestion control", h.Congestion)
	}
	return nil
}

func validCongestion[T string | []byte](name T) bool {
	for i := range len(name) {
		if c := name[i]; c < 'a' || c > 'z' {
			if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return len(name) > 0 && len(name) <= maxCongestion
}

// AppendProxy appends a PROXY protocol v2 header without TLVs, for [ProxyHeader]. Both addresses must be valid.
func AppendProxy(b []byte, client, server netip.AddrPort) []byte {
	return appendAddresses(b, client, server)
}

// appendAddresses appends a header up to its TLVs, with the length of one without TLVs.
func appendAddresses(b []byte, client, server netip.AddrPort) []byte {
	from, to := client.Addr().Unmap(), server.Addr().Unmap()
	b = append(append(b, signature...), commandFor)
	if from.Is4() && to.Is4() {
		b = append(b, familyIPv4, 0, 2*4+2*2)
		b = appendAddress(appendAddress(b, from), to)
	} else {
		from16, to16 := from.As16(), to.As16() // IPv4 is mapped
		b = append(b, familyIPv6, 0, 2*16+2*2)
		b = append(append(b, from16[:]...), to16[:]...)
	}
	return wire.AppendUint16(wire.AppendUint16(b, client.Port()), server.Port())
}

func appendAddress(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		four := a.As4()
		return append(b, four[:]...)
	}
	sixteen := a.As16()
	return append(b, sixteen[:]...)
}

func appendTLV(b []byte, kind byte, size int) []byte {
	return append(b, kind, byte(size>>8), byte(size))
}
