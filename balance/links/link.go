// Package links is what is known of the host's links: their interfaces, addresses, gateways and resolvers, as the kernel and the
// host's network services tell it, and as it changes.
//
// A link is an interface with a link layer, an address, and a gateway whose MAC the kernel finds out. What has no link layer (ppp,
// WireGuard and other tunnels, modems that carry bare IP) or no gateway is followed, and told of as not usable: the switch has no
// MAC to send to.
package links

import (
	"net/netip"
	"slices"
)

// MAC is a hardware address; zero when it is not known.
type MAC [6]byte

// Link is an uplink of the host at one moment.
type Link struct {
	Name      string // in the configuration
	Interface string
	Index     int // of the interface; 0: there is none
	MAC       MAC
	MTU       int  // bytes
	Carrier   bool // it is set up, and its other end is there
	V4, V6    Family
	Resolvers []netip.Addr // that are asked by this link
}

// Family is one IP version of a link.
type Family struct {
	Address    netip.Addr   // that packets leave with; not valid: none
	Prefix     netip.Prefix // of its network
	Gateway    netip.Addr   // not valid: none
	GatewayMAC MAC          // zero: not resolved
}

// Complete says whether packets can leave: there are an address and a gateway whose MAC is known.
func (f Family) Complete() bool {
	return f.Address.IsValid() && f.Gateway.IsValid() && f.GatewayMAC != MAC{}
}

// Usable says whether packets of either IP version can leave.
func (l Link) Usable() bool {
	return l.Index != 0 && l.Carrier && (l.V4.Complete() || l.V6.Complete())
}

// Equal says whether nothing differs.
func (l Link) Equal(o Link) bool {
	return l.Name == o.Name && l.Interface == o.Interface && l.Index == o.Index && l.MAC == o.MAC && l.MTU == o.MTU &&
		l.Carrier == o.Carrier && l.V4 == o.V4 && l.V6 == o.V6 && slices.Equal(l.Resolvers, o.Resolvers)
}

// Why says why packets cannot leave, in the words of the status; "" when they can.
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
