package fallback

import (
	"bytes"
	"net"
	"sync"

	"baton/router/head"
)

// maxResponseHead bounds a response's head, in octets.
const maxResponseHead = 256 << 10

// closing is what net/http takes for the last response on its connection.
const closing = "Connection: close\r\n"

// headConn is a connection to a surrogate as net/http sees it. Read releases the head of an expected response once it is whole. Some
// responses are passed on, but no other request is sent behind them: what package head refuses and net/http does not (both a length
// and a coding), as what follows may be read in two ways; and an offer to authenticate the connection that all clients share.
type headConn struct {
	net.Conn
	shared bool

	mu     sync.Mutex
	due    bool // a final head
	method string

	// Owned by Read, whose calls net/http serialises.
	in      []byte // of a head
	scanned int    // octets of in that are whole lines, none of them the last
	out     []byte // to be released
	err     error  // behind out
}

// expect is told of a request before it is sent.
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

// take keeps b, and the error behind it, if they belong to a head.
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
			c.due = err == nil && len(c.in) < maxResponseHead // if not, net/http says what is wrong with it
			break
		}
		c.release(n)
	}
	if !c.due {
		c.out, c.in, c.scanned = append(c.out, c.in...), nil, 0
	}
	return true
}

// release moves n octets, which are a head.
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

// offersBound tells whether a response asks for credentials that may hold for the connection.
func offersBound(fields head.Fields) bool {
	for name, value := range fields.All() {
		if !bytes.EqualFold(name, []byte("WWW-Authenticate")) && !bytes.EqualFold(name, []byte("Proxy-Authenticate")) {
			continue
		}
		for offer := range bytes.SplitSeq(value, []byte(",")) {
			scheme, _, _ := bytes.Cut(bytes.TrimLeft(offer, " \t"), []byte(" "))
			if len(scheme) > 0 && !bytes.ContainsAny(scheme, "=\"") && head.Binds(scheme) { // with these, a parameter of the one before
				return true
			}
		}
	}
	return false
}

// headEnd returns the length of the head that in begins with as net/http finds it, up to an empty line, or 0. What it has passed over
// it does not look at again: a head may come octet by octet.
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
