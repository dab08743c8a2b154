package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CongestionControl has every TCP connection of the host that takes one of the routes that it has by now use an algorithm
// ("cubic"), whatever the machine's default is. The sysctl of a network namespace refuses those that not every user may
// choose; an attribute of a route does not. Programs that choose for themselves are not overruled.
func (h *Host) CongestionControl(name string) {
	h.lab.t.Helper()
	if err := h.congestionControl(name); err != nil {
		h.lab.t.Fatalf("lab: host %s: congestion control %s: %v", h.name, name, err)
	}
}

func (h *Host) congestionControl(name string) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := h.nl.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if r.Dst != nil && r.Dst.IP.IsLinkLocalUnicast() || r.Congctl == name {
				continue
			}
			r.Congctl = name
			r.Flags &^= unix.RTNH_F_DEAD | unix.RTNH_F_LINKDOWN // what a link is that has just been made: known to the kernel, not to be said
			if err := h.nl.RouteReplace(&r); err != nil {
				return fmt.Errorf("route %v: %w", r.Dst, err)
			}
		}
	}
	return nil
}
