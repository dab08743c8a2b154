package choice

import (
	"net/netip"
	"strconv"
	"strings"

	"baton/relay/trunkproto"
)

// Route is the names of the relays after this one, joined by commas; "": connect to the server from here.
type Route string

// Direct is the route without relays.
const Direct Route = ""

func routeOf(relays []string) Route { return Route(strings.Join(relays, ",")) }

// Relays are the names, nil for none.
func (w Route) Relays() []string {
	if w == Direct {
		return nil
	}
	return strings.Split(string(w), ",")
}

// names returns the route as in a header, nil for none.
func (w Route) names() trunkproto.Names {
	if w == Direct {
		return nil
	}
	return trunkproto.Names(w)
}

// first is the relay that this one opens a trunk to; "" for none.
func (w Route) first() string {
	name, _, _ := strings.Cut(string(w), ",")
	return name
}

func (w Route) String() string {
	if w == Direct {
		return "directly"
	}
	return "via " + strings.Join(w.Relays(), ", ")
}

// Destination is a set of servers that share a route: a prefix and a port, as the allow of relays may distinguish ports.
type Destination struct {
	Prefix netip.Prefix
	Port   uint16
}

// Lengths of the prefixes that group servers which no entry names: the longest in the Internet's routing tables.
const (
	bits4 = 24
	bits6 = 48
)

// Of returns the destination of a server that a flow uses.
func Of(server netip.AddrPort) Destination { return within(server, bits4, bits6) }

// Exactly returns the destination of a single server, as in an entry.
func Exactly(server netip.AddrPort) Destination { return within(server, 32, 128) }

func within(server netip.AddrPort, four, six int) Destination {
	a := server.Addr().Unmap().WithZone("")
	bits := six
	if a.Is4() {
		bits = four
	}
	p, _ := a.Prefix(bits) // valid for a valid address
	return Destination{p, server.Port()}
}

func (d Destination) compare(o Destination) int {
	if c := d.Prefix.Addr().Compare(o.Prefix.Addr()); c != 0 {
		return c
	}
	if c := d.Prefix.Bits() - o.Prefix.Bits(); c != 0 {
		return c
	}
	return int(d.Port) - int(o.Port)
}

// String is server:port, or prefix:port.
func (d Destination) String() string {
	if d.Prefix.IsSingleIP() {
		return netip.AddrPortFrom(d.Prefix.Addr(), d.Port).String()
	}
	return d.Prefix.String() + ":" + strconv.Itoa(int(d.Port))
}
