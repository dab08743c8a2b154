package tables

import (
	"net/netip"

	"baton/balance/links"
)

// GatewayMAC is the MAC of the gateway of a class of applications: locally administered, "Bt" and the class.
func GatewayMAC(class int) links.MAC {
	return links.MAC{0x02, 0x42, 0x74, 0x00, byte(class >> 8), byte(class)}
}

// Gateways returns the addresses of the gateways of as many classes, class 0 first: of the host's network, from its first address on,
// without the host's own, and without IPv4's broadcast. There are fewer if the network has not as many.
func Gateways(host netip.Prefix, classes int) []netip.Addr {
	var list []netip.Addr
	network := host.Masked()
	for a := network.Addr().Next(); len(list) < classes && network.Contains(a); a = a.Next() {
		if a != host.Addr() && (a.Is6() || network.Contains(a.Next())) {
			list = append(list, a)
		}
	}
	return list
}
