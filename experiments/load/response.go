package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// headLimit bounds the head of a response (bytes).
const headLimit = 8 << 10

// response follows one response through the pieces in which it comes.
type response struct {
	head     []byte // until it is complete; reused
	status   int
	length   int64 // Content-Length
	seen     int64 // bytes of the body so far
	inBody   bool
	closes   bool // the server said Connection: close
	location string
}

func (r *response) reset() { *r = response{head: r.head[:0]} }

func (r *response) started() bool { return r.inBody || len(r.head) > 0 }

var errMoreThanAsked = errors.New("bytes after the end of the response")

// take consumes b, the next bytes of the connection, compares those of the body with want (unless that is nil), and
// reports whether the response is complete.
func (r *response) take(b, want []byte) (done bool, err error) {
	if !r.inBody {
		before := len(r.head)
		r.head = append(r.head, b[:min(len(b), headLimit-before)]...)
		end := bytes.Index(r.head[max(before-3, 0):], []byte("\r\n\r\n"))
		if end < 0 {
			if len(r.head) >= headLimit {
				return false, errors.New("the response's head is too long")
			}
			return false, nil
		}
		end += max(before-3, 0) + 4
		if err := r.parse(r.head[:end]); err != nil {
			return false, err
		}
		r.inBody = true
		b = b[end-before:]
	}
	if r.status == 200 && want != nil {
		if r.seen+int64(len(b)) > int64(len(want)) {
			return false, errMoreThanAsked
		}
		if !bytes.Equal(b, want[r.seen:r.seen+int64(len(b))]) {
			return false, fmt.Errorf("the body differs within bytes %d to %d", r.seen, r.seen+int64(len(b)))
		}
	}
	r.seen += int64(len(b))
	if r.seen > r.length {
		return false, errMoreThanAsked
	}
	return r.seen == r.length, nil
}

func (r *response) parse(head []byte) error {
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.")) {
		return fmt.Errorf("no HTTP response: %.20q", head)
	}
	r.status = int(head[9]-'0')*100 + int(head[10]-'0')*10 + int(head[11]-'0')
	r.length = -1
	for rest := head; ; {
		at := bytes.IndexByte(rest, '\n')
		if at < 0 {
			break
		}
		line := bytes.TrimSuffix(rest[:at], []byte("\r"))
		rest = rest[at+1:]
		if v, is := field(line, "content-length"); is {
			n, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil || n < 0 || r.length >= 0 && r.length != n {
				return fmt.Errorf("content-length %q", v)
			}
			r.length = n
		} else if v, is := field(line, "connection"); is {
			r.closes = bytes.EqualFold(v, []byte("close"))
		} else if v, is := field(line, "location"); is {
			r.location = string(v)
		}
	}
	if r.length < 0 {
		return fmt.Errorf("status %d without content-length", r.status)
	}
	return nil
}

// field returns the value of a header line when it has that name, given in lower case.
func field(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || line[0]|0x20 != name[0] ||
		!bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name)+1:]), true
}
