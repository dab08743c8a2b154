// Package links follows the host's links: their interfaces, addresses, gateways and resolvers, as the kernel and the host's network
// services report them.
//
// A link is an interface with a link layer, an address, and a gateway whose MAC the kernel resolves. Links without a link layer (ppp,
// WireGuard and other tunnels, modems with raw IP) or without a gateway are followed but reported as not usable: the switch has no MAC to
// send to.
package links

import (
	"net/netip"
	"slices"
)

// MAC is a hardware address; zero if unknown.
type MAC [6]byte

// Link is the state of an uplink.
type Link struct {
	Name      string // in the configuration
	Interface string
	Index     int // of the interface; 0: none
	MAC       MAC
	MTU       int  // bytes
	Carrier   bool // up, and connected
	V4, V6    Family
	Resolvers []netip.Addr // resolvers that are queried over this link
}

// Family is one IP version of a link.
type Family struct {
	Address    netip.Addr   // source of packets; not valid: none
	Prefix     netip.Prefix // of its network
	Gateway    netip.Addr   // not valid: none
	GatewayMAC MAC          // zero: not resolved
}

// Complete reports whether packets can leave: there is an address and a gateway with a known MAC.
func (f Family) Complete() bool {
	return f.Address.IsValid() && f.Gateway.IsValid() && f.GatewayMAC != MAC{}
}

// Usable reports whether packets of either IP version can leave.
func (l Link) Usable() bool {
	return l.Index != 0 && l.Carrier && (l.V4.Complete() || l.V6.Complete())
}

// Equal compares all fields.
func (l Link) Equal(o Link) bool {
	return l.Name == o.Name && l.Interface == o.Interface && l.Index == o.Index && l.MAC == o.MAC && l.MTU == o.MTU &&
		l.Carrier == o.Carrier && l.V4 == o.V4 && l.V6 == o.V6 && slices.Equal(l.Resolvers, o.Resolvers)
}

// Why returns the reason that packets cannot leave, in the words of the status; "" if they can.
func (l Link) Why() string {
	switch {
	case l.Index == 0:
		return "no interface"
	case !l.Carrier:
		return "no carrier"
	case !l.V4.Address.IsValid() && !l.V6.Address.IsValid():
		return "no address"
	case !l.Usable():
		return "no gateway"
	}
	return ""
}
