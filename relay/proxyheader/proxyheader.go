// Package proxyheader parses the header in front of a flow by which a client, or a proxy in front of it, names the destination. It opens no
// sockets, starts no goroutines, reads no clock and resolves no names.
//
// Three modes have a header: the PROXY protocol of either version, SOCKS5 (RFC 1928) and HTTP CONNECT (RFC 9110, section 9.3.6). None of
// them authenticates anyone: who may connect to an entry, which destinations are allowed, and whether to trust the client's address in a
// PROXY header is up to the configuration.
package proxyheader

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// Max is the maximum length, in bytes, of a header or of its part that is answered separately: given as many, Feed consumes or refuses
// them.
const Max = 8 << 10

// Reasons to refuse a header, wrapped by errors with more detail.
var (
	// ErrMalformed means that the bytes do not follow the mode's protocol.
	ErrMalformed = errors.New("malformed")
	// ErrTooLong means that the header is longer than its protocol or this package allows.
	ErrTooLong = errors.New("too long")
	// ErrUnsupported means a request other than for a TCP connection, or for authentication.
	ErrUnsupported = errors.New("not supported")
	// ErrDestination means no destination, or an impossible one.
	ErrDestination = errors.New("no destination")
)

// Target is the content of a header.
type Target struct {
	// Client is from a PROXY header. Otherwise it is not valid, and the connection's peer is the client.
	Client netip.AddrPort
	// Server is the destination. It is not valid if there is a Host.
	Server netip.AddrPort
	// Host is a name to resolve, in lower case without a final dot, and Port the port at its addresses.
	Host string
	Port uint16
}

// Parser parses the header of one flow. It must not be copied while in use, nor used concurrently.
type Parser struct {
	Target Target // valid when Feed is done
	mode   config.Mode
	err    error
	done   bool

	greeted  bool // SOCKS: the method was selected
	searched int  // CONNECT: bytes scanned for the end of the head
	line     int  // CONNECT: start of the last line among them
}

// New returns a parser for an entry's mode. If the mode has no header, Feed is done at once.
func New(mode config.Mode) Parser { return Parser{mode: mode} }

// Feed is given the received bytes that were not consumed yet. It returns the number of bytes that it consumes and a reply to send to the
// client. It is called again, with the rest and more bytes, until it is done or fails; after that it returns the same. Bytes left when it
// is done belong to the flow.
//
// The error wraps one of this package's and does not depend on how the bytes are split; the reply is then the last one on the connection. A
// reply must not be modified.
func (p *Parser) Feed(b []byte) (n int, reply []byte, done bool, err error) {
	if p.done || p.err != nil {
		return 0, nil, p.done, p.err
	}
	switch p.mode {
	case config.Proxy:
		n, p.err = p.proxy(b)
	case config.SOCKS5:
		n, reply, p.err = p.socks(b)
	case config.Connect:
		n, reply, p.err = p.connect(b)
	default:
		p.done = true
	}
	return n, reply, p.done, p.err
}

// AppendGranted appends the reply when the server is connected, if the mode has one. local is the address that the server sees, or not
// valid if unknown.
func (p *Parser) AppendGranted(b []byte, local netip.AddrPort) []byte {
	switch p.mode {
	case config.SOCKS5:
		return appendSOCKS(b, socksSucceeded, local)
	case config.Connect:
		return append(b, "HTTP/1.1 200 Connection established\r\n\r\n"...)
	}
	return b
}

// AppendRefused appends the reply when the server is unavailable, the last one on the connection.
func (p *Parser) AppendRefused(b []byte, status trunkproto.Status) []byte {
	switch p.mode {
	case config.SOCKS5:
		return appendSOCKS(b, socksCode(status), netip.AddrPort{})
	case config.Connect:
		return append(b, connectReply(status)...)
	}
	return b
}

// setServer sets the target to an address. An IPv4-mapped address becomes IPv4 (RFC 4291, section 2.5.5.2), as otherwise it would evade
// rules for IPv4.
func (t *Target) setServer(server netip.AddrPort) error {
	server = netip.AddrPortFrom(server.Addr().Unmap(), server.Port())
	if !trunkproto.Connectable(server) {
		return fmt.Errorf("%w: %v cannot be connected to", ErrDestination, server)
	}
	t.Server = server
	return nil
}

// setHost sets the target to a name, or to an IPv4 address in its place.
func (t *Target) setHost(host string, port uint16) error {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isName(name) {
		address, err := netip.ParseAddr(host)
		if err != nil || !address.Is4() {
			return fmt.Errorf("%w: %.80q is not a valid host name", ErrMalformed, host)
		}
		return t.setServer(netip.AddrPortFrom(address, port))
	}
	if port == 0 {
		return fmt.Errorf("%w: port 0 of %q", ErrDestination, name)
	}
	t.Host, t.Port = name, port
	return nil
}

// isName reports whether a name can be in the DNS: labels of 1 to 63 bytes, 253 in all (RFC 1035, section 2.3.4), of letters, digits,
// hyphens, and underscores, which occur in practice. The last label is not numeric (RFC 3696, section 2): some resolvers would take it for
// a part of an address.
func isName(name string) bool {
	if len(name) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
		last = label
	}
	return strings.Trim(last, "0123456789") != ""
}
