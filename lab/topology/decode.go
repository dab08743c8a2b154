package topology

import (
	"fmt"
	"net/netip"
	"regexp"

	"baton/document"
)

// decoder turns the tree into a Topology.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// Host names are limited by what fits into the name of a namespace and reads well in a prompt.
var (
	hostName      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	linkName      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,79}$`)
	interfaceName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,14}$`)
	processName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)
	dnsName       = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)
)

const (
	hostNameForm      = "a letter, then letters, digits and -, all lower case, 32 at most"
	interfaceNameForm = "a letter, then letters, digits and . _ -, 15 at most"
	processNameForm   = "letters, digits and . _ -, 32 at most"
)

// address decodes an address that a host can have.
func (d *decoder) address(path string, n *node) netip.Addr {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.Addr{}
	}
	return d.parseAddress(n.Place, path, s)
}

func (d *decoder) parseAddress(at document.Place, path, s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil {
		d.WrongAt(at, path, fmt.Sprintf("%q is not an IP address", document.Clip(s)), `such as 10.1.0.2 or "fd01::2"`)
		return netip.Addr{}
	}
	if why := unusable(a); why != "" {
		d.WrongAt(at, path, fmt.Sprintf("%q is %s", document.Clip(s), why), "the address of one host")
		return netip.Addr{}
	}
	return a
}

// unusable says why no host can be given an address, or "".
func unusable(a netip.Addr) string {
	switch {
	case a.Is4In6():
		return "an IPv4 address written as IPv6"
	case a.Zone() != "":
		return "an address with a zone"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return "no address of a host"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast(), a.Is4() && a.As4()[0] >= 240:
		return "not a unicast address"
	case a.Is6() && a.IsLinkLocalUnicast():
		return "a link-local address, which the kernel gives"
	}
	return ""
}

// interfaceAddress decodes an address with the length of its link's prefix.
func (d *decoder) interfaceAddress(path string, n *node) netip.Prefix {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		d.Wrong(n, path, fmt.Sprintf("%q is not an address with the length of its prefix", document.Clip(s)), `such as 10.1.0.2/24 or "fd01::2/64"`)
		return netip.Prefix{}
	}
	if why := unusable(p.Addr()); why != "" {
		d.Wrong(n, path, fmt.Sprintf("%q is %s", document.Clip(s), why), "the address of one host")
	}
	if p.Addr().Is4() && p.Bits() < 31 && (p.Addr() == p.Masked().Addr() || p.Addr() == last(p)) {
		d.Wrong(n, path, fmt.Sprintf("%q is the network or the broadcast address of its prefix", document.Clip(s)), "an address between them")
	}
	if p.Bits() == 0 {
		d.Wrong(n, path, fmt.Sprintf("%q takes every address for its link", document.Clip(s)), "a longer prefix")
	}
	return p
}

// last is the highest IPv4 address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
