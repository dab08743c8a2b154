package host

import (
	"net/netip"

	"baton/balance/config"
	"baton/balance/links"
)

// State is everything that a plan depends on.
type State struct {
	Name     string // of the balance
	Internal config.Internal
	Datapath config.Datapath
	Links    []links.Link // by place, as for the switch's ports; an empty place has no interface
	Classes  []Class      // of applications; the first is for all others, and only has a gateway

	// Controller is the address of the controller for Open vSwitch's bridge: "tcp:…", or "unix:…" in its own folder. "": we connect to the
	// bridge.
	Controller string

	// KeepIPv6 keeps an internal IPv6 address although no link has one: connections wait for a link to come back.
	KeepIPv6 bool
}

// Class is a set of applications with rules of their own.
type Class struct {
	IPv4, IPv6 netip.Addr // of the gateway; not valid: none
	MAC        links.MAC  // of the gateway
	Users      *Users
	Group      string // control group, a path below the root of version 2
}

// Users is a range of user ids.
type Users struct{ First, Last uint32 }

// The MACs of the device's two ends, set at creation so that udev does not change them. They never appear on a wire.
var (
	HostMAC = links.MAC{0x02, 0x42, 0x74, 0x01, 0x00, 0x00}
	peerMAC = links.MAC{0x02, 0x42, 0x74, 0x01, 0x00, 0x01}
)

// Peer returns the name of the internal interface's other end, for a switch that does not use the host's end.
func Peer(internal string) string { return internal + "p" }

// BridgeName returns the name of Open vSwitch's bridge.
func BridgeName(internal string) string { return internal + "br" }

// Plan is the desired state. It is pure data; the items are made in order, and undone in reverse order.
type Plan struct {
	Device string
	MTU    int // bytes
	IPv6   bool
	Items  []Item // have no effect without Divert
	Divert []Item // route new connections to the internal interface
	Groups []Group

	Links       []string // interfaces
	TunnelTable int      // for default routes of VPNs, which follow those of main
}

// Group is a control group whose new sockets get the mark of a class.
type Group struct {
	Path string
	Mark uint32
}

// MTUs in bytes.
const (
	ethernetMTU = 1500
	leastIPv6   = 1280 // RFC 8200, section 5: below it an interface has no IPv6
)

// Make computes the plan.
func Make(s State) Plan {
	v6 := s.KeepIPv6
	for _, l := range s.Links {
		v6 = v6 || l.V6.Address.IsValid()
	}
	p := Plan{Device: s.Internal.Interface, IPv6: v6, MTU: mtu(s.Links, v6), TunnelTable: s.Internal.Table + tunnelTable}
	for _, l := range s.Links {
		p.Links = append(p.Links, l.Interface)
	}
	p.Items = append(p.Items, Device{Name: p.Device, Peer: Peer(p.Device), MAC: HostMAC, PeerMAC: peerMAC, Owner: s.Name})
	families := []family{{v6: false, internal: s.Internal.IPv4}}
	if v6 {
		families = append(families, family{v6: true, internal: s.Internal.IPv6})
	}
	for i := range families {
		families[i].links, families[i].paths = s.Links, paths(s, families[i])
	}
	for _, f := range families {
		p.Items = append(p.Items, Address{Device: p.Device, Prefix: f.internal})
		for _, c := range s.Classes {
			if !f.gateway(c).IsValid() {
				continue
			}
			p.Items = append(p.Items, Neighbour{Device: p.Device, Address: f.gateway(c), MAC: c.MAC})
		}
	}
	if s.Datapath == config.OpenVSwitch {
		p.Items = append(p.Items, openVSwitch(s)...)
	}
	for _, f := range families {
		p.Items = append(p.Items, f.routes(s)...)
	}
	for _, f := range families {
		p.Items = append(p.Items, f.rules(s)...)
	}
	for _, f := range families {
		p.Divert = append(p.Divert, f.jump(s))
	}
	for k, c := range s.Classes {
		if c.Group != "" {
			p.Groups = append(p.Groups, Group{Path: c.Group, Mark: mark(k)})
		}
	}
	return p
}

// mtu returns the smallest MTU of the usable links, so that a packet fits on any of them.
func mtu(all []links.Link, v6 bool) int {
	least := 0
	for _, usable := range []bool{true, false} {
		for _, l := range all {
			if l.MTU > 0 && (l.Usable() || !usable) && (least == 0 || l.MTU < least) {
				least = l.MTU
			}
		}
		if least > 0 {
			break
		}
	}
	if least == 0 {
		least = ethernetMTU
	}
	if v6 {
		least = max(least, leastIPv6)
	}
	return least
}

// openVSwitch returns what its user-space datapath needs. It gets the links' packets in addition to the host's stack, not instead of it.
func openVSwitch(s State) []Item {
	var items []Item
	bridge := Bridge{Name: BridgeName(s.Internal.Interface), Owner: s.Name, Controller: s.Controller}
	hush := Hush{Table: "baton-balance-" + s.Name, Internal: s.Internal.Interface}
	bridge.Ports = append(bridge.Ports, Port{Interface: Peer(s.Internal.Interface), Number: internalPort})
	for i, l := range s.Links {
		if l.Interface == "" {
			continue
		}
		bridge.Ports = append(bridge.Ports, Port{Interface: l.Interface, Number: firstLink + i})
		hush.Links = append(hush.Links, l.Interface)
		if l.Index != 0 {
			items = append(items, Offload{Interface: l.Interface, Index: l.Index})
		}
	}
	return append(items, hush, bridge)
}

// The switch's ports, as in package tables.
const (
	internalPort = 1
	firstLink    = 2
)
