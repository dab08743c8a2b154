package fallback

import "errors"

// Limits between chunks of data.
const (
	maxChunkLine    = 1024    // bytes of a size with its extensions
	maxTrailers     = 16384   // bytes of the trailer section
	maxSizeDigits   = 15      // a chunk is below 2⁶⁰ bytes
	chunkLineBudget = 1 << 20 // bytes of extensions in one body
)

// errMalformedBody: two parsers could read the chunked body differently.
var errMalformedBody = errors.New("malformed chunked body")

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkSpace
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	trailerStart
	trailerLine
	trailerLF
	trailerLastLF
)

// chunks tracks a chunked body (RFC 9112 section 7.1) byte by byte without changing it, to find its end. Lines must end in CRLF,
// which is stricter than for heads: bare LF is a known smuggling vector.
type chunks struct {
	state  chunkState
	size   int64 // bytes left of this chunk
	digits int
	line   int // bytes of this size line, or of the trailer section
	spent  int // bytes of size lines beyond the digits, in the whole body
}

// ChunkedEnd looks for the end of a chunked body at the start of b. It returns the number of bytes after it, and whether the body
// is malformed.
func ChunkedEnd(b []byte) (behind int, malformed bool) {
	var c chunks
	used, done, err := c.advance(b)
	if done {
		behind = len(b) - used
	}
	return behind, err != nil
}

// advance reads b up to the end of the body. done: the body ends after used bytes.
func (c *chunks) advance(b []byte) (used int, done bool, err error) {
	for used < len(b) {
		if c.state == chunkData {
			n := min(c.size, int64(len(b)-used))
			c.size -= n
			used += int(n)
			if c.size == 0 {
				c.state = chunkDataCR
			}
			continue
		}
		if !c.step(b[used]) {
			return used, false, errMalformedBody
		}
		used++
		if c.state == trailerLastLF && b[used-1] == '\n' {
			return used, true, nil
		}
	}
	return used, false, nil
}

// step handles one byte outside of chunk data.
func (c *chunks) step(b byte) bool {
	switch c.state {
	case chunkSize:
		return c.sizeOctet(b)
	case chunkSpace, chunkExtension:
		return c.extensionOctet(b)
	case chunkSizeLF:
		return b == '\n' && c.sizeDone()
	case chunkDataCR:
		c.state = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		*c = chunks{spent: c.spent}
		return b == '\n'
	default:
		return c.trailerOctet(b)
	}
}

func (c *chunks) sizeOctet(b byte) bool {
	digit := hexValue(b)
	if digit < 0 {
		if c.digits == 0 {
			return false
		}
		return c.extensionOctet(b)
	}
	c.size = c.size<<4 | int64(digit)
	c.digits++
	return c.digits <= maxSizeDigits
}

func (c *chunks) extensionOctet(b byte) bool {
	c.line++
	c.spent++
	if c.line > maxChunkLine || c.spent > chunkLineBudget {
		return false
	}
	switch {
	case b == '\r':
		c.state = chunkSizeLF
		c.spent-- // the CR that every size line has
	case b == ';' && c.state != chunkSpace: // nor does net/http accept space before an extension
		c.state = chunkExtension
	case b == ' ' || b == '\t':
		if c.state == chunkSize {
			c.state = chunkSpace
		}
	case c.state != chunkExtension || b < ' ' || b == 0x7f:
		return false
	}
	return true
}

func (c *chunks) sizeDone() bool {
	c.state, c.line = chunkData, 0
	if c.size == 0 {
		c.state = trailerStart
	}
	return true
}

func (c *chunks) trailerOctet(b byte) bool {
	if c.line++; c.line > maxTrailers {
		return false
	}
	switch c.state {
	case trailerStart:
		c.state = trailerLine
		if b == '\r' {
			c.state = trailerLastLF
		}
		return b != '\n' && b != 0 && b != ' ' && b != '\t'
	case trailerLine:
		if b == '\r' {
			c.state = trailerLF
		}
		return b != '\n' && b != 0
	case trailerLF:
		c.state = trailerStart
		return b == '\n'
	default: // trailerLastLF
		return b == '\n'
	}
}

func hexValue(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
