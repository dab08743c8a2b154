package tables

import "baton/balance/links"

// GatewayMAC returns the MAC of a class's gateway: locally administered, "Bt" and the class.
func GatewayMAC(class int) links.MAC {
	return links.MAC{0x02, 0x42, 0x74, 0x00, byte(class >> 8), byte(class)}
}
