package fallback

import (
	"bytes"
	"net"
	"sync"

	"baton/router/head"
)

// maxResponseHead is the size limit of a response's head, in bytes.
const maxResponseHead = 256 << 10

// closing makes net/http treat the response as the last on its connection.
const closing = "Connection: close\r\n"

// headConn wraps a connection to a surrogate for net/http. Read releases the head of an expected response once it is complete.
// After some responses the connection is not reused: those that package head refuses and net/http does not (both length and
// coding), as what follows is ambiguous; and offers to authenticate a connection that clients share.
type headConn struct {
	net.Conn
	shared bool

	mu     sync.Mutex
	due    bool // a final head
	method string

	// Owned by Read, whose calls net/http serializes.
	in      []byte // of a head
	scanned int    // bytes of complete lines in in, without the last
	out     []byte // to be released
	err     error  // after out
}

// expect is called before a request is sent.
func (c *headConn) expect(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due, c.method = true, method
}

func (c *headConn) Read(p []byte) (int, error) {
	for {
		if len(c.out) > 0 {
			n := copy(p, c.out)
			c.out = c.out[n:]
			return n, nil
		}
		if c.err != nil {
			return 0, c.err
		}
		n, err := c.Conn.Read(p)
		if !c.take(p[:n], err) {
			return n, err
		}
	}
}

// take keeps b and the error after it if they belong to a head.
func (c *headConn) take(b []byte, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.due {
		return false
	}
	c.in, c.err = append(c.in, b...), err
	for c.due {
		n := c.headEnd()
		if n == 0 {
			c.due = err == nil && len(c.in) < maxResponseHead // if not, net/http reports the error
			break
		}
		c.release(n)
	}
	if !c.due {
		c.out, c.in, c.scanned = append(c.out, c.in...), nil, 0
	}
	return true
}

// release releases a head of n bytes.
func (c *headConn) release(n int) {
	r, _, err := head.ParseResponse(c.in[:n], c.method)
	c.due = err == nil && r.Interim
	if err == nil && !(c.shared && offersBound(r.Fields)) {
		c.out = append(c.out, c.in[:n]...)
	} else {
		end := bytes.LastIndexByte(c.in[:n-1], '\n') + 1 // of the line before the empty one
		c.out = append(append(append(c.out, c.in[:end]...), closing...), c.in[end:n]...)
	}
	c.in, c.scanned = c.in[n:], 0
}

// offersBound reports whether a response requests credentials that may apply to the connection.
func offersBound(fields head.Fields) bool {
	for name, value := range fields.All() {
		if !bytes.EqualFold(name, []byte("WWW-Authenticate")) && !bytes.EqualFold(name, []byte("Proxy-Authenticate")) {
			continue
		}
		for offer := range bytes.SplitSeq(value, []byte(",")) {
			scheme, _, _ := bytes.Cut(bytes.TrimLeft(offer, " \t"), []byte(" "))
			if len(scheme) > 0 && !bytes.ContainsAny(scheme, "=\"") && head.Binds(scheme) { // if so, a parameter of the previous one
				return true
			}
		}
	}
	return false
}

// headEnd returns the length of the head at the start of in as net/http finds it, up to an empty line, or 0. It does not search
// again what it has passed, as a head may arrive byte by byte.
func (c *headConn) headEnd() int {
	for {
		i := bytes.IndexByte(c.in[c.scanned:], '\n')
		if i < 0 {
			return 0
		}
		line, first := c.in[c.scanned:c.scanned+i], c.scanned == 0
		c.scanned += i + 1
		if !first && len(bytes.TrimSuffix(line, []byte("\r"))) == 0 {
			return c.scanned
		}
	}
}
