package config

import (
	"net/netip"
	"slices"

	"baton/document"
)

// maxPorts bounds the ranges of one list.
const maxPorts = 16

func (d *decoder) allow(path string, n *node) Allow {
	var a Allow
	d.Fields(path, n, []key{
		{Name: "prefix", Help: "addresses of servers", Decode: func(path string, n *node) { a.Prefix = d.Prefix(path, n) }},
		{Name: "ports", Help: "numbers and ranges, at most 16 (default: all)", Decode: func(path string, n *node) { a.Ports = d.PortsList(path, n, maxPorts) }},
	})
	d.Require(path, n, "prefix")
	return a
}

// local are the addresses of this host and its links. Services there often trust anyone who can reach them, such as the metadata server of
// a cloud (169.254.169.254). Linux treats 0.0.0.0 and :: as the host itself.
var local = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("::/128"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::/10"),
}

// Allowed reports whether a flow may go to a server from here. An address of this host or its links needs a prefix within that range, such
// as 127.0.0.0/8; one that merely contains it, such as 0.0.0.0/0, is not enough. IPv4-mapped addresses count as IPv4. It takes about 4 ns
// per entry of Allow and allocates nothing.
func (c *Config) Allowed(server netip.AddrPort) bool {
	address, port := server.Addr().Unmap(), server.Port()
	if port == 0 {
		return false
	}
	bits := 0 // minimum prefix length
	if i := slices.IndexFunc(local, func(p netip.Prefix) bool { return p.Contains(address) }); i >= 0 {
		bits = local[i].Bits()
	}
	for i := range c.Allow {
		a := &c.Allow[i]
		if a.Prefix.Contains(address) && a.Prefix.Bits() >= bits && (len(a.Ports) == 0 || holdPort(a.Ports, port)) {
			return true
		}
	}
	return false
}

func holdPort(ports []document.Ports, port uint16) bool {
	return slices.ContainsFunc(ports, func(p document.Ports) bool { return p.First <= port && port <= p.Last })
}
