package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
)

// Conn is one end of a connection, with plaintext on one side and ciphertext on the other. It starts with the handshake: call Begin, then
// Feed and Pending until Established reports its end. A Conn is for one goroutine, and must be closed.
type Conn struct {
	tls    *tls.Conn
	memory memory
	more   bool   // the last Read was too small for the available bytes
	failed error  // result of the handshake
	err    error  // result of all further reads
	sent   uint64 // bytes
	small  int    // bytes written in small records
}

func newConn(b *Buffers) *Conn {
	return &Conn{memory: memory{buffers: b, handshake: newHandshake()}}
}

// ErrNotReading means that the peer requests data, such as key updates, and does not read it.
var ErrNotReading = errors.New("TLS: the peer requests data and does not read it")

// mostPending limits the pending bytes after a read: the output of a Write, and as much of crypto/tls itself.
const mostPending = 2 * BufferSize

// Handshaking reports whether the handshake is not over, as far as the owner knows: see Established.
func (c *Conn) Handshaking() bool { return c.memory.handshake != nil }

// Begun reports whether Begin was called.
func (c *Conn) Begun() bool { return c.memory.handshake == nil || c.memory.handshake.begun }

// Established reports whether the handshake is over. If it failed, an alert may still be pending.
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
		c.memory.in = nil // do not hold the underlying array
	}
	c.more = len(c.memory.in) > 0
	if err != nil {
		c.failed = fmt.Errorf("TLS: %w", err)
		c.err = c.failed
	}
	return true, c.failed
}

// FeedLimit is how many bytes of ciphertext may be fed. After the handshake their plaintext fits in the given size, unless that is smaller
// than a small read.
func (c *Conn) FeedLimit(plain int) int {
	const small = 512 // ciphertext fed for a short read is kept
	if h := c.memory.handshake; h != nil {
		return h.feedLimit()
	}
	return max(small, plain-c.memory.record.n)
}

// Feed takes received ciphertext. It copies it during the handshake; afterwards the bytes must not change until the next Read.
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

// Read returns available plaintext; 0 bytes without an error mean that more must be fed. The error is io.EOF after the peer's close_notify.
// Any other error means that the stream may be truncated.
func (c *Conn) Read(b []byte) (n int, err error) {
	dry := false
	for n < len(b) && c.err == nil && !dry {
		k, err := c.tls.Read(b[n:])
		n += k
		switch {
		case err == wouldBlock{}:
			dry = true
		case err == io.EOF: // from close_notify: memory has no end
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
		c.memory.in = bytes.Clone(c.memory.in) // the caller may reuse its bytes
	}
	if n > 0 {
		return n, nil
	}
	return 0, c.err
}

// More reports whether Read may return plaintext or an error before more is fed.
func (c *Conn) More() bool { return c.more }

// Record sizes. A peer can use a record only when it is complete, so the first ones are as small as a segment: a packet of 1280 bytes
// without IPv6 and TCP headers, TCP timestamps, and the record's own 22 bytes. The size grows in one step: in several, crypto/tls's buffer
// at the peer would grow to twice the largest.
const (
	firstRecord = 1280 - 40 - 32 - 22
	firstBytes  = 8 * firstRecord // bytes in such records
	largest     = 16 << 10        // RFC 8446, section 5.1
)

// Write encrypts all of the plaintext, at most [Most] bytes, and appends it to Pending. Call it again only when nothing is pending.
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

// CloseWrite sends close_notify; without it the peer considers the stream truncated (RFC 8446, section 6.1). The other direction stays
// open.
func (c *Conn) CloseWrite() error {
	if err := c.tls.CloseWrite(); err != nil {
		return fmt.Errorf("TLS: close_notify: %w", err)
	}
	return nil
}

// Pending is the ciphertext to send. It is valid until the next call.
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

// TotalOutput is the number of bytes of ciphertext produced so far.
func (c *Conn) TotalOutput() uint64 { return c.sent + uint64(len(c.Pending())) }

// Names returns an error if a name is not in the peer's certificate. The handshake must be over.
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

// Close frees the buffers and aborts a handshake. Pending bytes are not sent.
func (c *Conn) Close() {
	if h := c.memory.handshake; h != nil {
		h.stop()
		return
	}
	c.memory.release()
}
