package config

import (
	"fmt"
	"net/netip"
	"regexp"

	"baton/document"
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// linkForm allows any interface name, because that is the default.
var linkForm = regexp.MustCompile(`^[A-Za-z0-9_.@-]{1,63}$`)

// linkName decodes the name of a link or a rule.
func (d *decoder) linkName(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && !linkForm.MatchString(s) {
		d.WrongText(n, path, s, "is no name here", "at most 63 of A-Z, a-z, 0-9, _, ., @ and -")
	}
	return s
}

// device decodes the name of an interface to another network.
func (d *decoder) device(path string, n *node) string {
	s := d.Device(path, n)
	if d.Err() == nil && s == "lo" {
		d.WrongText(n, path, s, "is the host itself", "another interface, such as eth0")
	}
	return s
}

// ownDevice decodes the name of an interface to create; its other end has a p appended.
func (d *decoder) ownDevice(path string, n *node) string {
	s := d.device(path, n)
	if d.Err() == nil && len(s) > 14 {
		d.WrongText(n, path, s, "is too long", "at most 14 bytes, as its other end is "+s[:14]+"p or the like")
	}
	return s
}

// linkAddress decodes an address that is reachable over the link.
func (d *decoder) linkAddress(path string, n *node) netip.Addr {
	if a, err := netip.ParseAddr(n.Text); err == nil && a.Zone() != "" {
		d.WrongText(n, path, n.Text, "has a zone", a.WithZone("").String()+", without the interface")
	}
	return d.Address(path, n)
}

// internalPrefix decodes the host's internal address with the length of its network.
func (d *decoder) internalPrefix(path string, n *node, v6 bool) netip.Prefix {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	valid, least, most := "such as "+defaultInternal.IPv4.String(), 8, 30
	if v6 {
		valid, least, most = "such as "+defaultInternal.IPv6.String(), 32, 126
	}
	switch a := p.Addr(); {
	case err != nil:
		d.WrongText(n, path, s, "is not address/length", valid)
	case a.Is4() == v6 || a.Is4In6():
		d.WrongText(n, path, s, "is not the IP version of this key", valid)
	case a.IsLoopback(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast():
		d.WrongText(n, path, s, "is not usable as a source address", valid)
	case p.Bits() < least || p.Bits() > most:
		d.WrongText(n, path, s, "has a length out of range", fmt.Sprintf("from %d to %d", least, most))
	case a == p.Masked().Addr(), !v6 && a == lastAddress(p):
		d.WrongText(n, path, s, "is the network or broadcast address", valid)
	}
	return p
}
