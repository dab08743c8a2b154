package openflow

import "fmt"

// Version is the protocol's, as in a header.
const Version = 0x04

// HeaderSize is the length of a message's header, and MaxLength the largest of a message, header included; in bytes.
const (
	HeaderSize = 8
	MaxLength  = 0xffff
)

// Header is the start of every message (7.1.1).
type Header struct {
	Version uint8
	Type    Type
	// Length is that of the whole message, in bytes.
	Length uint16
	// XID is the transaction id: an answer has its request's.
	XID uint32
}

// ParseHeader reads the header at the start of b. It refuses a length below the header's own, behind which no message can be
// found; every version passes.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, tooShort("7.1.1", "header", len(b))
	}
	h := Header{b[0], Type(b[1]), wire.Uint16(b[2:]), wire.Uint32(b[4:])}
	if h.Length < HeaderSize {
		return h, tooShort("7.1.1", "message", int(h.Length))
	}
	return h, nil
}

// Message is one message without its header: one of the pointer types of this package.
type Message interface {
	Type() Type
	appendBody(b []byte) []byte
}

// Unknown is a message whose type is not known. Body aliases the message.
type Unknown struct {
	Kind Type
	Body []byte
}

// Type implements [Message].
func (m *Unknown) Type() Type { return m.Kind }

func (m *Unknown) appendBody(b []byte) []byte { return append(b, m.Body...) }

// Append appends the bytes of m to b. It fails, with b as it was, only if the message is longer than MaxLength: multipart
// replies then have to be split.
func Append(b []byte, xid uint32, m Message) ([]byte, error) {
	start := len(b)
	b = append(b, Version, byte(m.Type()), 0, 0)
	b = m.appendBody(wire.AppendUint32(b, xid))
	if n := len(b) - start; n > MaxLength {
		return b[:start], fmt.Errorf("encode %v: %d bytes, where a message holds %d", m.Type(), n, MaxLength)
	}
	setLength(b, start, start+2)
	return b, nil
}

// Decode reads the message that fills b. The header is that of b even when the rest is refused, if b is long enough. Every
// error is a [*Fault]. The message aliases b where its fields say so.
//
// A version other than 1.3 is refused, except in a hello or an error, which are what versions are agreed upon with.
func Decode(b []byte) (Header, Message, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return h, nil, err
	}
	if int(h.Length) != len(b) {
		return h, nil, fault(BadRequestBadLen, "7.1.1", "%v of %d bytes in %d", h.Type, h.Length, len(b))
	}
	if h.Version != Version && h.Type != TypeHello && h.Type != TypeError {
		return h, nil, fault(BadRequestBadVersion, "7.1.1", "%v of version %#x", h.Type, h.Version)
	}
	m, err := decodeBody(h, b[HeaderSize:])
	if err != nil {
		return h, nil, err
	}
	return h, m, nil
}

func decodeBody(h Header, b []byte) (Message, error) {
	switch h.Type {
	case TypeHello:
		return decodeHello(h.Version, b)
	case TypeError:
		return decodeError(b)
	case TypeEchoRequest:
		return &EchoRequest{b}, nil
	case TypeEchoReply:
		return &EchoReply{b}, nil
	case TypeExperimenter:
		return decodeExperimenter(b)
	case TypePacketIn:
		return decodePacketIn(b)
	case TypeFlowRemoved:
		return decodeFlowRemoved(b)
	case TypePacketOut:
		return decodePacketOut(b)
	case TypeFlowMod:
		return decodeFlowMod(b)
	case TypeGroupMod:
		return decodeGroupMod(b)
	case TypeMultipartRequest:
		return decodeMultipartRequest(b)
	case TypeMultipartReply:
		return decodeMultipartReply(b)
	case TypeQueueGetConfigReply:
		return decodeQueueGetConfigReply(b)
	case TypeMeterMod:
		return decodeMeterMod(b)
	}
	return decodeFixed(h.Type, b)
}

// fixedSizes are the lengths of the bodies that have one, in bytes, and the sections that say so.
var fixedSizes = map[Type]struct {
	bytes   int
	section string
}{
	TypeFeaturesRequest: {0, "7.3.1"}, TypeFeaturesReply: {24, "7.3.1"},
	TypeGetConfigRequest: {0, "7.3.2"}, TypeGetConfigReply: {4, "7.3.2"}, TypeSetConfig: {4, "7.3.2"},
	TypePortStatus: {8 + portSize, "7.4.3"}, TypePortMod: {32, "7.3.4.3"}, TypeTableMod: {8, "7.3.3"},
	TypeBarrierRequest: {0, "7.3.8"}, TypeBarrierReply: {0, "7.3.8"},
	TypeQueueGetConfigRequest: {8, "7.3.6"},
	TypeRoleRequest:           {16, "7.3.9"}, TypeRoleReply: {16, "7.3.9"},
	TypeGetAsyncRequest: {0, "7.3.10"}, TypeGetAsyncReply: {24, "7.3.10"}, TypeSetAsync: {24, "7.3.10"},
}

// decodeFixed reads the bodies of one length.
func decodeFixed(t Type, b []byte) (Message, error) {
	size, ok := fixedSizes[t]
	if !ok {
		return &Unknown{t, b}, nil
	}
	if len(b) != size.bytes {
		return nil, fault(BadRequestBadLen, size.section, "%v of %d bytes, not %d", t, HeaderSize+len(b), HeaderSize+size.bytes)
	}
	switch t {
	case TypeFeaturesRequest:
		return &FeaturesRequest{}, nil
	case TypeFeaturesReply:
		return decodeFeaturesReply(b), nil
	case TypeGetConfigRequest:
		return &GetConfigRequest{}, nil
	case TypeGetConfigReply:
		return &GetConfigReply{decodeConfig(b)}, nil
	case TypeSetConfig:
		return &SetConfig{decodeConfig(b)}, nil
	case TypePortStatus:
		return &PortStatus{PortReason(b[0]), decodePort(b[8:])}, nil
	case TypePortMod:
		return decodePortMod(b), nil
	case TypeTableMod:
		return &TableMod{TableID(b[0]), wire.Uint32(b[4:])}, nil
	case TypeBarrierRequest:
		return &BarrierRequest{}, nil
	case TypeBarrierReply:
		return &BarrierReply{}, nil
	case TypeQueueGetConfigRequest:
		return &QueueGetConfigRequest{PortNo(wire.Uint32(b))}, nil
	case TypeRoleRequest:
		return &RoleRequest{Role(wire.Uint32(b)), wire.Uint64(b[8:])}, nil
	case TypeRoleReply:
		return &RoleReply{Role(wire.Uint32(b)), wire.Uint64(b[8:])}, nil
	case TypeGetAsyncRequest:
		return &GetAsyncRequest{}, nil
	case TypeGetAsyncReply:
		return &GetAsyncReply{decodeAsync(b)}, nil
	}
	return &SetAsync{decodeAsync(b)}, nil
}
