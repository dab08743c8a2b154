package reactive

import (
	"bytes"
	"errors"
	"net"
	"time"

	"baton/router/head"
)

// mostBody is the longest body of a request that is handed over with its head, in bytes. The controller holds all of it.
const mostBody = 64 << 10

// request is what was read of a client.
type request struct {
	head.Request
	bytes []byte // all that was read
	whole bool   // bytes is one request, no less and no more
	why   string // otherwise: why not
}

// read reads a client's request. The error is that of the socket; what was read is in bytes anyway.
func read(c net.Conn, deadline time.Time) (r request, err error) {
	_ = c.SetReadDeadline(deadline)
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	b := make([]byte, 0, 4096)
	for {
		if len(b) == cap(b) {
			b = append(b, make([]byte, len(b))...)[:len(b)]
		}
		n, err := c.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if r = judge(b); r.whole || r.why != "" || err != nil {
			return r, err
		}
	}
}

// judge says what bytes are: a request, too little (neither whole nor why), or what cannot be handed over.
func judge(b []byte) request {
	r := request{bytes: b}
	parsed, n, err := head.Parse(b)
	switch {
	case errors.Is(err, head.ErrIncomplete) && len(b) < head.MaxHead:
		return r
	case err != nil:
		r.why = "malformed"
		return r
	}
	r.Request = parsed
	switch end := int64(n) + parsed.ContentLength; {
	case parsed.ContentLength < 0, parsed.ContentLength > mostBody:
		r.why = "body"
	case parsed.Upgrade:
		r.why = "upgrade"
	case parsed.ExpectContinue:
		r.why = "expect"
	case int64(len(b)) > end:
		r.why = "pipelined"
	default:
		r.whole = int64(len(b)) == end
	}
	return r
}

// withHost is the request with another Host. Only the field's value changes: whoever reads the request must read the same one.
func (r *request) withHost(host string) []byte {
	if host == "" || r.Form != head.Origin {
		return r.bytes
	}
	old, ok := r.Fields.Get("Host")
	if !ok {
		return r.bytes
	}
	fields := bytes.Index(r.bytes, r.Fields)
	at := -1
	for line := fields; line >= 0 && line < fields+len(r.Fields); {
		end := line + bytes.IndexByte(r.bytes[line:], '\n') + 1
		if end <= line {
			break
		}
		name, value, _ := bytes.Cut(r.bytes[line:end], []byte(":"))
		if bytes.EqualFold(name, []byte("host")) {
			at = line + len(name) + 1 + bytes.Index(value, old)
			break
		}
		line = end
	}
	if at < 0 {
		return r.bytes
	}
	out := append([]byte(nil), r.bytes[:at]...)
	out = append(out, host...)
	return append(out, r.bytes[at+len(old):]...)
}
