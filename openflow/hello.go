package openflow

import "math/bits"

// Hello opens a connection (7.5.1).
type Hello struct{ Elements []HelloElement }

// HelloElement is an element of a hello. Data is what follows type and length, without padding; decoded, it aliases the
// message.
type HelloElement struct {
	Kind uint16
	Data []byte
}

// helloVersionBitmap is the only type of element there is: bit n of the words in order is set if version n is spoken.
const helloVersionBitmap = 1

// NewHello returns the hello that offers 1.3 alone. Its header says 1.3, too.
func NewHello() *Hello {
	return &Hello{[]HelloElement{{helloVersionBitmap, wire.AppendUint32(nil, 1<<Version)}}}
}

// Type implements [Message].
func (*Hello) Type() Type { return TypeHello }

// Versions returns the versions in the bitmap, lowest first, and whether there is a bitmap.
func (m *Hello) Versions() ([]uint8, bool) {
	var versions []uint8
	found := false
	for _, e := range m.Elements {
		if e.Kind != helloVersionBitmap {
			continue
		}
		found = true
		for word := 0; 4*word+4 <= len(e.Data) && word < 8; word++ {
			for w := wire.Uint32(e.Data[4*word:]); w != 0; w &= w - 1 {
				versions = append(versions, uint8(32*word+bits.TrailingZeros32(w)))
			}
		}
	}
	return versions, found
}

func (m *Hello) appendBody(b []byte) []byte {
	for _, e := range m.Elements {
		start := len(b)
		b = wire.AppendUint16(b, e.Kind)
		b = wire.AppendUint16(b, uint16(4+len(e.Data)))
		b = padTo8(append(b, e.Data...), start)
	}
	return b
}

// decodeHello reads the elements. A body that is none is no error, as a hello of another version may carry anything, which
// has to be ignored (7.5.1).
func decodeHello(version uint8, b []byte) (Message, error) {
	m := &Hello{}
	for len(b) > 0 {
		n := 0
		if len(b) >= 4 {
			n = int(wire.Uint16(b[2:]))
		}
		if n < 4 || n > len(b) {
			if version != Version {
				break
			}
			return nil, tooShort("7.5.1", "hello element", n)
		}
		m.Elements = append(m.Elements, HelloElement{wire.Uint16(b), b[4:n:n]})
		b = b[min(roundUp8(n), len(b)):]
	}
	return m, nil
}

// EchoRequest asks for its own data back (7.5.2). Decoded, Data aliases the message.
type EchoRequest struct{ Data []byte }

// EchoReply answers it (7.5.3). Decoded, Data aliases the message.
type EchoReply struct{ Data []byte }

// Type implements [Message].
func (*EchoRequest) Type() Type { return TypeEchoRequest }

// Type implements [Message].
func (*EchoReply) Type() Type { return TypeEchoReply }

func (m *EchoRequest) appendBody(b []byte) []byte { return append(b, m.Data...) }
func (m *EchoReply) appendBody(b []byte) []byte   { return append(b, m.Data...) }

// Error says that a request failed (7.4.4).
type Error struct {
	Code Code
	// Experimenter is the experimenter's id if the code's type is ErrorExperimenter; its number is then the experimenter's.
	Experimenter uint32
	// Data is the start of the request, or, after a failed hello, a text. Decoded, it aliases the message.
	Data []byte
}

// Type implements [Message].
func (*Error) Type() Type { return TypeError }

func (m *Error) appendBody(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(m.Code))
	if m.Code.Type() == ErrorExperimenter {
		b = wire.AppendUint32(b, m.Experimenter)
	}
	return append(b, m.Data...)
}

func decodeError(b []byte) (Message, error) {
	if len(b) < 4 {
		return nil, tooShort("7.4.4", "error", HeaderSize+len(b))
	}
	m := &Error{Code: Code(wire.Uint32(b)), Data: b[4:]}
	if m.Code.Type() == ErrorExperimenter {
		if len(b) < 8 {
			return nil, tooShort("7.4.4", "experimenter's error", HeaderSize+len(b))
		}
		m.Experimenter, m.Data = wire.Uint32(b[4:]), b[8:]
	}
	return m, nil
}
