package tables

import "baton/balance/links"

// GatewayMAC is the MAC of the gateway of a class of applications: locally administered, "Bt" and the class.
func GatewayMAC(class int) links.MAC {
	return links.MAC{0x02, 0x42, 0x74, 0x00, byte(class >> 8), byte(class)}
}
