package choice

import (
	"net/netip"
	"strconv"
	"strings"

	"baton/relay/trunkproto"
)

// Route is the names of relays behind this one, joined by commas; "": the server is connected to from here.
type Route string

// Direct is the way without relays.
const Direct Route = ""

func routeOf(relays []string) Route { return Route(strings.Join(relays, ",")) }

// Relays are the names, nil for none.
func (w Route) Relays() []string {
	if w == Direct {
		return nil
	}
	return strings.Split(string(w), ",")
}

// names are as a header has them, nil for none.
func (w Route) names() trunkproto.Names {
	if w == Direct {
		return nil
	}
	return trunkproto.Names(w)
}

// first is the relay that this one opens trunks to; "" for none.
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

// Destination is servers that have one way: those of a prefix that answer at one port, as relays' allow may tell ports apart.
type Destination struct {
	Prefix netip.Prefix
	Port   uint16
}

// Lengths of the prefixes that servers which nobody has named are put together in: the longest that the Internet's routes have.
const (
	bits4 = 24
	bits6 = 48
)

// Of is where a server belongs that a flow has asked for.
func Of(server netip.AddrPort) Destination { return within(server, bits4, bits6) }

// Exactly is a server by itself, as an entry's destination is.
func Exactly(server netip.AddrPort) Destination { return within(server, 32, 128) }

func within(server netip.AddrPort, four, six int) Destination {
	a := server.Addr().Unmap().WithZone("")
	bits := six
	if a.Is4() {
		bits = four
	}
	p, _ := a.Prefix(bits) // an address that is valid has so many
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
