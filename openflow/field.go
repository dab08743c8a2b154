package openflow

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"baton/packet"
)

// Field identifies a match field: experimenter, class and number, placed as in the header of a TLV (7.2.3.2), with the mask
// and length bits zero. Fields of a class other than EXPERIMENTER have no experimenter.
type Field uint64

// The classes of fields (7.2.3.3).
const (
	ClassNXM0         uint16 = 0x0000
	ClassNXM1         uint16 = 0x0001
	ClassBasic        uint16 = 0x8000
	ClassPacketRegs   uint16 = 0x8001 // of OpenFlow 1.5, which Open vSwitch takes in 1.3 too
	ClassExperimenter uint16 = 0xffff
)

// NewField puts a field together.
func NewField(experimenter uint32, class uint16, number uint8) Field {
	return Field(uint64(experimenter)<<32 | uint64(class)<<16 | uint64(number&0x7f)<<9)
}

// Experimenter returns the experimenter's id, 0 outside of ClassExperimenter.
func (f Field) Experimenter() uint32 { return uint32(f >> 32) }

// Class returns the class.
func (f Field) Class() uint16 { return uint16(f >> 16) }

// Number returns the number within the class.
func (f Field) Number() uint8 { return uint8(f>>9) & 0x7f }

// fieldInfo is what the specification says of a field.
type fieldInfo struct {
	name     string
	bytes    int // of the value on the wire
	bits     int // of the value that mean something, the low ones
	kind     fieldKind
	maskable bool
	settable bool
	needs    []need // of which one must hold; empty: nothing
}

// need is a prerequisite: field stands before, with that value, or is present and not zero.
type need struct {
	field   Field
	value   uint64
	present bool
}

// fieldKind is how a value is written for people.
type fieldKind uint8

const (
	kindNumber fieldKind = iota
	kindHex
	kindMAC
	kindIP
)

// info returns nil for a field that is not known.
func (f Field) info() *fieldInfo {
	if f>>16 == Field(ClassBasic) && int(f.Number()) < len(basicFields) {
		return &basicFields[f.Number()]
	}
	return extensionFields[f]
}

// Known reports whether the field is one of the specification or of the extensions that have a constant here.
func (f Field) Known() bool { return f.info() != nil }

// Size returns the size of the field's value in bytes, 0 if the field is not known.
func (f Field) Size() int {
	if i := f.info(); i != nil {
		return i.bytes
	}
	return 0
}

// Bits returns how many of the value's low bits mean something, 0 if the field is not known.
func (f Field) Bits() int {
	if i := f.info(); i != nil {
		return i.bits
	}
	return 0
}

// Maskable reports whether the specification lets the field be masked (7.2.3.7).
func (f Field) Maskable() bool { i := f.info(); return i != nil && i.maskable }

// Settable reports whether a set-field action may write the field (7.2.5).
func (f Field) Settable() bool { i := f.info(); return i != nil && i.settable }

// Fields returns the fields of the specification in the order of their numbers, those of extensions excluded.
func Fields() []Field {
	all := make([]Field, len(basicFields))
	for n := range basicFields {
		all[n] = NewField(0, ClassBasic, uint8(n))
	}
	return all
}

func (f Field) String() string {
	if i := f.info(); i != nil {
		return i.name
	}
	if f.Class() == ClassExperimenter {
		return fmt.Sprintf("experimenter_%#x_%d", f.Experimenter(), f.Number())
	}
	return fmt.Sprintf("class_%#x_%d", f.Class(), f.Number())
}

// TLV is one field of a match or of a set-field action (7.2.3.2). Value and Mask alias the bytes that it was read from.
type TLV struct {
	Field  Field
	Masked bool
	// Mask is as long as Value if Masked, else empty.
	Value, Mask []byte
}

// size is that of the TLV on the wire.
func (t TLV) size() int {
	n := 4 + len(t.Value) + len(t.Mask)
	if t.Field.Class() == ClassExperimenter {
		n += 4
	}
	return n
}

// number reads up to 8 bytes; of a longer value it reads the last 8.
func number(b []byte) uint64 {
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

// Uint returns the value as a number; of a value of more than 8 bytes, the last 8.
func (t TLV) Uint() uint64 { return number(t.Value) }

// UintMask returns the mask as a number, all ones if there is none.
func (t TLV) UintMask() uint64 {
	if !t.Masked {
		return ^uint64(0) >> (64 - 8*min(len(t.Value), 8))
	}
	return number(t.Mask)
}

// Addr returns the value as an IP address, the zero Addr if it has neither 4 nor 16 bytes.
func (t TLV) Addr() netip.Addr {
	a, _ := netip.AddrFromSlice(t.Value)
	return a
}

// MAC returns the value as an Ethernet address, zero if it has not 6 bytes.
func (t TLV) MAC() packet.MAC {
	var m packet.MAC
	if len(t.Value) == len(m) {
		copy(m[:], t.Value)
	}
	return m
}

// String is as in "ipv4_dst=10.0.0.0/255.0.0.0".
func (t TLV) String() string {
	if !t.Masked {
		return t.Field.String() + "=" + t.format(t.Value)
	}
	return t.Field.String() + "=" + t.format(t.Value) + "/" + t.format(t.Mask)
}

func (t TLV) format(b []byte) string {
	i := t.Field.info()
	switch {
	case i == nil || len(b) != i.bytes:
		return fmt.Sprintf("0x%x", b)
	case i.kind == kindMAC:
		return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
	case i.kind == kindIP:
		a, _ := netip.AddrFromSlice(b)
		return a.String()
	case i.kind == kindHex:
		return "0x" + strconv.FormatUint(number(b), 16)
	}
	return strconv.FormatUint(number(b), 10)
}

func (m Match) String() string {
	var parts []string
	for t, err := range m.All() {
		if err != nil {
			parts = append(parts, err.Error())
			break
		}
		parts = append(parts, t.String())
	}
	return strings.Join(parts, ",")
}
