package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
)

// Conn is one end of a connection: plaintext on one side, ciphertext on the other. First comes the handshake: Begin, then Feed and
// Pending until Established says that it is over. A Conn belongs to one goroutine, and must be closed.
type Conn struct {
	tls    *tls.Conn
	memory memory
	more   bool   // the last Read was too small for what was there
	failed error  // what the handshake ended with
	err    error  // nothing more is read
	sent   uint64 // bytes
	small  int    // bytes that were written in small records
}

func newConn(b *Buffers) *Conn {
	return &Conn{memory: memory{buffers: b, handshake: newHandshake()}}
}

// ErrNotReading says that the peer asks for more than it takes: nothing of a flow is as long.
var ErrNotReading = errors.New("TLS: the peer does not take what it asks for")

// mostPending bounds, in bytes, what is to be sent when something was read: what a Write gives, and as much of crypto/tls's own.
const mostPending = 2 * BufferSize

// Handshaking tells whether the handshake is not over, as far as the owner knows: see Established.
func (c *Conn) Handshaking() bool { return c.memory.handshake != nil }

// Begun tells whether Begin was called.
func (c *Conn) Begun() bool { return c.memory.handshake == nil || c.memory.handshake.begun }

// Established tells whether the handshake is over. If it has failed, an alert may be left to be sent.
func (c *Conn) Established() (bool, error) {
	h := c.memory.handshake
	if h == nil {
		return true, c.failed
	}
	over, rest, err := h.result()
	if !over {
		return false, nil
	}
	c.Pending()
	c.memory.handshake = nil
	if c.memory.in = append(c.memory.in, rest...); len(c.memory.in) == 0 {
		c.memory.in = nil // what it was part of is not held
	}
	c.more = len(c.memory.in) > 0
	if err != nil {
		c.failed = fmt.Errorf("TLS: %w", err)
		c.err = c.failed
	}
	return true, c.failed
}

// FeedLimit is how many bytes of ciphertext may be fed. After the handshake what they hold fits into that many bytes of plaintext, if those
// are not fewer than a small read's.
func (c *Conn) FeedLimit(plain int) int {
	const small = 512 // what is read for a few bytes of plaintext is kept
	if h := c.memory.handshake; h != nil {
		return h.feedLimit()
	}
	return max(small, plain-c.memory.record.n)
}

// Feed takes ciphertext that has come. During the handshake it is copied; after it, it must not change until the next Read.
func (c *Conn) Feed(b []byte) {
	switch {
	case c.memory.handshake != nil:
		c.memory.handshake.feed(b)
	case len(c.memory.in) > 0:
		c.memory.in = append(c.memory.in, b...)
	default:
		c.memory.in = b
	}
}

// Read gives plaintext as far as it is there: 0 bytes without an error mean that more must be fed. The error is io.EOF when the peer has
// said that this was all, and anything else when what it said may be cut.
func (c *Conn) Read(b []byte) (n int, err error) {
	dry := false
	for n < len(b) && c.err == nil && !dry {
		k, err := c.tls.Read(b[n:])
		n += k
		switch {
		case err == wouldBlock{}:
			dry = true
		case err == io.EOF: // of close_notify: memory has no end
			c.err = io.EOF
		case err != nil:
			c.err = fmt.Errorf("TLS: %w", err)
		}
	}
	if c.err == nil && len(c.memory.out) > mostPending {
		c.err = ErrNotReading
	}
	c.more = !dry || c.err != nil
	if dry || c.err != nil {
		c.memory.in = nil
	} else {
		c.memory.in = bytes.Clone(c.memory.in) // its owner's again
	}
	if n > 0 {
		return n, nil
	}
	return 0, c.err
}

// More tells whether Read may give something before more is fed: plaintext, or an error.
func (c *Conn) More() bool { return c.more }

// Records. A peer can use the first bytes of one when it has the last: the first records are as small as a segment (a packet of 1280 bytes
// without the headers of IPv6 and TCP, the latter's timestamps, and the record's own 22 bytes). The size grows in one step: in several,
// crypto/tls's buffer at the peer would grow to twice the largest.
const (
	firstRecord = 1280 - 40 - 32 - 22
	firstBytes  = 8 * firstRecord // that are in such records
	largest     = 16 << 10        // RFC 8446, section 5.1
)

// Write takes all of the plaintext, at most [Most] bytes: Pending is longer then. More should be written only when nothing is pending.
func (c *Conn) Write(b []byte) error {
	for len(b) > 0 {
		n := largest
		if c.small < firstBytes {
			n = firstRecord
		}
		n = min(n, len(b))
		if _, err := c.tls.Write(b[:n]); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		c.small = min(firstBytes, c.small+n)
		b = b[n:]
	}
	return nil
}

// CloseWrite says that this was all: without it, the peer takes what it was sent for cut (RFC 8446, section 6.1). The other direction
// goes on.
func (c *Conn) CloseWrite() error {
	if err := c.tls.CloseWrite(); err != nil {
		return fmt.Errorf("TLS: close_notify: %w", err)
	}
	return nil
}

// Pending is the ciphertext that is to be sent. It is valid until the next call.
func (c *Conn) Pending() []byte {
	if h := c.memory.handshake; h != nil {
		c.memory.out = append(c.memory.out, h.output()...)
	}
	return c.memory.out
}

// Sent is called when the first n bytes of Pending were sent.
func (c *Conn) Sent(n int) {
	c.sent += uint64(n)
	if c.memory.out = c.memory.out[n:]; len(c.memory.out) == 0 {
		c.memory.release()
	}
}

// TotalOutput is how many bytes of ciphertext there were to be sent so far, in all.
func (c *Conn) TotalOutput() uint64 { return c.sent + uint64(len(c.Pending())) }

// Names tells, by an error, that a name is not among those of the peer's certificate. The handshake must be over.
func (c *Conn) Names(name string) error {
	peer := c.tls.ConnectionState().PeerCertificates
	if len(peer) == 0 {
		return errors.New("TLS: the peer has no certificate")
	}
	if err := peer[0].VerifyHostname(name); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	return nil
}

// Close gives everything back, and ends the handshake. What is pending is not sent.
func (c *Conn) Close() {
	if h := c.memory.handshake; h != nil {
		h.stop()
		return
	}
	c.memory.release()
}
