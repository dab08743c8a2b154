package head

import "bytes"

// Framing determines the end of a response's body, RFC 9112 section 6.3.
type Framing uint8

// The framings of a body.
const (
	NoBody     Framing = iota // by status or method
	Length                    // ContentLength bytes
	Chunked                   // up to the last chunk and the trailer
	UntilClose                // up to the end of the connection, or unlimited after a 101
)

// Response is the head of a response.
type Response struct {
	Status        int
	Version       Version
	Fields        Fields // slices of the parsed bytes
	Framing       Framing
	ContentLength int64 // length of the body if Framing is Length, else 0
	KeepAlive     bool  // the connection can carry another response after this one
	Interim       bool  // 1xx except 101: another head follows for the same request
}

var (
	responseFaults = faultsOf(502, 502)

	errStatusLine     = &Error{502, "status line is not version, status and reason"}
	errStatusByte     = &Error{502, "control byte, bare CR or bare LF in the status line"}
	errLongStatusLine = &Error{502, "status line is too long"}
)

// ParseResponse parses the head at the start of b of a response to a request of that method, and returns its length. The error is
// ErrIncomplete or an *Error with status 502, which does not depend on further bytes.
func ParseResponse(b []byte, method string) (Response, int, error) {
	text, n, err := line(b, MaxLine+2, errLongStatusLine, errStatusByte)
	if err != nil {
		return Response{}, 0, err
	}
	var r Response
	// "HTTP/1.1 200 OK"; some servers omit the reason and the space before it.
	if len(text) < 12 || text[8] != ' ' || len(text) > 12 && text[12] != ' ' {
		return Response{}, 0, errStatusLine
	}
	if r.Version, err = version(text[:8]); err != nil {
		return Response{}, 0, errStatusLine
	}
	status, ok := decimal(text[9:12])
	if !ok || status < 100 || status > 599 {
		return Response{}, 0, errStatusLine
	}
	r.Status = int(status)

	var f framing
	begin := n
	for lines := 0; ; lines++ {
		text, length, err := line(b[n:], MaxHead-n, responseFaults.long, responseFaults.control)
		if err != nil {
			return Response{}, 0, err
		}
		if len(text) == 0 {
			r.Fields = Fields(b[begin:n])
			n += length
			break
		}
		n += length
		if lines == MaxHeaders {
			return Response{}, 0, responseFaults.many
		}
		name, value, err := field(text, responseFaults)
		if err != nil {
			return Response{}, 0, err
		}
		if _, err := f.take(name, value, responseFaults); err != nil {
			return Response{}, 0, err
		}
	}
	r.frame(&f, method)
	return r, n, nil
}

// frame applies the rules of RFC 9112 section 6.3 in order.
func (r *Response) frame(f *framing, method string) {
	r.KeepAlive = !f.close && (r.Version == HTTP11 || f.keepAlive)
	switch {
	case r.Status == 101:
		r.Framing, r.KeepAlive = UntilClose, false
	case r.Status < 200:
		r.Interim = true
	case method == "HEAD", r.Status == 204, r.Status == 304:
	case f.hasCoding:
		r.Framing = UntilClose
		if last := lastElement(f.coding); equalFold(last, "chunked") && r.Version == HTTP11 {
			r.Framing = Chunked
		}
	case f.hasLength:
		r.Framing, r.ContentLength = Length, f.length
	default:
		r.Framing = UntilClose
	}
	if r.Framing == UntilClose {
		r.KeepAlive = false
	}
}

func lastElement(list []byte) []byte {
	return trim(list[bytes.LastIndexByte(list, ',')+1:])
}
