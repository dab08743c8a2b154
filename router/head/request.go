package head

import (
	"bytes"
	"net/netip"
	"strings"
)

// Form is the form of a request target, RFC 9112 section 3.2. CONNECT's authority-form is refused.
type Form uint8

// The forms of a target.
const (
	Origin   Form = iota // "/path?query"
	Absolute             // "http://host/path?query"
	Asterisk             // "*", only with OPTIONS
)

// Request is the head of a request. Its slices point into the parsed bytes; Host is a copy if it had capitals.
type Request struct {
	Method  []byte
	Target  []byte // as received
	Path    []byte // raw: not decoded or normalized, without query; "/" if an absolute target has none, "*" in Asterisk form
	Query   []byte // raw, without "?"
	Host    []byte // as HostOf has it; from an absolute target, else from Host; empty if there is none
	Fields  Fields
	Form    Form
	Version Version

	ContentLength  int64 // length of the body; -1: chunked; 0 also if not given
	KeepAlive      bool  // the client may send another request on this connection
	Blank          bool  // an empty line came before it
	Upgrade        bool  // there is an Upgrade header: the surrogate may answer 101 and leave HTTP
	ExpectContinue bool  // the client may wait for 100 before it sends its body
	Bound          bool  // its credentials may apply to the whole connection (NTLM, Negotiate)
}

var (
	faults = faultsOf(400, 431)

	errMethod     = &Error{400, "method is not a token"}
	errLongMethod = &Error{501, "method is not known"}
	errConnect    = &Error{501, "CONNECT is not served"}
	errLine       = &Error{400, "request line is not method, target and version"}
	errLineByte   = &Error{400, "control byte, bare CR or bare LF in the request line"}
	errLongLine   = &Error{414, "request line is too long"}
	errVersion    = &Error{400, "version is not HTTP/1.0 or HTTP/1.1"}
	errOldVersion = &Error{505, "version is not HTTP/1.0 or HTTP/1.1"}
	errTarget     = &Error{400, "target is not a path, an http URL or *"}
	errTargetByte = &Error{400, "byte that no target may have"}
	errEscape     = &Error{400, "path has a % that begins no escape"}
	errUserinfo   = &Error{400, "target has user information"}
	errNoHost     = &Error{400, "no Host"}
	errTwoHosts   = &Error{400, "more than one Host"}
	errHost       = &Error{400, "Host is not a host and port"}
	errOldCoding  = &Error{400, "Transfer-Encoding in HTTP/1.0"}
	errCoding     = &Error{501, "transfer coding is not chunked"}
	errLastCoding = &Error{400, "last transfer coding is not chunked"}
	errTrailer    = &Error{400, "Trailer names a field of framing"}
	errExpect     = &Error{417, "expectation is not 100-continue"}
)

// Parse parses the request head at the start of b and returns its length including the empty line; one empty line before it is
// skipped (RFC 9112 section 2.2). The error is ErrIncomplete or an *Error, which does not depend on further bytes. Parse neither
// changes nor keeps b.
func Parse(b []byte) (Request, int, error) {
	var r Request
	n := 0
	if len(b) > 0 && b[0] == '\r' {
		if len(b) == 1 {
			return Request{}, 0, ErrIncomplete
		}
		if b[1] != '\n' {
			return Request{}, 0, errLineByte
		}
		n, r.Blank = 2, true
	}
	text, length, err := line(b[n:], MaxLine+2, errLongLine, errLineByte)
	if err != nil {
		return Request{}, 0, err
	}
	n += length
	if err := r.requestLine(text); err != nil {
		return Request{}, 0, err
	}
	n, err = r.headers(b, n)
	if err != nil {
		return Request{}, 0, err
	}
	return r, n, nil
}

func (r *Request) requestLine(text []byte) error {
	first := bytes.IndexByte(text, ' ')
	if first < 0 {
		return errLine
	}
	r.Method = text[:first]
	if first == 0 || !all(r.Method, isToken) {
		return errMethod
	}
	rest := text[first+1:]
	second := bytes.IndexByte(rest, ' ')
	if second < 1 {
		return errLine
	}
	r.Target = rest[:second]
	var err error
	if r.Version, err = version(rest[second+1:]); err != nil {
		return err
	}
	if len(r.Method) > maxMethod {
		return errLongMethod
	}
	if string(r.Method) == "CONNECT" {
		return errConnect
	}
	return r.target()
}

func version(b []byte) (Version, error) {
	if len(b) != len("HTTP/1.1") || string(b[:5]) != "HTTP/" || b[6] != '.' || b[5]-'0' > 9 || b[7]-'0' > 9 {
		return 0, errVersion
	}
	switch string(b[5:]) {
	case "1.0":
		return HTTP10, nil
	case "1.1":
		return HTTP11, nil
	}
	return 0, errOldVersion
}

var slash, root = []byte("/"), []byte(".")

func (r *Request) target() error {
	if !all(r.Target, isTarget) {
		return errTargetByte
	}
	rest := r.Target
	switch {
	case rest[0] == '/':
	case len(rest) == 1 && rest[0] == '*' && string(r.Method) == "OPTIONS":
		r.Form, r.Path = Asterisk, rest
		return nil
	case len(rest) > len("http://") && equalFold(rest[:len("http://")], "http://"):
		r.Form = Absolute
		rest = rest[len("http://"):]
	case len(rest) > len("https://") && equalFold(rest[:len("https://")], "https://"):
		r.Form = Absolute
		rest = rest[len("https://"):]
	default:
		return errTarget
	}
	if r.Form == Absolute {
		authority := rest
		rest = nil
		if end := bytes.IndexAny(authority, "/?"); end >= 0 {
			authority, rest = authority[:end], authority[end:]
		}
		if bytes.IndexByte(authority, '@') >= 0 {
			return errUserinfo // RFC 9110 section 4.2.4
		}
		host, ok := HostOf(authority)
		if !ok || len(host) == 0 {
			return errHost
		}
		r.Host = host
	}
	r.Path = rest
	if question := bytes.IndexByte(rest, '?'); question >= 0 {
		r.Path, r.Query = rest[:question], rest[question+1:]
	}
	if len(r.Path) == 0 {
		r.Path = slash
	}
	for i, c := range r.Path {
		if c == '%' && (i+2 >= len(r.Path) || !all(r.Path[i+1:i+3], isHex)) {
			return errEscape
		}
	}
	return nil
}

// OriginForm is the path and query of a target that Parse accepts, as sent; "/" if an absolute target has no path. "*" stays.
func OriginForm(target string) string {
	if target[0] == '/' || target == "*" {
		return target
	}
	_, rest, _ := strings.Cut(target, "://")
	switch at := strings.IndexAny(rest, "/?"); {
	case at < 0:
		return "/"
	case rest[at] == '?':
		return "/" + rest[at:]
	default:
		return rest[at:]
	}
}

// seen holds the findings of a request's head so far, beside the Request.
type seen struct {
	framing
	hosts   int
	trailer bool // Trailer names a field of framing
}

func (r *Request) headers(b []byte, n int) (int, error) {
	var f seen
	lines, begin := 0, n
	for {
		text, length, err := line(b[n:], MaxHead-n, faults.long, faults.control)
		if err != nil {
			return 0, err
		}
		if len(text) == 0 {
			r.Fields = Fields(b[begin:n])
			return n + length, r.finishHead(&f)
		}
		n += length
		if lines++; lines > MaxHeaders {
			return 0, faults.many
		}
		name, value, err := field(text, faults)
		if err != nil {
			return 0, err
		}
		taken, err := f.take(name, value, faults)
		if !taken && err == nil {
			err = r.takeField(&f, name, value)
		}
		if err != nil {
			return 0, err
		}
	}
}

// takeField handles a header line that is not about framing.
func (r *Request) takeField(f *seen, name, value []byte) error {
	switch len(name) {
	case len("Host"):
		if equalFold(name, "Host") {
			if f.hosts++; f.hosts > 1 {
				return errTwoHosts
			}
			host, ok := HostOf(value)
			if !ok {
				return errHost
			}
			if r.Form != Absolute { // RFC 9112 section 3.2.2: the target's host replaces the header
				r.Host = host
			}
		}
	case len("Expect"):
		if equalFold(name, "Expect") {
			if !equalFold(value, "100-continue") {
				return errExpect // RFC 9110 section 10.1.1: there is no other
			}
			r.ExpectContinue = r.Version == HTTP11
		}
	case len("Authorization"), len("Proxy-Authorization"):
		if equalFold(name, "Authorization") || equalFold(name, "Proxy-Authorization") {
			r.Bound = r.Bound || Binds(value)
		}
	case len("Upgrade"): // and Trailer
		switch {
		case equalFold(name, "Upgrade"):
			r.Upgrade = true
		case equalFold(name, "Trailer"):
			f.trailer = f.trailer || namesFraming(value)
		}
	}
	return nil
}

// namesFraming reports whether Trailer announces a field not allowed in trailers, RFC 9110 section 6.5.1.
func namesFraming(list []byte) bool {
	for name := range elements(list) {
		if equalFold(name, "Content-Length") || equalFold(name, "Transfer-Encoding") || equalFold(name, "Trailer") {
			return true
		}
	}
	return false
}

// Binds reports whether credentials may apply to the connection: they are of no scheme known to apply to one request (NTLM;
// Negotiate, RFC 4559 section 6).
func Binds(credentials []byte) bool {
	scheme, _, _ := bytes.Cut(credentials, []byte(" "))
	return !equalFold(scheme, "Basic") && !equalFold(scheme, "Digest") && !equalFold(scheme, "Bearer")
}

// finishHead checks what needs the whole head.
func (r *Request) finishHead(f *seen) error {
	if f.hosts == 0 && r.Version == HTTP11 {
		return errNoHost
	}
	r.KeepAlive = !f.close && (r.Version == HTTP11 || f.keepAlive)
	if !f.hasCoding {
		r.ContentLength = f.length
		return nil
	}
	switch {
	case r.Version == HTTP10:
		return errOldCoding // RFC 9112 section 6.1: the framing is faulty
	case equalFold(f.coding, "chunked"):
	case len(f.coding) < len("chunked") || !equalFold(f.coding[len(f.coding)-len("chunked"):], "chunked"):
		return errLastCoding // RFC 9112 section 6.3: the length of the body is undefined
	default:
		return errCoding
	}
	if f.trailer {
		return errTrailer
	}
	r.ContentLength = -1
	return nil
}

// HostOf strips the port and a trailing dot off uri-host [":" port], and lowers its case: the form in which hosts
// are compared everywhere. False: it is none. An empty host is valid, RFC 9112 section 3.2.
func HostOf(b []byte) ([]byte, bool) {
	host, port := b, []byte(nil)
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 {
			return nil, false
		}
		host, port = b[:end+1], b[end+1:]
		if !isIPv6(host[1:end]) {
			return nil, false
		}
	} else {
		if colon := bytes.IndexByte(b, ':'); colon >= 0 {
			host, port = b[:colon], b[colon:]
		}
		if !all(host, isHost) || len(host) == 0 && len(port) > 0 {
			return nil, false
		}
		host = bytes.TrimSuffix(host, root)
	}
	if len(port) > 0 {
		number, ok := decimal(port[1:])
		if port[0] != ':' || len(port) > 1 && (!ok || number > 65535) {
			return nil, false
		}
	}
	return Lower(host), true
}

// isIPv6 reports whether the content of an IP literal is an IPv6 address. Zones are not allowed on the wire (RFC 6874), and
// future versions of IP do not exist.
func isIPv6(b []byte) bool {
	if len(b) > len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255") {
		return false
	}
	a, err := netip.ParseAddr(string(b))
	return err == nil && a.Is6() && a.Zone() == ""
}

// Lower lowers the case of ASCII letters. It copies b if there is one to lower.
func Lower(b []byte) []byte {
	isUpper := func(r rune) bool { return r >= 'A' && r <= 'Z' }
	at := bytes.IndexFunc(b, isUpper)
	if at < 0 {
		return b
	}
	out := bytes.Clone(b)
	for i := at; i < len(out); i++ {
		if isUpper(rune(out[i])) {
			out[i] += 'a' - 'A'
		}
	}
	return out
}
