// Package head parses the head of an HTTP/1.x message from bytes that may be incomplete, as far as the router needs it to choose
// a surrogate. It is strict wherever two parsers could disagree (RFC 9112 sections 2.2, 3, 5, 6 and 11.2), because the bytes go
// to the surrogate unchanged: ambiguity is refused, never repaired. Values are slices of the input; only a Host with capitals is
// copied.
package head

import (
	"bytes"
	"errors"
	"strconv"
)

// Limits of a head, in bytes and lines.
const (
	MaxLine    = 8 << 10  // request line or status line, without its CRLF
	MaxHead    = 32 << 10 // whole head, from its first byte to its empty line
	MaxHeaders = 100      // header lines
	maxMethod  = 32       // longer ones belong to no known protocol
)

// ErrIncomplete: the bytes are the beginning of a head; more may complete it.
var ErrIncomplete = errors.New("parse head: incomplete")

// Error is the reason for refusing a head. The values are shared: compare Status, do not change them.
type Error struct {
	Status int    // to answer with; 502 for a response's head
	Reason string // for people, a few words
}

func (e *Error) Error() string {
	return "parse head: " + strconv.Itoa(e.Status) + ": " + e.Reason
}

// Version is the HTTP version of a message.
type Version uint8

// The supported versions.
const (
	HTTP10 Version = 10
	HTTP11 Version = 11
)

func (v Version) String() string {
	if v == HTTP10 {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// Fields are the header lines of an accepted head, as received, each with its CRLF.
type Fields []byte

// All yields each header line's name, as received, and its value without surrounding white space.
func (f Fields) All() func(yield func(name, value []byte) bool) {
	return func(yield func(name, value []byte) bool) {
		for name, value := range f.Lines() {
			if !yield(name, trim(value)) {
				return
			}
		}
	}
}

// Lines yields each header line's name and all that follows its colon, as received.
func (f Fields) Lines() func(yield func(name, value []byte) bool) {
	return func(yield func(name, value []byte) bool) {
		for rest := []byte(f); len(rest) > 0; {
			end := bytes.IndexByte(rest, '\n')
			if end < 1 {
				return
			}
			line := rest[:end-1]
			rest = rest[end+1:]
			colon := bytes.IndexByte(line, ':')
			if colon < 0 || !yield(line[:colon], line[colon+1:]) {
				return
			}
		}
	}
}

// Get returns the value of the first line of that name, ignoring case, and whether there is one.
func (f Fields) Get(name string) ([]byte, bool) {
	for n, value := range f.All() {
		if equalFold(n, name) {
			return value, true
		}
	}
	return nil, false
}

// Classes of bytes, RFC 9110 sections 5.5 and 5.6.2, RFC 3986 section 3.2.2.
const (
	isToken  = 1 << iota // tchar
	isValue              // field-vchar, space, tab
	isTarget             // visible, or above ASCII: clients send such bytes although they should not
	isHost               // reg-name without escapes, which parsers may or may not decode, and without the comma of a list
	isHex
)

var class = classes()

func classes() (table [256]uint8) {
	for c := range 256 {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if alphanumeric || c < 0x80 && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0 {
			table[c] |= isToken
		}
		if c >= ' ' && c != 0x7f || c == '\t' {
			table[c] |= isValue
		}
		if c > ' ' && c != 0x7f && c != '#' {
			table[c] |= isTarget
		}
		if alphanumeric || c < 0x80 && bytes.IndexByte([]byte("-._~!$&'()*+;="), byte(c)) >= 0 {
			table[c] |= isHost
		}
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' {
			table[c] |= isHex
		}
	}
	return table
}

// all reports whether each byte of b is of that class.
func all(b []byte, of uint8) bool {
	for _, c := range b {
		if class[c]&of == 0 {
			return false
		}
	}
	return true
}

// line returns the first line of b, which ends in CRLF, and the length with it. Its end must be within the first limit bytes,
// else the error is long. An error is reported as soon as its byte is present, and does not depend on the bytes after it.
func line(b []byte, limit int, long, control *Error) (text []byte, n int, err error) {
	window := b[:min(len(b), limit)]
	end := bytes.IndexByte(window, '\n')
	switch {
	case end >= 0:
		text = window[:end]
	case len(b) >= limit:
		text, err = window, long
	default:
		text, err = window, ErrIncomplete
	}
	if last := len(text) - 1; last >= 0 && text[last] == '\r' {
		text = text[:last]
	} else if end >= 0 {
		return nil, 0, control // bare LF
	}
	if !all(text, isValue) {
		return nil, 0, control
	}
	if err != nil {
		return nil, 0, err
	}
	return text, end + 1, nil
}

// field splits a header line. The error carries the given status.
func field(text []byte, faults *fieldFaults) (name, value []byte, err error) {
	if text[0] == ' ' || text[0] == '\t' {
		return nil, nil, faults.fold
	}
	colon := bytes.IndexByte(text, ':')
	if colon < 1 {
		return nil, nil, faults.colon
	}
	name = text[:colon]
	if !all(name, isToken) {
		return nil, nil, faults.name
	}
	return name, trim(text[colon+1:]), nil
}

// fieldFaults are the errors of header lines, with the status for the kind of message.
type fieldFaults struct {
	fold, colon, name, control, long, many *Error
	twice, length, both, coding            *Error
}

func faultsOf(status int, tooLarge int) *fieldFaults {
	return &fieldFaults{
		fold:    &Error{status, "header line is folded"},
		colon:   &Error{status, "header line without a name and a colon"},
		name:    &Error{status, "header name is not a token"},
		control: &Error{status, "control byte, bare CR or bare LF in a header"},
		long:    &Error{tooLarge, "head is too long"},
		many:    &Error{tooLarge, "too many header lines"},
		twice:   &Error{status, "more than one Content-Length"},
		length:  &Error{status, "Content-Length is not a number"},
		both:    &Error{status, "both Content-Length and Transfer-Encoding"},
		coding:  &Error{status, "more than one Transfer-Encoding"},
	}
}

// framing collects what the header lines say about the body's length and the connection.
type framing struct {
	length    int64 // valid when hasLength
	hasLength bool
	hasCoding bool
	coding    []byte // Transfer-Encoding, valid when hasCoding
	close     bool   // Connection: close
	keepAlive bool   // Connection: keep-alive
}

// take handles one header line; it reports whether the line was about framing.
func (f *framing) take(name, value []byte, faults *fieldFaults) (bool, error) {
	switch len(name) {
	case len("Connection"):
		if equalFold(name, "Connection") {
			for token := range elements(value) {
				f.close = f.close || equalFold(token, "close")
				f.keepAlive = f.keepAlive || equalFold(token, "keep-alive")
			}
			return true, nil
		}
	case len("Content-Length"):
		if equalFold(name, "Content-Length") {
			if f.hasLength {
				return true, faults.twice
			}
			if f.hasCoding {
				return true, faults.both
			}
			length, ok := decimal(value)
			if !ok {
				return true, faults.length
			}
			f.length, f.hasLength = length, true
			return true, nil
		}
	case len("Transfer-Encoding"):
		if equalFold(name, "Transfer-Encoding") {
			if f.hasCoding {
				return true, faults.coding
			}
			if f.hasLength {
				return true, faults.both
			}
			f.coding, f.hasCoding = value, true
			return true, nil
		}
	}
	return false, nil
}

// elements yields the non-empty members of a comma-separated list, RFC 9110 section 5.6.1.
func elements(list []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(list) > 0 {
			element := list
			if comma := bytes.IndexByte(list, ','); comma >= 0 {
				element, list = list[:comma], list[comma+1:]
			} else {
				list = nil
			}
			if element = trim(element); len(element) > 0 && !yield(element) {
				return
			}
		}
	}
}

// decimal parses 1*DIGIT of up to 63 bits; no sign, space or list.
func decimal(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var v int64
	for _, c := range b {
		digit := int64(c) - '0'
		if digit < 0 || digit > 9 || v > (1<<63-1-digit)/10 {
			return 0, false
		}
		v = v*10 + digit
	}
	return v, true
}

// trim removes optional white space at both ends, RFC 9110 section 5.6.3.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// equalFold compares ignoring the case of ASCII letters only: bytes.EqualFold equates the Kelvin sign with k.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range b {
		if lower(b[i]) != lower(s[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
