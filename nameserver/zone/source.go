package zone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// maxFile bounds a file, in bytes: a mistaken path must not fill the memory.
const maxFile = 1 << 30

// source reads a file and knows in which line the record began that the parser has read last. Of multi-line records and of comments only the first
// line with a record's text counts. The parser reads byte by byte and not ahead.
type source struct {
	fs.File
	in                 *bufio.Reader
	name               string
	read               int
	line               int // of the next byte
	record             int // where the current record has begun; 0: not yet
	directive, comment bool
}

func newSource(f fs.File, name string) *source {
	return &source{File: f, in: bufio.NewReader(f), name: name, line: 1}
}

// ReadByte is for the parser.
func (s *source) ReadByte() (byte, error) {
	c, err := s.in.ReadByte()
	if err != nil {
		return 0, err
	}
	if s.read++; s.read > maxFile {
		return 0, fmt.Errorf("longer than %d bytes", maxFile)
	}
	switch {
	case c == '\n':
		if s.directive {
			s.record = 0
		}
		s.comment, s.directive = false, false
		s.line++
	case s.comment || c == ' ' || c == '\t' || c == '\r':
	case c == ';':
		s.comment = true
	case s.record == 0:
		s.record, s.directive = s.line, c == '$'
	}
	return c, nil
}

func (s *source) Read(p []byte) (int, error) {
	for i := range p {
		c, err := s.ReadByte()
		if err != nil {
			return i, err
		}
		p[i] = c
	}
	return len(p), nil
}

// sources are a zone's files, within a folder. It is the file system of the parser's $INCLUDE.
type sources struct {
	folder fs.FS
	open   []*source
	names  []string
}

// Open opens a file of the folder.
func (s *sources) Open(name string) (fs.File, error) {
	f, err := s.folder.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("not an ordinary file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	in := newSource(f, name)
	s.open, s.names = append(s.open, in), append(s.names, name)
	return &included{in, s}, nil
}

// included is a file that leaves the list of open ones with its end.
type included struct {
	*source
	of *sources
}

func (i *included) Close() error {
	if n := len(i.of.open); n > 0 && i.of.open[n-1] == i.source {
		i.of.open = i.of.open[:n-1]
	}
	return i.source.Close()
}

var _ io.ByteReader = (*included)(nil)

// next forgets where the record that was read last began.
func (s *sources) next() {
	for _, in := range s.open {
		in.record = 0
	}
}

// place is where the record that was read last began.
func (s *sources) place() (file string, line int) {
	if len(s.open) == 0 {
		return s.names[0], 1
	}
	in := s.open[len(s.open)-1]
	if in.record > 0 {
		return in.name, in.record
	}
	return in.name, in.line
}
