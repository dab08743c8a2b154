package hello

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// The parts of a hello, for tests: vectors (RFC 8446 section 3.4), extensions, messages and records.

func u16(values ...int) []byte {
	var b []byte
	for _, v := range values {
		b = binary.BigEndian.AppendUint16(b, uint16(v))
	}
	return b
}

func vector(lengthBytes int, parts ...[]byte) []byte {
	content := slices.Concat(parts...)
	length := binary.BigEndian.AppendUint32(nil, uint32(len(content)))
	return append(length[4-lengthBytes:], content...)
}

func vec8(parts ...[]byte) []byte  { return vector(1, parts...) }
func vec16(parts ...[]byte) []byte { return vector(2, parts...) }

func extension(kind int, data ...[]byte) []byte {
	return append(u16(kind), vec16(data...)...)
}

func nameEntry(kind byte, name string) []byte {
	return append([]byte{kind}, vec16([]byte(name))...)
}

func serverName(name string) []byte {
	return extension(extServerName, vec16(nameEntry(hostName, name)))
}

func alpn(names ...string) []byte {
	var list []byte
	for _, name := range names {
		list = append(list, vec8([]byte(name))...)
	}
	return extension(extALPN, vec16(list))
}

func versions(offered ...int) []byte {
	return extension(extSupportedVersions, vec8(u16(offered...)))
}

// plan is a hello to be built. What is nil is valid and says little.
type plan struct {
	version     int      // 0: 3.3
	session     []byte   // without its length, as are the next two
	ciphers     []byte   // nil: one
	compression []byte   // nil: none at all, in one byte
	extensions  [][]byte // nil: not even their length
	tail        []byte   // behind the extensions
}

func (p plan) message() []byte {
	if p.version == 0 {
		p.version = 0x0303
	}
	if p.ciphers == nil {
		p.ciphers = u16(0x1301)
	}
	if p.compression == nil {
		p.compression = []byte{0}
	}
	random := make([]byte, randomSize)
	for i := range random {
		random[i] = byte(i)
	}
	b := slices.Concat(u16(p.version), random, vec8(p.session), vec16(p.ciphers), vec8(p.compression))
	if p.extensions != nil {
		b = append(b, vec16(p.extensions...)...)
	}
	return message(clientHello, append(b, p.tail...))
}

// with is the message of a usual hello with those extensions.
func with(extensions ...[]byte) []byte {
	return plan{session: make([]byte, 32), extensions: append([][]byte{}, extensions...)}.message()
}

func message(kind byte, content []byte) []byte {
	return append([]byte{kind}, vector(3, content)...)
}

func record(content []byte) []byte {
	return append([]byte{recordHandshake, 3, 1}, vec16(content)...)
}

// records cuts a message into records, of size bytes but for the last.
func records(message []byte, size int) []byte {
	var b []byte
	for content := range slices.Chunk(message, size) {
		b = append(b, record(content)...)
	}
	return b
}

// unhexWord is for literals.
func unhexWord(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
