package proxyheader

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"baton/relay/trunkproto"
)

// connect reads a CONNECT request.
func (p *Parser) connect(b []byte) (n int, reply []byte, err error) {
	n, err = p.headSize(b)
	if n == 0 && err == nil {
		return 0, nil, nil
	}
	if err == nil {
		err = p.Target.setConnect(b[:n])
	}
	if err != nil {
		return 0, connectRefusal(err), fmt.Errorf("read the CONNECT request: %w", err)
	}
	p.done = true
	return n, nil, nil
}

// headSize is the length of the request head at the start of b, 0 until it is complete. Each byte is scanned once as b grows, except those
// of the method.
func (p *Parser) headSize(b []byte) (int, error) {
	if err := checkMethod(b); err != nil {
		return 0, err
	}
	head := b[:min(len(b), Max)]
	for {
		end := bytes.IndexByte(head[p.searched:], '\n')
		if end < 0 {
			break
		}
		end += p.searched
		switch {
		case end == p.line || head[end-1] != '\r':
			return 0, fmt.Errorf("%w: a line that ends in LF alone", ErrMalformed) // net/http would accept it
		case end == p.line+1:
			return end + 1, nil
		}
		p.line, p.searched = end+1, end+1
	}
	p.searched = len(head)
	if len(head) == Max {
		return 0, fmt.Errorf("%w: the head does not end within %d bytes", ErrTooLong, Max)
	}
	return 0, nil
}

const maxMethod = 32 // longer than any known method

// checkMethod refuses what cannot be an HTTP request early, before its sender waits for another protocol's reply.
func checkMethod(b []byte) error {
	for i, c := range b[:min(len(b), maxMethod+1)] {
		switch {
		case c == ' ' && i > 0:
			return nil
		case c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 || i == maxMethod:
			return fmt.Errorf("%w: it does not start with a method", ErrMalformed) // a token: RFC 9110, section 5.6.2
		}
	}
	return nil
}

// Errors with a status of their own.
var (
	errMethod  = fmt.Errorf("%w: a method other than CONNECT", ErrUnsupported)
	errVersion = fmt.Errorf("%w: neither HTTP/1.1 nor HTTP/1.0", ErrUnsupported)
)

// setConnect parses a complete head. Only header fields about a body matter to a tunnel.
func (t *Target) setConnect(head []byte) error {
	r, err := readWith(head, http.ReadRequest)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %.120s", ErrMalformed, printable(err.Error())) // which may repeat the whole head
	case r.ProtoMajor != 1 || r.ProtoMinor > 1:
		return errVersion
	case r.Method != http.MethodConnect:
		return errMethod
	case r.ContentLength > 0 || len(r.TransferEncoding) > 0:
		return fmt.Errorf("%w: it announces a body", ErrMalformed)
	}
	return t.setAuthority(r.RequestURI)
}

// setAuthority sets the target to a host and port, both of which are required (RFC 9110, section 9.3.6).
func (t *Target) setAuthority(authority string) error {
	host, text, err := net.SplitHostPort(authority)
	if err != nil {
		return fmt.Errorf("%w: %.80q is not host:port", ErrMalformed, authority)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("%w: %.80q has no port", ErrMalformed, authority)
	}
	if authority[0] != '[' {
		return t.setHost(host, uint16(port))
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("%w: %.80q is not an IPv6 address", ErrMalformed, authority)
	}
	return t.setServer(netip.AddrPortFrom(address, uint16(port)))
}

// connectRefusal is the reply to an invalid request.
func connectRefusal(err error) []byte {
	switch {
	case errors.Is(err, errMethod):
		return notAllowed
	case errors.Is(err, errVersion):
		return noVersion
	case errors.Is(err, ErrTooLong):
		return tooLarge
	}
	return badRequest
}

var (
	badRequest = response(http.StatusBadRequest, "", "The request cannot be read, or names no destination.")
	notAllowed = response(http.StatusMethodNotAllowed, "Allow: CONNECT\r\n", "Only CONNECT is served here.")
	tooLarge   = response(http.StatusRequestHeaderFieldsTooLarge, "", "The request is too long.")
	noVersion  = response(http.StatusHTTPVersionNotSupported, "", "Only HTTP/1.1 and HTTP/1.0 are served here.")
)

// tunnels are the replies for rejected flows, with the error types of RFC 9209, section 2.3.
var tunnels = map[trunkproto.Status][]byte{
	trunkproto.Refused:     tunnel(http.StatusBadGateway, "connection_refused", "The server refused the connection."),
	trunkproto.Unreachable: tunnel(http.StatusBadGateway, "destination_ip_unroutable", "The server cannot be reached."),
	trunkproto.TimedOut:    tunnel(http.StatusGatewayTimeout, "connection_timeout", "The server did not answer."),
	trunkproto.NotAllowed:  tunnel(http.StatusForbidden, "destination_ip_prohibited", "Connections to the server are not allowed."),
	trunkproto.Loop:        tunnel(http.StatusBadGateway, "proxy_loop_detected", "The route to the server passes a relay twice."),
	trunkproto.Overloaded:  tunnel(http.StatusServiceUnavailable, "connection_limit_reached", "A relay is overloaded."),
	trunkproto.NoTrunk:     tunnel(http.StatusBadGateway, "destination_unavailable", "The next relay cannot be reached."),
	trunkproto.NoSuchRelay: tunnel(http.StatusBadGateway, "proxy_configuration_error", "A relay does not know the route to the server."),
	trunkproto.Stopping:    tunnel(http.StatusServiceUnavailable, "destination_unavailable", "A relay is stopping."),
}

var failed = tunnel(http.StatusBadGateway, "proxy_internal_error", "The relays are incompatible.")

func connectReply(status trunkproto.Status) []byte {
	if reply, ok := tunnels[status]; ok {
		return reply
	}
	return failed
}

func tunnel(status int, kind, text string) []byte {
	return response(status, "Proxy-Status: baton; error="+kind+"\r\n", text)
}

// response is a reply that ends the connection.
func response(status int, fields, text string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), fields, len(text)+1, text)
}

// printable replaces control characters, which a client may put where an error repeats them.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
