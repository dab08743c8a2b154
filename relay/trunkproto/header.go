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

// Reasons to refuse a header, besides [Malformed] and [ErrVersion].
var (
	// ErrSeal means that the header was made with another secret or for another trunk, or has an unexpected seal.
	ErrSeal = errors.New("the seal does not match")
	// ErrTooLong means that it is longer than [MaxHeader].
	ErrTooLong = errors.New("the header is too long")
	// ErrHops means that the route has more than [MaxHops] relays.
	ErrHops = errors.New("the route has too many relays")
	// ErrLoop means that the route passes a relay twice.
	ErrLoop = errors.New("the route passes a relay twice")
	// ErrRoute means that the route does not lead through this relay.
	ErrRoute = errors.New("the route does not lead through this relay")
)

// ClientAddress is the client address that the server sees.
type ClientAddress uint8

// What servers may see.
const (
	Hidden      ClientAddress = iota // the last relay
	Spoofed                          // the client
	ProxyHeader                      // the last relay, and the client in a PROXY protocol v2 header
)

// Header is what the opener of a trunk sends first: the flow's addresses and its route.
type Header struct {
	Probe bool // no flow: the last relay measures the distance of Server
	// Client of a flow; not valid in a probe.
	Client netip.AddrPort
	// Server of a flow. In a probe it is the address to measure, if valid.
	Server netip.AddrPort
	ID     [IDSize]byte // random, for logs: the same on the whole route
	// Via are the relays still to pass, starting with the acceptor. When parsed, it aliases the header's bytes.
	Via Names
	// Passed are the relays passed so far, without this one. When parsed, it aliases the header's bytes and ends with the opener.
	Passed        Names
	ClientAddress ClientAddress
	Congestion    string // towards the server: the kernel's name of an algorithm; "" for the system's
}

// Connectable reports whether an address can be connected to: it has a port, is the address of one host, and has no zone. The unspecified
// address is not, though Linux treats it as the host itself.
func Connectable(server netip.AddrPort) bool {
	a := server.Addr().Unmap()
	return a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && server.Port() != 0
}

// Advance removes a relay's own name from a received route. The error wraps [ErrRoute] if the name is not the first of Via, and [ErrLoop]
// if it occurs anywhere else. If Via is then empty, this relay is the last.
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
