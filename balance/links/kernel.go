package links

import (
	"cmp"
	"net/netip"
	"slices"

	"baton/balance/config"
)

// Protocol is the number of the routes, rules and addresses that a balance makes. They are what follows from the links, so they say
// nothing about them.
const Protocol = 66

// Kernel is what the kernel says of the interfaces of links, as data.
type Kernel struct {
	Interfaces []Interface
	Addresses  []Address
	Routes     []Route // to everywhere, and no others
	Neighbours []Neighbour
}

// Interface is a network interface.
type Interface struct {
	Index int
	Name  string
	MAC   MAC // zero: it has no link layer, such as ppp, WireGuard and raw IP modems
	MTU   int
	Live  bool // up, with a carrier, and not waiting for anybody's leave (802.1X)
}

// Address is an address of an interface.
type Address struct {
	Index      int
	Prefix     netip.Prefix // with the address's own bits
	Global     bool         // by its scope
	Tentative  bool         // it is being, or has been, found that another host has it
	Deprecated bool
	Temporary  bool // RFC 8981; of IPv4: secondary
}

// Route is a default route by one gateway.
type Route struct {
	Index    int
	Gateway  netip.Addr // not valid: there is none
	Source   netip.Addr // that it prefers; not valid: none
	Metric   int
	Table    int
	Protocol int
}

// Neighbour is an entry of the tables of ARP and neighbour discovery.
type Neighbour struct {
	Index   int
	Address netip.Addr
	MAC     MAC // zero: not known
	State   Reach
}

// Reach is what the kernel thinks of a neighbour.
type Reach int

// The states, as far as they matter.
const (
	Unresolved Reach = iota // no answer yet, or nobody has asked
	Known                   // an answer is remembered
	Fixed                   // somebody has told it, and it is not asked
	Failed                  // no answer came
)

// Derive says what a link is. resolvers are those that the host's services tell; last is what the link was before: a gateway's MAC is
// remembered while the kernel asks for it again.
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
		last = Link{} // it may lead to another network, with another gateway of the same address
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

// gateway is the one that is configured, or else the default route's that the kernel would prefer, of the main table first: other
// tables have it where a network service has made routes by policy.
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

// address is the address that packets leave with: the route's own choice, or else what the kernel would take, with one exception. A
// temporary address comes last: it changes every day, and every flow of the link would end with it.
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
	// MinFunc takes the first of those that are alike, as the kernel does.
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

// worse orders what is not so before what is.
func worse(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
