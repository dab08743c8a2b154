package openflow

import (
	"bytes"
	"encoding/binary"
)

var wire = binary.BigEndian

var zeros [64]byte

// pad appends n zero bytes, 64 at most.
func pad(b []byte, n int) []byte { return append(b, zeros[:n]...) }

// padTo8 appends zero bytes until what began at start is a multiple of 8 bytes long.
func padTo8(b []byte, start int) []byte { return pad(b, -(len(b)-start)&7) }

// roundUp8 is n rounded up to a multiple of 8.
func roundUp8(n int) int { return (n + 7) &^ 7 }

// setLength writes into the two bytes at the length of b from start on. What does not fit into 16 bits does not fit into a
// message either, which [Append] refuses.
func setLength(b []byte, start, at int) { wire.PutUint16(b[at:], uint16(len(b)-start)) }

// appendText writes a string into a field of n bytes. A longer one is cut so that a zero byte ends it (7.2.1).
func appendText(b []byte, s string, n int) []byte {
	if len(s) > n {
		s = s[:n-1]
	}
	start := len(b)
	b = append(b, s...)
	for len(b)-start < n {
		b = pad(b, min(n-(len(b)-start), len(zeros)))
	}
	return b
}

// text reads a string of a fixed field: without the zero bytes at its end.
func text(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }
