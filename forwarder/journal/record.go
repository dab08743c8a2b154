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

// Record is a message and the time at which it took effect.
type Record struct {
	Time    time.Time
	Message []byte
}

// headSize is the size of a record before its message, in bytes.
const headSize = 4 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends the encoding of a record to b. It refuses a message whose length differs from its header's.
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

// least is the size of the shortest record.
const least = headSize + openflow.HeaderSize

// scanner reads records, skipping damage if intact records follow.
type scanner struct {
	f      io.ReaderAt
	in     *bufio.Reader
	at, to int64  // offset of the next record, and of the end
	record Record // the last one read; its message is in a reused buffer
	room   []byte
	damage Damage
	err    error // of reading, except the end
}

func newScanner(f io.ReaderAt, from, to int64) *scanner {
	s := &scanner{f: f, to: to}
	s.seek(from)
	return s
}

func (s *scanner) seek(at int64) {
	s.at = at
	section := io.NewSectionReader(s.f, at, s.to-at)
	if s.in == nil {
		s.in = bufio.NewReaderSize(section, 1<<18)
	}
	s.in.Reset(section)
}

func (s *scanner) next() bool {
	before := s.record.Time
	if s.read() {
		return true
	}
	if s.err != nil {
		return false
	}
	behind, err := find(s.f, s.at+1, s.to)
	if err != nil || behind < 0 {
		s.err = err
		return false
	}
	at := s.at
	s.seek(behind)
	if !s.read() {
		return false
	}
	s.damage.add(at, behind-at, before, s.record.Time)
	return true
}

// read reads the record at at, if it is intact.
func (s *scanner) read() bool {
	head, err := s.in.Peek(least)
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
	if !whole(b) {
		return false
	}
	s.at += int64(n)
	s.record = Record{time.Unix(0, int64(binary.BigEndian.Uint64(b[4:]))), b[headSize:]}
	return true
}

func (s *scanner) end(err error) bool {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		s.err = err
	}
	return false
}

// whole reports whether a record is intact.
func whole(b []byte) bool { return binary.BigEndian.Uint32(b) == crc32.Checksum(b[4:], castagnoli) }

// searched is how many bytes find reads at once.
const searched = 1 << 17

// find returns the offset of the first intact record from from on; negative if there is none.
func find(f io.ReaderAt, from, to int64) (int64, error) {
	b := make([]byte, searched+headSize+openflow.MaxLength)
	for ; from+least <= to; from += searched {
		n, err := f.ReadAt(b[:min(int64(len(b)), to-from)], from)
		if err != nil && err != io.EOF {
			return -1, err
		}
		for i := 0; i < searched && i+least <= n; i++ {
			if b[i+headSize] != openflow.Version {
				continue
			}
			h, err := openflow.ParseHeader(b[i+headSize : n])
			if end := i + headSize + int(h.Length); err == nil && end <= n && whole(b[i:end]) {
				return from + int64(i), nil
			}
		}
	}
	return -1, nil
}

// isCut reports whether the bytes at the end of a file are an incomplete record, as an interrupted write leaves it. Damage may look the same.
func isCut(f io.ReaderAt, from, to int64) (bool, error) {
	if to-from < least {
		return true, nil
	}
	head := make([]byte, openflow.HeaderSize)
	if _, err := f.ReadAt(head, from+headSize); err != nil {
		return false, err
	}
	h, err := openflow.ParseHeader(head)
	return err == nil && headSize+int64(h.Length) > to-from, nil
}
