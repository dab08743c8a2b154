package trunkproto

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
)

// ParseHeader parses a header from the bytes received on a trunk with that hello. n is its length, 0 while more bytes are needed; those
// after it are the flow's. s is nil for TLS trunks; otherwise it is for the trunk's secret. The error is a [*Malformed], or wraps
// [ErrSeal], [ErrTooLong], [ErrHops] or [ErrVersion]; errors in the first 16 bytes are returned without waiting for the rest. The header's
// names alias b.
func ParseHeader(b []byte, hello *Hello, s *Sealer) (h Header, n int, err error) {
	n, err = headerSize(b)
	if n == 0 || err != nil {
		return Header{}, 0, err
	}
	rest := b[:n:n]
	if s != nil {
		if !s.opens(hello, rest) {
			return Header{}, 0, fmt.Errorf("read the header: %w", ErrSeal)
		}
		rest = rest[:n-sha256.Size-tlvSize]
	}
	if err := h.read(rest); err != nil {
		return Header{}, 0, err
	}
	return h, n, nil
}

// headerSize is the length of the header at the start of b, 0 until it is complete.
func headerSize(b []byte) (int, error) {
	if m := min(len(b), len(signature)); string(b[:m]) != signature[:m] {
		return 0, malformed("not a PROXY protocol v2 header")
	}
	if len(b) > 12 && b[12] != commandFor && b[12] != commandSelf {
		return 0, malformed("version and command %#02x", b[12])
	}
	if len(b) > 13 && !fits(b[12], b[13]) {
		return 0, malformed("family %#02x with command %#02x", b[13], b[12])
	}
	if len(b) < prefixSize {
		return 0, nil
	}
	size := prefixSize + int(wire.Uint16(b[14:]))
	if size > MaxHeader {
		return 0, fmt.Errorf("read the header: %w: %d bytes", ErrTooLong, size)
	}
	if len(b) < size {
		return 0, nil
	}
	return size, nil
}

func fits(command, family byte) bool {
	if command == commandSelf {
		return family == familyNone
	}
	return family == familyIPv4 || family == familyIPv6
}

func malformed(format string, args ...any) error {
	return &Malformed{"header", fmt.Sprintf(format, args...)}
}

// read parses a header, checked by headerSize, without its seal.
func (h *Header) read(b []byte) error {
	family, rest := b[13], b[prefixSize:]
	switch family {
	case familyNone:
		h.Probe = true
	case familyIPv4:
		if len(rest) < 12 {
			return malformed("addresses of %d bytes", len(rest))
		}
		h.Client = netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest)), wire.Uint16(rest[8:]))
		h.Server = netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest[4:])), wire.Uint16(rest[10:]))
		rest = rest[12:]
	case familyIPv6:
		if len(rest) < 36 {
			return malformed("addresses of %d bytes", len(rest))
		}
		h.Client = netip.AddrPortFrom(netip.AddrFrom16([16]byte(rest)).Unmap(), wire.Uint16(rest[32:]))
		h.Server = netip.AddrPortFrom(netip.AddrFrom16([16]byte(rest[16:])).Unmap(), wire.Uint16(rest[34:]))
		rest = rest[36:]
	}
	if err := h.readTLVs(rest); err != nil {
		return err
	}
	if (!h.Probe || h.Server.IsValid()) && !Connectable(h.Server) {
		return malformed("%v cannot be connected to", h.Server)
	}
	if h.Passed.Len()+h.Via.Len() > MaxHops {
		return fmt.Errorf("read the header: %w", ErrHops)
	}
	return nil
}

// seen is a set of TLV types: typeID is bit 16, others count from typeVersion.
type seen uint32

func (s *seen) add(kind byte) (twice bool) {
	bit := seen(1) << 16
	if kind != typeID {
		bit = 1 << (kind - typeVersion)
	}
	twice = *s&bit != 0
	*s |= bit
	return twice
}

const required = seen(1<<16 | 1<<0 | 1<<(typeVia-typeVersion) | 1<<(typePassed-typeVersion))

func (h *Header) readTLVs(b []byte) error {
	var had seen
	for len(b) > 0 {
		if len(b) < tlvSize || len(b) < tlvSize+int(wire.Uint16(b[1:])) {
			return malformed("truncated TLV")
		}
		kind, end := b[0], tlvSize+int(wire.Uint16(b[1:]))
		value := b[tlvSize:end:end]
		b = b[end:]
		if had == 0 && kind != typeVersion {
			return malformed("type %#02x before the version", kind)
		}
		if kind != typeID && (kind < typeVersion || kind > typeSeal) {
			continue
		}
		if had.add(kind) {
			return malformed("type %#02x twice", kind)
		}
		if err := h.readTLV(kind, value); err != nil {
			return err
		}
	}
	if had&required != required {
		return malformed("version, id, route or relays passed are missing")
	}
	return nil
}

// readTLV parses a TLV with typeID or a type in the range for applications.
func (h *Header) readTLV(kind byte, value []byte) error {
	switch kind {
	case typeVersion:
		if len(value) != 1 {
			return malformed("a version of %d bytes", len(value))
		}
		if value[0] != Version {
			return fmt.Errorf("read the header: %w: the opener uses %d, this relay supports %d", ErrVersion, value[0], Version)
		}
	case typeID:
		if len(value) != IDSize {
			return malformed("an id of %d bytes", len(value))
		}
		h.ID = [IDSize]byte(value)
	case typeVia:
		if h.Via = value; !h.Via.valid() {
			return malformed("invalid route")
		}
	case typePassed:
		if h.Passed = value; !h.Passed.valid() {
			return malformed("invalid relays passed")
		}
	case typeClient:
		if len(value) != 1 || ClientAddress(value[0]) > ProxyHeader {
			return malformed("unknown client address")
		}
		h.ClientAddress = ClientAddress(value[0])
	case typeTarget:
		address, ok := netip.AddrFromSlice(value[:max(0, len(value)-2)])
		if !ok || !h.Probe {
			return malformed("an address to measure of %d bytes, probe: %v", len(value), h.Probe)
		}
		h.Server = netip.AddrPortFrom(address.Unmap(), wire.Uint16(value[len(value)-2:]))
	case typeCongestion:
		if !validCongestion(value) {
			return malformed("invalid name of a congestion control")
		}
		h.Congestion = string(value)
	case typeSeal:
		return fmt.Errorf("read the header: %w", ErrSeal)
	default:
		if kind < typeSkip {
			return malformed("type %#02x is unknown and must not be skipped", kind)
		}
	}
	return nil
}
