// Package proxyheader reads how an entry learns where a flow is to go: what a client, or a proxy in front of it, says before the
// flow's own bytes. It opens no sockets, starts no goroutines, asks no clock and resolves no names.
//
// Three modes have a preface: a PROXY protocol header of either version, SOCKS5 (RFC 1928) and HTTP's CONNECT (RFC 9110, section
// 9.3.6). Nobody is authenticated by any of them: who may connect to an entry, and what it may connect to, is the
// configuration's business, and so is whether the client that a PROXY header names is to be believed.
package proxyheader

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// Max is the number of bytes that a preface, or the part of it that is answered by itself, has at most: Feed takes or refuses
// when it is given as many.
const Max = 8 << 10

// Why a preface is refused. Errors wrap one of these, and say more.
var (
	// ErrMalformed: the bytes are none of the mode's protocol.
	ErrMalformed = errors.New("malformed")
	// ErrTooLong: it is longer than its protocol, or this package, lets it be.
	ErrTooLong = errors.New("too long")
	// ErrUnsupported: it asks for something else than a TCP connection, or for authentication.
	ErrUnsupported = errors.New("not supported")
	// ErrDestination: it names no destination, or one to which no connection can be asked for.
	ErrDestination = errors.New("no destination")
)

// Target is what a preface has said.
type Target struct {
	// Client as a PROXY header has it. Otherwise it is not valid, and the client is the connection's own peer.
	Client netip.AddrPort
	// Server is where the flow is to go. It is not valid when there is a Host.
	Server netip.AddrPort
	// Host is a name that is to be resolved, in lower case and without a dot at its end, and Port the port at its addresses.
	Host string
	Port uint16
}

// Parser reads the preface of one flow. It must not be copied while it does, nor used from two goroutines at once.
type Parser struct {
	Target Target // when Feed is done
	mode   config.Mode
	err    error
	done   bool

	greeted  bool // SOCKS: the method is chosen
	searched int  // CONNECT: bytes in which the head does not end
	line     int  // CONNECT: where the last line among them starts
}

// New returns the parser of a flow that has come to an entry of that mode. Where the mode has no preface, Feed is done at once.
func New(mode config.Mode) Parser { return Parser{mode: mode} }

// Feed is given what has come and was not taken yet, from its first byte. It says how many of these bytes it has taken, and what
// the client is to be told now. It is to be called again, with what it left and with more behind, until it is done or has an
// error; then it says that again. What it leaves when it is done is the flow's own.
//
// The error wraps one of this package's, and is the same however the bytes come; the reply is then the last of the connection. A
// reply must not be changed.
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

// AppendGranted writes what the client is told when the server has answered: nothing in front of a flow whose mode has no reply.
// local is the address that the server sees, or not valid if that is not known here.
func (p *Parser) AppendGranted(b []byte, local netip.AddrPort) []byte {
	switch p.mode {
	case config.SOCKS5:
		return appendSOCKS(b, socksSucceeded, local)
	case config.Connect:
		return append(b, "HTTP/1.1 200 Connection established\r\n\r\n"...)
	}
	return b
}

// AppendRefused writes what the client is told when there is no way to the server: the last of the connection.
func (p *Parser) AppendRefused(b []byte, status trunkproto.Status) []byte {
	switch p.mode {
	case config.SOCKS5:
		return appendSOCKS(b, socksCode(status), netip.AddrPort{})
	case config.Connect:
		return append(b, connectReply(status)...)
	}
	return b
}

// setServer makes an address the target, with the IPv4 address that an IPv6 one may stand for (RFC 4291, section 2.5.5.2), as
// otherwise it would pass by rules for IPv4.
func (t *Target) setServer(server netip.AddrPort) error {
	server = netip.AddrPortFrom(server.Addr().Unmap(), server.Port())
	if !trunkproto.Connectable(server) {
		return fmt.Errorf("%w: no connection to %v can be asked for", ErrDestination, server)
	}
	t.Server = server
	return nil
}

// setHost makes a name the target, or an IPv4 address that is written like one.
func (t *Target) setHost(host string, port uint16) error {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isName(name) {
		address, err := netip.ParseAddr(host)
		if err != nil || !address.Is4() {
			return fmt.Errorf("%w: %.80q is no name of a host", ErrMalformed, host)
		}
		return t.setServer(netip.AddrPortFrom(address, port))
	}
	if port == 0 {
		return fmt.Errorf("%w: port 0 of %q", ErrDestination, name)
	}
	t.Host, t.Port = name, port
	return nil
}

// isName tells whether a name can be one of the DNS: labels of 1 to 63 bytes, 253 in all (RFC 1035, section 2.3.4), of letters,
// digits, hyphens, and the underscores that are found all the same. The last label is no number (RFC 3696, section 2), which
// some resolvers take for a part of an address.
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
