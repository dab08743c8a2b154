package hello

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"baton/packet/hello/hellotest"
)

// sample is the hello of a real client, in one record.
type sample struct {
	name      string
	stream    []byte
	want      Hello
	protocols []string
}

// corpus is the captured hellos. Their expected values are another reader's.
func corpus(tb testing.TB) []sample {
	tb.Helper()
	captures, err := hellotest.Captures()
	if err != nil {
		tb.Fatal(err)
	}
	if len(captures) < 150 {
		tb.Fatalf("only %d hellos", len(captures))
	}
	var samples []sample
	for _, c := range captures {
		s := sample{name: c.Name, stream: c.Stream, want: Hello{Length: len(c.Stream)}}
		if err := s.expect(c.Facts); err != nil {
			tb.Fatalf("%s: %v", c.Name, err)
		}
		samples = append(samples, s)
	}
	return samples
}

func (s *sample) expect(fields []string) error {
	if fields[0] != "-" {
		s.want.ServerName = fields[0]
	}
	version, err := strconv.ParseUint(fields[1], 16, 16)
	s.want.MaxVersion = uint16(version)
	if fields[2] != "-" {
		s.protocols = strings.Split(fields[2], ",")
	}
	s.want.ECH = slices.Contains(fields[3:], "ech")
	s.want.Resumption = slices.Contains(fields[3:], "resumption")
	return err
}

// check compares a result but for its length.
func (s *sample) check(t *testing.T, how string, h Hello, err error) {
	t.Helper()
	want := s.want
	want.Length, want.Protocols = h.Length, h.Protocols
	if err != nil || !equal(h, want) || !slices.Equal(protocols(h), s.protocols) {
		t.Fatalf("%s, %s: %+v %q, %v, want %+v %q", s.name, how, h, protocols(h), err, s.want, s.protocols)
	}
}

// TestEverySplit reads each hello of the corpus up to each of its bytes, in one record and in many.
func TestEverySplit(t *testing.T) {
	for _, s := range corpus(t) {
		h, err := readAll(t, s.stream)
		s.check(t, "whole", h, err)
		if h.Length != s.want.Length {
			t.Errorf("%s: a length of %d, want %d", s.name, h.Length, s.want.Length)
		}
		message := s.stream[recordHeaderSize:]
		for _, size := range []int{1, 5, 100, len(message) - 1} {
			stream := records(message, size)
			h, err := readAll(t, stream)
			s.check(t, "records of "+strconv.Itoa(size), h, err)
			if h.Length != len(stream) {
				t.Errorf("%s: a length of %d, want %d", s.name, h.Length, len(stream))
			}
		}
	}
}

// TestEveryRecordBoundary cuts each hello into two records at each of its bytes, and reads it without records up to there.
func TestEveryRecordBoundary(t *testing.T) {
	for _, s := range corpus(t) {
		message := s.stream[recordHeaderSize:]
		for cut := 1; cut < len(message); cut++ {
			stream := slices.Concat(record(message[:cut]), record(message[cut:]))
			h, err := Read(stream)
			s.check(t, "cut at "+strconv.Itoa(cut), h, err)
			if _, err := Read(stream[:recordHeaderSize+cut]); err != ErrIncomplete {
				t.Fatalf("%s: the first record of %d bytes: %v", s.name, cut, err)
			}
			if _, err := ReadMessage(message[:cut]); err != ErrIncomplete {
				t.Fatalf("%s: %d bytes without records: %v", s.name, cut, err)
			}
		}
		h, err := ReadMessage(message)
		s.check(t, "without records", h, err)
	}
}
