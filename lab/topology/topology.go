// Package topology is a lab's network written down in YAML: hosts, bridges, switches, links, addresses, routes and processes. Parse finds
// all mistakes and fills in everything left open (names, addresses, routes), without touching the machine; Build makes a lab of the result.
package topology

import (
	"maps"
	"net/netip"
	"slices"

	"baton/lab/emulator"
)

// Topology is a network, complete: what the file left open is worked out. Hosts, links, … are in the file's order.
type Topology struct {
	Name     string    `json:"name"`
	Hosts    []*Host   `json:"hosts"`
	Bridges  []Bridge  `json:"bridges,omitempty"`
	Switches []*Switch `json:"switches,omitempty"`
	Links    []*Link   `json:"links"`
	Anycast  []Anycast `json:"anycast,omitempty"`

	explicit bool // routing: explicit
}

// Host is a machine, or a router when it forwards.
type Host struct {
	Name      string                  `json:"name"`
	Forward   bool                    `json:"forward,omitempty"`
	Addresses []netip.Addr            `json:"addresses,omitempty"` // on its loopback, those of anycast too
	Routes    []Route                 `json:"routes,omitempty"`
	Sysctls   []Sysctl                `json:"sysctls,omitempty"`
	Names     map[string][]netip.Addr `json:"names,omitempty"` // in its hosts file, beside those of all hosts
	Resolv    Resolv                  `json:"resolv,omitzero"`
	Processes []Process               `json:"processes,omitempty"`

	ownRoutes bool // the file gives them, and no others are added
}

// Route leads to a prefix.
type Route struct {
	To  netip.Prefix `json:"to"`
	Via netip.Addr   `json:"via"`
}

// Sysctl is a network setting of a host.
type Sysctl struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Resolv is a host's resolv.conf.
type Resolv struct {
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	Search      []string     `json:"search,omitempty"`
}

// Process is what runs on a host as long as the lab does.
type Process struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"` // KEY=value
	Dir     string   `json:"dir,omitempty"`
	Listens int      `json:"listens,omitempty"` // TCP port that is open once it is ready; 0: it is ready at once
}

// Bridge is a Linux bridge in a namespace of its own.
type Bridge struct {
	Name string `json:"name"`
}

// Switch is an Open vSwitch bridge with a userspace datapath, in a namespace of its own.
type Switch struct {
	Name       string `json:"name"`
	Controller string `json:"controller,omitempty"` // "tcp:10.0.0.1:6653"; empty: none
	OpenFlow   string `json:"openflow,omitempty"`   // empty: "1.3"
	FailMode   string `json:"fail_mode,omitempty"`  // "standalone" or "secure"; empty: standalone
}

// Link is a cable.
type Link struct {
	Name       string         `json:"name"`
	A          End            `json:"a"`
	B          End            `json:"b"`
	MTU        int            `json:"mtu,omitempty"` // bytes; 0: 1500
	NoOffloads bool           `json:"no_offloads,omitempty"`
	Emulated   bool           `json:"emulated,omitempty"`
	AToB       emulator.Shape `json:"a_to_b,omitzero"`
	BToA       emulator.Shape `json:"b_to_a,omitzero"`
}

// End is one end of a link: an interface of a host, or a port of a bridge or switch. An end of a switch with addresses is no port of it;
// such a link leads to its controller.
type End struct {
	Host      string         `json:"host"`
	Interface string         `json:"interface"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`

	addressed bool // the file gives addresses, if only none
}

// Anycast is an address that several hosts have.
type Anycast struct {
	Address netip.Addr `json:"address"`
	Hosts   []string   `json:"hosts"`
}

// Host finds a host, or nil.
func (t *Topology) Host(name string) *Host {
	for _, h := range t.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Link finds a link, or nil.
func (t *Topology) Link(name string) *Link {
	for _, k := range t.Links {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// At lists the link ends on a host, bridge or switch.
func (t *Topology) At(name string) []*End {
	var ends []*End
	for _, k := range t.Links {
		for _, e := range []*End{&k.A, &k.B} {
			if e.Host == name {
				ends = append(ends, e)
			}
		}
	}
	return ends
}

// HostsFile is what a host knows by name: all hosts of the lab, and what its own names say, which win.
func (t *Topology) HostsFile(h *Host) map[string][]netip.Addr {
	names := make(map[string][]netip.Addr)
	for _, other := range t.Hosts {
		if known := t.known(other); len(known) > 0 {
			names[other.Name] = known
		}
	}
	maps.Copy(names, h.Names)
	return names
}

// known are the addresses that others know a host by, one of each family: the first on its loopback that is its own, else
// the first on its links.
func (t *Topology) known(h *Host) []netip.Addr {
	own := slices.DeleteFunc(slices.Clone(h.Addresses), func(a netip.Addr) bool {
		return slices.ContainsFunc(t.Anycast, func(c Anycast) bool { return c.Address == a })
	})
	for _, e := range t.At(h.Name) {
		for _, p := range e.Addresses {
			own = append(own, p.Addr())
		}
	}
	var known []netip.Addr
	for _, is4 := range []bool{true, false} {
		if i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() == is4 }); i >= 0 {
			known = append(known, own[i])
		}
	}
	return known
}
