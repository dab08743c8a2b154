package trunkproto

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
)

// The PROXY protocol's signature, its version and commands, its families (section 2.2), and its type for an id (2.2.5).
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

// Our own types of TLVs, from the range for applications (2.2.8). Those below typeSkip must be known to be passed over.
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

// Append writes the header that a relay named self sends to the first of Via, on the trunk on which that relay has said hello.
// s is nil on trunks of TLS; otherwise it belongs to the trunk's secret. The error tells what no header can say, and wraps
// [ErrHops] or [ErrLoop] for what is theirs; b is returned as it was then.
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

// check returns what no header of this relay can say. What it lets pass is shorter than MaxHeader.
func (h *Header) check(self string) error {
	switch {
	case !ValidName(self):
		return fmt.Errorf("%q is no name of a relay", self)
	case !h.Via.valid():
		return fmt.Errorf("the way %q is none", h.Via)
	case len(h.Passed) > 0 && !h.Passed.valid():
		return fmt.Errorf("the relays passed %q are none", h.Passed)
	case h.Passed.Len()+1+h.Via.Len() > MaxHops:
		return ErrHops
	case h.Via.Has(self) || h.Passed.Has(self):
		return ErrLoop
	case !h.Probe && !(h.Client.IsValid() && h.Client.Addr().Zone() == ""):
		return fmt.Errorf("the client %v is none", h.Client)
	case (!h.Probe || h.Server.IsValid()) && !Connectable(h.Server):
		return fmt.Errorf("no connection to %v can be asked for", h.Server)
	case h.ClientAddress > ProxyHeader:
		return errors.New("the server is to see an unknown client")
	case h.Congestion != "" && !validCongestion(h.Congestion):
		return fmt.Errorf("%q is no name of a congestion control", h.Congestion)
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

// AppendProxy writes a PROXY protocol v2 header without TLVs, for a server that is to learn of its client: what
// [ProxyHeader] asks for. Both addresses must be valid.
func AppendProxy(b []byte, client, server netip.AddrPort) []byte {
	return appendAddresses(b, client, server)
}

// appendAddresses writes a header up to its TLVs, and a length as if there were none.
func appendAddresses(b []byte, client, server netip.AddrPort) []byte {
	from, to := client.Addr().Unmap(), server.Addr().Unmap()
	b = append(append(b, signature...), commandFor)
	if from.Is4() && to.Is4() {
		b = append(b, familyIPv4, 0, 2*4+2*2)
		b = appendAddress(appendAddress(b, from), to)
	} else {
		from16, to16 := from.As16(), to.As16() // the IPv4 one is mapped
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
