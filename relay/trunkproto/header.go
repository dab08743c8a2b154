package trunkproto

import (
	"errors"
	"fmt"
	"net/netip"
)

// Sizes of headers, in bytes.
const (
	MaxHeader = 2048 // nothing longer is read or written
	IDSize    = 16
)

// Why a header is refused that is none of [Malformed] and [ErrVersion].
var (
	// ErrSeal: the header was not made with the trunk's secret, or for another trunk, or has a seal where none is due.
	ErrSeal = errors.New("the seal does not fit")
	// ErrTooLong: it is longer than [MaxHeader].
	ErrTooLong = errors.New("the header is too long")
	// ErrHops: the way has more than [MaxHops] relays.
	ErrHops = errors.New("the way has too many relays")
	// ErrLoop: the way passes a relay twice.
	ErrLoop = errors.New("the way passes a relay twice")
	// ErrRoute: the way does not lead over this relay.
	ErrRoute = errors.New("the way does not lead over this relay")
)

// ClientAddress is what the server is to see as its client.
type ClientAddress uint8

// What servers may see.
const (
	Hidden      ClientAddress = iota // the last relay
	Spoofed                          // the client
	ProxyHeader                      // the last relay, and the client in a PROXY protocol v2 header
)

// Header is what the opener of a trunk says first: whose flow it carries, and where to.
type Header struct {
	Probe bool // nobody's flow: the last relay measures how far Server is
	// Client of a flow; not valid in a probe.
	Client netip.AddrPort
	// Server of a flow; of a probe the address to measure, or not valid to measure none.
	Server netip.AddrPort
	ID     [IDSize]byte // random, for logs: the same on the whole way
	// Via are the relays still to pass: whom the trunk leads to is the first. Parsed, it aliases the header's bytes.
	Via Names
	// Passed are the relays passed so far, without this one. Parsed, it aliases the header's bytes, and its last is the opener.
	Passed        Names
	ClientAddress ClientAddress
	Congestion    string // towards the server: a kernel's name of an algorithm; "" for the system's
}

// Connectable tells whether a TCP connection can be asked for to that address: it has a port and is of one host, without a zone.
// The unspecified address is of none, though Linux takes it for the host itself.
func Connectable(server netip.AddrPort) bool {
	a := server.Addr().Unmap()
	return a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && server.Port() != 0
}

// Advance takes a relay's own name off the way, when a header has come to it. The error wraps [ErrWay] if the name is not the first
// of Via, and [ErrLoop] if it is anywhere else, too. If Via is empty then, this relay is the last.
func (h *Header) Advance(self string) error {
	first, rest := h.Via.Cut()
	if string(first) != self {
		return fmt.Errorf("%w: it leads to %s", ErrRoute, first)
	}
	if rest.Has(self) || h.Passed.Has(self) {
		return ErrLoop
	}
	h.Via = rest
	return nil
}
