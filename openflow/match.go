package openflow

import (
	"errors"
	"iter"
	"net/netip"

	"baton/packet"
)

// Match is the fields of a match (7.2.3), one TLV behind the other, without the header and the padding of an ofp_match. It
// matches every packet if it is empty. A decoded match aliases the message; the methods that add a field append to it.
type Match []byte

// The sizes of an ofp_match's header and of a TLV's, in bytes.
const (
	matchHeader = 4
	tlvHeader   = 4
)

// matchTypeOXM is the only type of ofp_match that 1.3 has not deprecated (7.2.3.1).
const matchTypeOXM = 1

// ErrTLV says that a field's length runs past the match, or cannot be that of a value and its mask.
var ErrTLV = errors.New("a field's length does not fit")

// readTLV reads the field at the start of b.
func readTLV(b []byte) (TLV, error) {
	if len(b) < tlvHeader || tlvHeader+int(b[3]) > len(b) {
		return TLV{}, ErrTLV
	}
	header := wire.Uint32(b)
	t := TLV{Field: Field(header &^ 0x1ff), Masked: header&0x100 != 0}
	payload := b[tlvHeader : tlvHeader+int(b[3]) : tlvHeader+int(b[3])]
	if t.Field.Class() == ClassExperimenter {
		if len(payload) < 4 {
			return TLV{}, ErrTLV
		}
		t.Field |= Field(wire.Uint32(payload)) << 32
		payload = payload[4:]
	}
	t.Value = payload
	if t.Masked {
		if len(payload)%2 != 0 {
			return TLV{}, ErrTLV
		}
		half := len(payload) / 2
		t.Value, t.Mask = payload[:half:half], payload[half:]
	}
	return t, nil
}

// All walks the fields in order. What cannot be read ends the walk with [ErrTLV], after which nothing follows.
func (m Match) All() iter.Seq2[TLV, error] {
	return func(yield func(TLV, error) bool) {
		for b := []byte(m); len(b) > 0; {
			t, err := readTLV(b)
			if !yield(t, err) || err != nil {
				return
			}
			b = b[t.size():]
		}
	}
}

// Get returns the first TLV of that field, and whether there is one.
func (m Match) Get(f Field) (TLV, bool) {
	for b := []byte(m); len(b) > 0; {
		t, err := readTLV(b)
		if err != nil {
			break
		}
		if t.Field == f {
			return t, true
		}
		b = b[t.size():]
	}
	return TLV{}, false
}

// header appends a TLV's header for a value of n bytes.
func (m Match) header(f Field, masked bool, n int) Match {
	h := uint32(f)
	if masked {
		h |= 0x100
		n *= 2
	}
	if f.Class() == ClassExperimenter {
		n += 4
	}
	m = wire.AppendUint32(m, h|uint32(n)&0xff)
	if f.Class() == ClassExperimenter {
		m = wire.AppendUint32(m, f.Experimenter())
	}
	return m
}

// Bytes adds a field whose value, and mask unless it is nil, are given as they go on the wire.
func (m Match) Bytes(f Field, value, mask []byte) Match {
	return append(append(m.header(f, mask != nil, len(value)), value...), mask...)
}

// Uint adds a field of up to 8 bytes. The field must be known, as its size is the field's.
func (m Match) Uint(f Field, v uint64) Match {
	n := f.Size()
	return appendNumber(m.header(f, false, n), v, n)
}

// UintMasked adds a field of up to 8 bytes with a mask.
func (m Match) UintMasked(f Field, v, mask uint64) Match {
	n := f.Size()
	return appendNumber(appendNumber(m.header(f, true, n), v, n), mask, n)
}

func appendNumber(b []byte, v uint64, n int) []byte {
	for n--; n >= 0; n-- {
		b = append(b, byte(v>>(8*min(n, 8))))
	}
	return b
}

// Port adds in_port.
func (m Match) Port(p PortNo) Match { return m.Uint(FieldInPort, uint64(p)) }

// MAC adds a field that is an Ethernet address.
func (m Match) MAC(f Field, a packet.MAC) Match { return append(m.header(f, false, len(a)), a[:]...) }

// MACMasked adds a field that is an Ethernet address with a mask.
func (m Match) MACMasked(f Field, a, mask packet.MAC) Match {
	return append(append(m.header(f, true, len(a)), a[:]...), mask[:]...)
}

// Addr adds a field that is an IP address.
func (m Match) Addr(f Field, a netip.Addr) Match {
	a = a.Unmap()
	if a.Is4() {
		b := a.As4()
		return append(m.header(f, false, len(b)), b[:]...)
	}
	b := a.As16()
	return append(m.header(f, false, len(b)), b[:]...)
}

// Prefix adds a field that is a network, with its prefix as the mask, or without one if the prefix is a single address.
func (m Match) Prefix(f Field, p netip.Prefix) Match {
	if p.IsSingleIP() {
		return m.Addr(f, p.Addr())
	}
	p = p.Masked()
	value := p.Addr().AsSlice()
	m = append(m.header(f, true, len(value)), value...)
	for i := range value {
		m = append(m, byte(uint16(0xff00)>>min(max(p.Bits()-8*i, 0), 8)))
	}
	return m
}

// appendTo writes the ofp_match: header, fields, and padding to a multiple of 8 bytes that its length does not count.
func (m Match) appendTo(b []byte) []byte {
	start := len(b)
	b = wire.AppendUint16(b, matchTypeOXM)
	b = wire.AppendUint16(b, uint16(matchHeader+len(m)))
	return padTo8(append(b, m...), start)
}

// decodeMatch reads the ofp_match at the start of b, and returns how many bytes it takes with its padding.
func decodeMatch(b []byte) (Match, int, error) {
	if len(b) < 2*matchHeader {
		return nil, 0, fault(BadMatchBadLen, "7.2.3.1", "match of %d bytes", len(b))
	}
	kind, length := wire.Uint16(b), int(wire.Uint16(b[2:]))
	if kind != matchTypeOXM {
		return nil, 0, fault(BadMatchBadType, "7.2.3.1", "match of type %d", kind)
	}
	if length < matchHeader || roundUp8(length) > len(b) {
		return nil, 0, fault(BadMatchBadLen, "7.2.3.1", "match of %d bytes with %d left", length, len(b))
	}
	m := Match(b[matchHeader:length:length])
	for t, err := range m.All() {
		if err != nil {
			return nil, 0, fault(BadMatchBadLen, "7.2.3.2", "%v", err)
		}
		if n := t.Field.Size(); n != 0 && n != len(t.Value) {
			return nil, 0, fault(BadMatchBadLen, "7.2.3.2", "%v of %d bytes, not %d", t.Field, len(t.Value), n)
		}
	}
	return m, roundUp8(length), nil
}
