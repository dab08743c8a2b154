// Package distances orders surrogates by their distance from clients, in zones that request routers decide by: the native mode. It is pure.
package distances

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"baton/api"
)

// Client is an address that sessions come from, and the switch that it is at.
type Client struct {
	Address netip.Addr
	At      uint64 // datapath id
}

// Surrogate is a surrogate. One whose place is not known is the last in every zone.
type Surrogate struct {
	Name  string
	At    uint64
	Known bool
}

// Network is what the zones are made of.
type Network struct {
	Clients    []Client
	Surrogates []Surrogate
	// Hops is the number of links between two switches, false if they are not connected.
	Hops func(from, to uint64) (int, bool)

	// Neighbours in a prefix of that length share a zone as far as they have the same order.
	Bits4, Bits6 int
	// Most is the bound of the number of zones.
	Most int
}

// Zones returns the zones, sorted by prefix, and how many clients have none because of the bound. A client's zone is the longest prefix with its
// address: that of its neighbourhood, or its own if most of its neighbours have another order.
func Zones(n Network) (zones []api.ControllerZone, left int) {
	orders := map[uint64][]string{} // by the client's switch
	near := map[netip.Prefix][]Client{}
	for _, c := range n.Clients {
		if orders[c.At] == nil {
			orders[c.At] = n.order(c.At)
		}
		p := n.neighbourhood(c.Address)
		near[p] = append(near[p], c)
	}
	var own []api.ControllerZone
	for prefix, clients := range near {
		usual := commonest(clients, orders)
		zones = append(zones, api.ControllerZone{Prefix: prefix, Surrogates: usual})
		for _, c := range clients {
			if !slices.Equal(orders[c.At], usual) {
				own = append(own, api.ControllerZone{Prefix: netip.PrefixFrom(c.Address, c.Address.BitLen()), Surrogates: orders[c.At]})
			}
		}
	}
	slices.SortFunc(zones, byPrefix)
	slices.SortFunc(own, byPrefix)
	zones = append(zones, slices.CompactFunc(own, func(a, b api.ControllerZone) bool { return a.Prefix == b.Prefix })...)
	if left = max(0, len(zones)-n.Most); left > 0 { // neighbourhoods come first: they say most
		zones = zones[:n.Most]
	}
	slices.SortFunc(zones, byPrefix)
	return zones, left
}

func byPrefix(a, b api.ControllerZone) int { return a.Prefix.Compare(b.Prefix) }

func (n *Network) neighbourhood(a netip.Addr) netip.Prefix {
	bits := n.Bits4
	if a.Is6() {
		bits = n.Bits6
	}
	p, err := a.Prefix(min(bits, a.BitLen()))
	if err != nil { // of an address with a zone
		return netip.PrefixFrom(a, a.BitLen())
	}
	return p
}

// order has all surrogates, the nearest to a switch first; of those at the same distance by name.
func (n *Network) order(from uint64) []string {
	const far = 1 << 30
	hops := map[string]int{}
	for _, s := range n.Surrogates {
		hops[s.Name] = far
		if d, ok := n.Hops(from, s.At); s.Known && ok {
			hops[s.Name] = d
		}
	}
	names := make([]string, 0, len(hops))
	for name := range hops {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(hops[a], hops[b]), strings.Compare(a, b)) })
	return names
}

// commonest is the order that most of the clients have; of several the first in the order of names.
func commonest(clients []Client, orders map[uint64][]string) []string {
	count := map[string]int{}
	var best []string
	var bestKey string
	for _, c := range clients {
		count[strings.Join(orders[c.At], " ")]++
	}
	for _, c := range clients {
		key := strings.Join(orders[c.At], " ")
		if best == nil || count[key] > count[bestKey] || count[key] == count[bestKey] && key < bestKey {
			best, bestKey = orders[c.At], key
		}
	}
	return best
}
