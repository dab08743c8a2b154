package router

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"baton/document"
	"baton/router/config"
	"baton/router/legs"
	"baton/router/state"
)

// WarnHost warns of what works on this host, but hardly as it is meant, a line each.
func WarnHost(cfg *config.Config) []string {
	var out []string
	for _, w := range warnStrangeRoutes(cfg, defaultRoutes, deviceTo) {
		out = append(out, w.Error())
	}
	return out
}

// defaultDevice is an interface by which a default route leaves.
type defaultDevice struct {
	name  string
	ports []string // of a bridge, a bond and the like: interfaces whose packets are this one's, too
}

// warnStrangeRoutes warns of VIPs whose clients may come in where nothing is spliced: the default route leaves by an
// interface to which the data path is not attached. Most clients arrive on the interface by which the packets to them
// leave.
func warnStrangeRoutes(
	cfg *config.Config, routes func(family int) []defaultDevice, to func(netip.Addr) string,
) (warnings []*config.Error) {
	attached := attachedDevices(cfg, to)
	isAttached := func(name string) bool { return attached[name] }
	for i := range cfg.VIPs {
		v := &cfg.VIPs[i]
		if !state.HandsOff(v) || v.Address.Addr().IsLoopback() {
			continue
		}
		family := netlink.FAMILY_V6
		if v.Address.Addr().Is4() {
			family = netlink.FAMILY_V4
		}
		for _, d := range routes(family) {
			if isAttached(d.name) || slices.ContainsFunc(d.ports, isAttached) {
				continue
			}
			more := strings.Join(append(slices.Clone(v.Interfaces), d.name), ", ")
			warnings = append(warnings, cfg.Places.Wrong(document.Index("vips", i)+".interfaces",
				fmt.Sprintf("the default route leaves by %s, which is not one of them: "+
					"connections that come in there are proxied, not spliced", d.name),
				fmt.Sprintf("interfaces: [%s], if clients come in there", more)))
		}
	}
	return warnings
}

// attachedDevices are the interfaces that the data path will be attached to: those of VIPs, and those on the routes to
// surrogates. It sees the clients of each VIP on each of them.
func attachedDevices(cfg *config.Config, to func(netip.Addr) string) map[string]bool {
	attached := make(map[string]bool)
	for i := range cfg.VIPs {
		if v := &cfg.VIPs[i]; state.HandsOff(v) {
			for _, name := range v.Interfaces {
				attached[name] = true
			}
		}
	}
	for i := range cfg.Pools {
		for j := range cfg.Pools[i].Surrogates {
			attached[to(cfg.Pools[i].Surrogates[j].Address.Addr())] = true
		}
	}
	return attached
}

// deviceTo is the interface on the route to an address; "" if there is none.
func deviceTo(address netip.Addr) string {
	route, err := legs.Netlink{}.To(address)
	if err != nil || route.Local {
		return ""
	}
	dev, err := net.InterfaceByIndex(route.Ifindex)
	if err != nil {
		return ""
	}
	return dev.Name
}

// defaultRoutes are the interfaces of the default routes with the least metric; none if they cannot be read.
func defaultRoutes(family int) (out []defaultDevice) {
	routes, err := netlink.RouteList(nil, family)
	if err != nil {
		return nil
	}
	routes = slices.DeleteFunc(routes, func(r netlink.Route) bool { return !isDefault(&r) })
	if len(routes) == 0 {
		return nil
	}
	least := slices.MinFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority }).Priority
	var indexes []int
	for _, r := range routes {
		if r.Priority != least {
			continue
		}
		indexes = append(indexes, r.LinkIndex)
		for _, hop := range r.MultiPath {
			indexes = append(indexes, hop.LinkIndex)
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil
	}
	for _, l := range links {
		if !slices.Contains(indexes, l.Attrs().Index) {
			continue
		}
		d := defaultDevice{name: l.Attrs().Name}
		for _, port := range links {
			if port.Attrs().MasterIndex == l.Attrs().Index {
				d.ports = append(d.ports, port.Attrs().Name)
			}
		}
		out = append(out, d)
	}
	return out
}

func isDefault(r *netlink.Route) bool {
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}
