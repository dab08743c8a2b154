package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// part is a part of the kernel's state; parts can be combined.
type part uint

const (
	interfaces part = 1 << iota // with their addresses
	routes
	neighbours
	everything = interfaces | routes | neighbours
)

// read updates parts of k for the named interfaces.
func read(h *netlink.Handle, k *Kernel, names []string, what part) error {
	if what&interfaces != 0 {
		before := *k
		if err := readInterfaces(h, k, names); err != nil {
			return err
		}
		if !slices.Equal(before.Interfaces, k.Interfaces) || !slices.Equal(before.Addresses, k.Addresses) {
			what |= routes | neighbours
		}
	}
	if what&routes != 0 {
		if err := readRoutes(h, k); err != nil {
			return err
		}
	}
	if what&neighbours != 0 {
		return readNeighbours(h, k)
	}
	return nil
}

// whole repeats dump while the kernel reports an inconsistent result.
func whole(dump func() error) error {
	err := dump()
	for range 3 {
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return err
		}
		err = dump()
	}
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil // such frequent changes cause more notifications
	}
	return err
}

func readInterfaces(h *netlink.Handle, k *Kernel, names []string) error {
	k.Interfaces, k.Addresses = nil, nil
	for _, name := range names {
		link, err := h.LinkByName(name)
		var none netlink.LinkNotFoundError
		if errors.As(err, &none) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read interface %s: %w", name, err)
		}
		a := link.Attrs()
		n := Interface{Index: a.Index, Name: name, MAC: macOf(a.HardwareAddr), MTU: a.MTU, Live: live(link)}
		if a.EncapType != "ether" {
			n.MAC = MAC{}
		}
		k.Interfaces = append(k.Interfaces, n)
		var list []netlink.Addr
		err = whole(func() (err error) {
			list, err = h.AddrList(link, netlink.FAMILY_ALL)
			return err
		})
		if err != nil {
			return fmt.Errorf("read addresses of %s: %w", name, err)
		}
		for _, a := range list {
			if p, ok := prefixOf(a.IPNet); ok {
				k.Addresses = append(k.Addresses, Address{
					Index: n.Index, Prefix: p, Global: a.Scope < int(netlink.SCOPE_LINK),
					Tentative:  a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0,
					Deprecated: a.Flags&unix.IFA_F_DEPRECATED != 0,
					Temporary:  a.Flags&unix.IFA_F_TEMPORARY != 0,
				})
			}
		}
	}
	return nil
}

// live reports whether an interface is up, has a carrier, and is not waiting for authentication.
func live(link netlink.Link) bool {
	const flags = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	return link.Attrs().RawFlags&flags == flags
}

func readRoutes(h *netlink.Handle, k *Kernel) error {
	var list []Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		err := whole(func() error {
			list = slices.DeleteFunc(list, func(r Route) bool { return r.Gateway.Is6() == (family == netlink.FAMILY_V6) })
			// All tables: the filter's is unspecified.
			return h.RouteListFilteredIter(family, &netlink.Route{}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
				list = append(list, defaults(r)...)
				return true
			})
		})
		if err != nil {
			return fmt.Errorf("read routes: %w", err)
		}
	}
	k.Routes = list
	return nil
}

// defaults returns the next hops of a default route; none for other routes.
func defaults(r netlink.Route) []Route {
	if r.Dst != nil {
		if ones, _ := r.Dst.Mask.Size(); ones != 0 {
			return nil
		}
	}
	if r.Type != unix.RTN_UNICAST {
		return nil
	}
	source, _ := netip.AddrFromSlice(r.Src)
	var out []Route
	add := func(index int, gateway net.IP) {
		// The IPv6 gateway of an IPv4 route (RFC 8950) comes as Via, which is not supported.
		if a, ok := netip.AddrFromSlice(gateway); ok {
			out = append(out, Route{
				Index: index, Gateway: a.Unmap(), Source: source.Unmap(), Metric: r.Priority, Table: r.Table, Protocol: int(r.Protocol),
			})
		}
	}
	add(r.LinkIndex, r.Gw)
	for _, hop := range r.MultiPath {
		add(hop.LinkIndex, hop.Gw)
	}
	return out
}

func readNeighbours(h *netlink.Handle, k *Kernel) error {
	k.Neighbours = nil
	for _, n := range k.Interfaces {
		var list []netlink.Neigh
		err := whole(func() (err error) {
			list, err = h.NeighList(n.Index, netlink.FAMILY_ALL)
			return err
		})
		if err != nil {
			return fmt.Errorf("read neighbours on %s: %w", n.Name, err)
		}
		for _, e := range list {
			if a, ok := netip.AddrFromSlice(e.IP); ok {
				k.Neighbours = append(k.Neighbours, Neighbour{Index: n.Index, Address: a.Unmap(), MAC: macOf(e.HardwareAddr), State: reach(e.State)})
			}
		}
	}
	return nil
}

// reach converts a state of linux/neighbour.h.
func reach(state int) Reach {
	switch {
	case state&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0:
		return Fixed
	case state&(netlink.NUD_REACHABLE|netlink.NUD_STALE|netlink.NUD_DELAY|netlink.NUD_PROBE) != 0:
		return Known
	case state&netlink.NUD_FAILED != 0:
		return Failed
	}
	return Unresolved
}

func macOf(a net.HardwareAddr) (m MAC) {
	if len(a) == len(m) {
		copy(m[:], a)
	}
	return m
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if a = a.Unmap(); !ok || bits != a.BitLen() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, ones), true
}
