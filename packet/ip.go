package packet

// Family is the version number of the internet protocol: 0 stands for neither.
type Family uint8

// The two families.
const (
	FamilyIPv4 Family = 4
	FamilyIPv6 Family = 6
)

// Protocol is an IPv4 protocol or IPv6 next-header number.
type Protocol uint8

// The protocols that [Parse] looks into.
const (
	ProtocolICMP   Protocol = 1
	ProtocolTCP    Protocol = 6
	ProtocolUDP    Protocol = 17
	ProtocolICMPv6 Protocol = 58
)

const (
	protocolHopByHop    Protocol = 0
	protocolRouting     Protocol = 43
	protocolFragment    Protocol = 44
	protocolAH          Protocol = 51
	protocolDestination Protocol = 60
	protocolMobility    Protocol = 135
	protocolHIP         Protocol = 139
	protocolShim6       Protocol = 140
)

// isExtension reports whether an IPv6 next-header number is that of an extension header with more behind it
// (the IANA registry "IPv6 Extension Header Types", less ESP, behind which nothing can be read).
func (p Protocol) isExtension() bool {
	switch p {
	case protocolHopByHop, protocolRouting, protocolFragment, protocolAH, protocolDestination, protocolMobility,
		protocolHIP, protocolShim6:
		return true
	}
	return false
}
