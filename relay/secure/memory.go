package secure

import (
	"encoding/binary"
	"net"
	"time"
)

// memory is the net.Conn of crypto/tls.
type memory struct {
	in        []byte // received ciphertext that was not consumed
	out       []byte // ciphertext to send
	base      []byte // allocated buffer of out; nil: none
	buffers   *Buffers
	handshake *handshake // nil when it is over
	record    record
}

// wouldBlock is returned by a Read without data: crypto/tls does not take it for the end of the connection.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return "no data yet" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

// Read returns at most the rest of the current record: crypto/tls keeps what it reads ahead, in buffers that it does not free.
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

// Write never fails. The owner of the Conn limits its writes, and Conn.Read limits those of crypto/tls itself.
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

// release frees the buffer.
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

// record is the reader's position in a record.
type record struct {
	header [headerSize]byte
	n      int // bytes of the record read so far
}

// left is the number of bytes left in the record, as far as its header is known.
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
