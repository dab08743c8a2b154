package secure

import (
	"encoding/binary"
	"net"
	"time"
)

// memory is what crypto/tls takes for a connection.
type memory struct {
	in        []byte // ciphertext that has come and was not taken
	out       []byte // what is to be sent
	base      []byte // what was lent for out; nil: nothing
	buffers   *Buffers
	handshake *handshake // nil when it is over
	record    record
}

// wouldBlock is what a Read says that finds nothing: crypto/tls takes it for no end of the connection.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return "nothing has come" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

// Read gives at most what is left of the record at hand: crypto/tls keeps what it reads ahead, in buffers that it does not give back.
func (m *memory) Read(b []byte) (int, error) {
	if len(m.in) == 0 && m.handshake != nil {
		in, err := m.handshake.read()
		if err != nil {
			return 0, err
		}
		m.in = in
	}
	if len(m.in) == 0 {
		return 0, wouldBlock{}
	}
	n := copy(b, m.in[:min(len(m.in), m.record.left(m.in))])
	m.record.advance(n)
	m.in = m.in[n:]
	return n, nil
}

// Write never fails: who owns the Conn bounds what he writes, and what crypto/tls says of itself is bounded in Conn.Read.
func (m *memory) Write(b []byte) (int, error) {
	if m.handshake != nil {
		m.handshake.write(b)
		return len(b), nil
	}
	if m.out == nil {
		m.base = m.buffers.Alloc()
		m.out = m.base[:0]
	}
	m.out = append(m.out, b...)
	return len(b), nil
}

// release gives the buffer back.
func (m *memory) release() {
	if m.base != nil {
		m.buffers.Free(m.base)
	}
	m.base, m.out = nil, nil
}

func (m *memory) Close() error                     { return nil }
func (m *memory) LocalAddr() net.Addr              { return nil }
func (m *memory) RemoteAddr() net.Addr             { return nil }
func (m *memory) SetDeadline(time.Time) error      { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }

const headerSize = 5 // of a record (RFC 8446, section 5.1)

// record is how far the reader has come in a record.
type record struct {
	header [headerSize]byte
	n      int // bytes of the record that were read
}

// left is how many bytes of the record are to be read, as far as what has come tells.
func (r *record) left(in []byte) int {
	if r.n < headerSize {
		if copy(r.header[r.n:], in) < headerSize-r.n {
			return len(in)
		}
	}
	return r.size() - r.n
}

func (r *record) size() int { return headerSize + int(binary.BigEndian.Uint16(r.header[3:])) }

// advance takes at most what is left.
func (r *record) advance(n int) {
	if r.n += n; r.n >= headerSize && r.n == r.size() {
		r.n = 0
	}
}
