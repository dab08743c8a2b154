package links

import (
	"cmp"
	"net/netip"
	"slices"

	"baton/balance/config"
)

// Protocol is the number of the balance's own routes, rules and addresses. They follow from the links, so they are ignored here.
const Protocol = 66

// Kernel is the kernel's state of the links' interfaces, as data.
type Kernel struct {
	Interfaces []Interface
	Addresses  []Address
	Routes     []Route // default routes only
	Neighbours []Neighbour
}

// Interface is a network interface.
type Interface struct {
	Index int
	Name  string
	MAC   MAC // zero: no link layer, such as ppp, WireGuard and raw IP modems
	MTU   int
	Live  bool // up, with a carrier, and not waiting for authentication (802.1X)
}

// Address is an address of an interface.
type Address struct {
	Index      int
	Prefix     netip.Prefix // with the address's own bits
	Global     bool         // scope
	Tentative  bool         // duplicate address detection is running or has failed
	Deprecated bool
	Temporary  bool // RFC 8981; in IPv4: secondary
}

// Route is a default route with one gateway.
type Route struct {
	Index    int
	Gateway  netip.Addr // not valid: none
	Source   netip.Addr // preferred source; not valid: none
	Metric   int
	Table    int
	Protocol int
}

// Neighbour is an entry of the ARP or neighbour discovery table.
type Neighbour struct {
	Index   int
	Address netip.Addr
	MAC     MAC // zero: unknown
	State   Reach
}

// Reach is the kernel's state of a neighbour.
type Reach int

// The states, as far as they matter.
const (
	Unresolved Reach = iota // no answer yet, or not probed
	Known                   // an answer is remembered
	Fixed                   // set by an administrator, and never probed
	Failed                  // no answer
)

// Derive computes the state of a link. resolvers are those that the host's services report; last is the link's previous state: a gateway's
// MAC is kept while the kernel resolves it again.
func Derive(c config.Link, k Kernel, resolvers []netip.Addr, last Link) Link {
	l := Link{Name: c.Name, Interface: c.Interface, Resolvers: c.Resolvers}
	i := slices.IndexFunc(k.Interfaces, func(n Interface) bool { return n.Name == c.Interface })
	if i < 0 {
		return l
	}
	n := k.Interfaces[i]
	l.Index, l.MAC, l.MTU, l.Carrier = n.Index, n.MAC, n.MTU, n.Live
	if len(l.Resolvers) == 0 {
		l.Resolvers = resolvers
	}
	if last.Index != l.Index || !last.Carrier {
		last = Link{} // it may lead to another network, whose gateway has the same address
	}
	l.V4 = family(c, k, n.Index, false, last.V4)
	l.V6 = family(c, k, n.Index, true, last.V6)
	return l
}

func family(c config.Link, k Kernel, index int, v6 bool, last Family) Family {
	var f Family
	var source netip.Addr
	f.Gateway, source = gateway(c, k, index, v6)
	if a, ok := address(k, index, v6, source, f.Gateway); ok {
		f.Address, f.Prefix = a.Prefix.Addr(), a.Prefix.Masked()
	}
	if !f.Gateway.IsValid() {
		return f
	}
	reach := Unresolved
	for _, n := range k.Neighbours {
		if n.Index == index && n.Address == f.Gateway {
			f.GatewayMAC, reach = n.MAC, n.State
		}
	}
	switch reach {
	case Unresolved:
		f.GatewayMAC = MAC{}
		if last.Gateway == f.Gateway {
			f.GatewayMAC = last.GatewayMAC
		}
	case Failed:
		f.GatewayMAC = MAC{}
	}
	return f
}

// gateway returns the configured gateway, or else that of the default route that the kernel would prefer. Routes of the main table come
// first; network services with policy routing put theirs into other tables.
func gateway(c config.Link, k Kernel, index int, v6 bool) (gateway, source netip.Addr) {
	for _, a := range c.Gateways {
		if a.Is6() == v6 {
			return a, netip.Addr{}
		}
	}
	var routes []Route
	for _, r := range k.Routes {
		if r.Index == index && r.Protocol != Protocol && r.Gateway.IsValid() && r.Gateway.Is6() == v6 {
			routes = append(routes, r)
		}
	}
	if len(routes) == 0 {
		return netip.Addr{}, netip.Addr{}
	}
	best := slices.MinFunc(routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(rank(a.Table), rank(b.Table)), cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Table, b.Table), a.Gateway.Compare(b.Gateway))
	})
	return best.Gateway, best.Source
}

const mainTable = 254 // RT_TABLE_MAIN

func rank(table int) int {
	if table == mainTable {
		return 0
	}
	return 1
}

// address returns the source address for packets: the route's preferred source, or else the kernel's choice, with one exception. A
// temporary address comes last: it changes every day, and all flows of the link would end with it.
func address(k Kernel, index int, v6 bool, source, gateway netip.Addr) (Address, bool) {
	var usable []Address
	for _, a := range k.Addresses {
		ip := a.Prefix.Addr()
		if a.Index == index && ip.Is6() == v6 && a.Global && !a.Tentative && !ip.IsLinkLocalUnicast() {
			usable = append(usable, a)
		}
	}
	if len(usable) == 0 {
		return Address{}, false
	}
	// Of equal ones MinFunc takes the first, as the kernel does.
	return slices.MinFunc(usable, func(a, b Address) int {
		return cmp.Or(
			worse(a.Prefix.Addr() != source, b.Prefix.Addr() != source),
			worse(a.Deprecated, b.Deprecated),
			worse(v6 && a.Temporary, v6 && b.Temporary),
			worse(!a.Prefix.Contains(gateway), !b.Prefix.Contains(gateway)),
			worse(v6 && a.Prefix.Addr().IsPrivate(), v6 && b.Prefix.Addr().IsPrivate()),
			worse(a.Temporary, b.Temporary),
		)
	}), true
}

// worse sorts false before true.
func worse(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
