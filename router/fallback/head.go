package fallback

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// framing is how far a request reaches: what RFC 9112 section 6 derives from its head.
type framing struct {
	length  int64 // octets of the body, when it is not chunked
	chunked bool
	upgrade bool // another protocol follows, if the surrogate agrees
}

// headEnd returns the length of the head that buf begins with, its empty line included, or -1 when it is not yet
// complete. The first scanned octets are known to hold no end. A line ends with LF (RFC 9112 section 2.2), as
// net/http has it: both must agree on where the body begins.
func headEnd(buf []byte, scanned int) int {
	for at := max(0, scanned-2); ; {
		lf := bytes.IndexByte(buf[at:], '\n')
		if lf < 0 {
			return -1
		}
		at += lf + 1
		rest := buf[at:]
		switch {
		case len(rest) > 0 && rest[0] == '\n':
			return at + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return at + 2
		}
	}
}

// checkHead reads a complete head. A non-nil verdict says why the request must not be passed on.
func checkHead(head []byte) (framing, *Verdict) {
	line, rest := cutLine(head)
	http10, refused := checkRequestLine(line)
	if refused != nil {
		return framing{}, refused
	}
	var f fields
	for {
		line, rest = cutLine(rest)
		if len(line) == 0 {
			break
		}
		if refused := f.add(line); refused != nil {
			return framing{}, refused
		}
	}
	return f.framing(http10)
}

func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

func malformed(reason string) *Verdict { return &Verdict{http.StatusBadRequest, reason} }

func checkRequestLine(line []byte) (http10 bool, refused *Verdict) {
	parts := strings.Split(string(line), " ")
	if len(parts) != 3 {
		return false, malformed("malformed request line")
	}
	method, target, version := parts[0], parts[1], parts[2]
	if !isToken(method) {
		return false, malformed("malformed method")
	}
	switch {
	case version == "HTTP/1.1":
	case version == "HTTP/1.0":
		http10 = true
	case strings.HasPrefix(version, "HTTP/"):
		return false, &Verdict{http.StatusHTTPVersionNotSupported, "only HTTP/1.0 and HTTP/1.1 are spoken here"}
	default:
		return false, malformed("malformed request line")
	}
	if method == http.MethodConnect {
		return false, &Verdict{http.StatusNotImplemented, "CONNECT is not supported"}
	}
	if target == "*" && method == http.MethodOptions {
		return http10, nil
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return false, malformed("control character in the request target")
		}
	}
	u, err := url.ParseRequestURI(target)
	if err != nil || (target[0] != '/' && (u.Host == "" || u.User != nil || !isHost(u.Host))) {
		return false, malformed("malformed request target")
	}
	return http10, nil
}

// fields are the header fields that decide about framing.
type fields struct {
	host, length, coding, expect int // how often seen
	contentLength                int64
	connection, upgradeTo        []string
}

func (f *fields) add(line []byte) *Verdict {
	if line[0] == ' ' || line[0] == '\t' {
		return malformed("folded header line") // obs-fold, RFC 9112 section 5.2
	}
	rawName, rawValue, found := bytes.Cut(line, []byte(":"))
	name := string(rawName)
	if !found || !isToken(name) {
		return malformed("malformed header name")
	}
	for _, c := range rawValue {
		if (c < ' ' && c != '\t') || c == 0x7f {
			return malformed("control character in a header value")
		}
	}
	value := strings.Trim(string(rawValue), " \t")
	switch strings.ToLower(name) {
	case "host":
		if f.host++; f.host > 1 {
			return malformed("repeated Host")
		}
		if !isHost(value) {
			return malformed("malformed Host")
		}
	case "content-length":
		if f.length++; f.length > 1 {
			return malformed("repeated Content-Length")
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return malformed("malformed Content-Length")
		}
		f.contentLength = int64(n)
	case "transfer-encoding":
		if f.coding++; f.coding > 1 {
			return malformed("repeated Transfer-Encoding")
		}
		if !strings.EqualFold(value, "chunked") {
			return &Verdict{http.StatusNotImplemented, "unsupported Transfer-Encoding"}
		}
	case "expect":
		f.expect++
		if !strings.EqualFold(value, "100-continue") {
			return &Verdict{http.StatusExpectationFailed, "unsupported expectation"}
		}
	case "connection":
		f.connection = append(f.connection, listed(value)...)
	case "upgrade":
		f.upgradeTo = append(f.upgradeTo, listed(value)...)
	}
	return nil
}

func (f *fields) framing(http10 bool) (framing, *Verdict) {
	switch {
	case f.coding > 0 && f.length > 0:
		return framing{}, malformed("both Content-Length and Transfer-Encoding")
	case f.coding > 0 && http10:
		return framing{}, malformed("Transfer-Encoding in HTTP/1.0")
	case f.host == 0 && !http10:
		return framing{}, malformed("no Host")
	}
	out := framing{length: f.contentLength, chunked: f.coding > 0}
	if !http10 && len(f.upgradeTo) > 0 && containsFold(f.connection, "upgrade") {
		// HTTP/2 in the clear would be a tunnel through the routes; RFC 9113 section 3.1 has dropped it.
		out.upgrade = !containsFold(f.upgradeTo, "h2c")
	}
	return out, nil
}

func listed(value string) []string {
	var out []string
	for part := range strings.SplitSeq(value, ",") {
		out = append(out, strings.Trim(part, " \t"))
	}
	return out
}

func containsFold(list []string, want string) bool {
	for _, s := range list {
		if strings.EqualFold(s, want) {
			return true
		}
	}
	return false
}

// isToken: RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// isHost allows the octets of host [":" port], RFC 3986 section 3.2.2, and the empty host of RFC 9112 section 3.2.
func isHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && !strings.ContainsRune("!$%&'()*+,-.:;=[]_~", rune(c)) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
