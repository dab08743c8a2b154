package journal

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"baton/openflow"
)

// Record is a message and when it took effect.
type Record struct {
	Time    time.Time
	Message []byte
}

// headSize is that of a record before its message, in bytes.
const headSize = 4 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends the bytes of a record to b. It refuses a message that does not have the length that it states.
func appendRecord(b []byte, r Record) ([]byte, error) {
	h, err := openflow.ParseHeader(r.Message)
	if err != nil {
		return b, err
	}
	if int(h.Length) != len(r.Message) {
		return b, fmt.Errorf("a message of %d bytes in %d", h.Length, len(r.Message))
	}
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time.UnixNano()))
	b = append(b, r.Message...)
	binary.BigEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b, nil
}

// scanner reads records until one is not whole.
type scanner struct {
	in     *bufio.Reader
	record Record // the last that was read; its message is of room
	room   []byte
	whole  int64 // bytes of all records that were read
	err    error // of reading; the end is none
}

func newScanner(f io.ReaderAt, from, to int64) *scanner {
	return &scanner{in: bufio.NewReaderSize(io.NewSectionReader(f, from, to-from), 1<<18)}
}

func (s *scanner) next() bool {
	head, err := s.in.Peek(headSize + openflow.HeaderSize)
	if err != nil {
		return s.end(err)
	}
	h, err := openflow.ParseHeader(head[headSize:])
	if err != nil {
		return false
	}
	n := headSize + int(h.Length)
	if cap(s.room) < n {
		s.room = make([]byte, headSize+openflow.MaxLength)
	}
	b := s.room[:n]
	if _, err := io.ReadFull(s.in, b); err != nil {
		return s.end(err)
	}
	if binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return false
	}
	s.whole += int64(n)
	s.record = Record{time.Unix(0, int64(binary.BigEndian.Uint64(b[4:]))), b[headSize:]}
	return true
}

func (s *scanner) end(err error) bool {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		s.err = err
	}
	return false
}
