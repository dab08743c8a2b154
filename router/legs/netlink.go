package legs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Netlink looks up routes in the host's routing tables.
type Netlink struct{}

// To looks up the current route.
func (Netlink) To(surrogate netip.Addr) (Route, error) {
	routes, err := netlink.RouteGet(surrogate.AsSlice())
	if err != nil {
		return Route{}, fmt.Errorf("find the route to %v: %w", surrogate, err)
	}
	if len(routes) == 0 {
		return Route{}, fmt.Errorf("find the route to %v: none", surrogate)
	}
	r := routes[0]
	source, ok := netip.AddrFromSlice(r.Src)
	if !ok {
		return Route{}, fmt.Errorf("find the route to %v: no source address", surrogate)
	}
	if r.Type == unix.RTN_LOCAL {
		return Route{Local: true}, nil
	}
	paths, err := listPathsTo(surrogate, r.LinkIndex)
	return Route{Source: source.Unmap(), Ifindex: r.LinkIndex, Paths: paths}, err
}

// listPathsTo lists the interfaces of a surrogate's route: the current one and, for a multipath route, the others.
func listPathsTo(surrogate netip.Addr, now int) ([]int, error) {
	routes, err := netlink.RouteGetWithOptions(surrogate.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil {
		return nil, fmt.Errorf("find the interfaces to %v: %w", surrogate, err)
	}
	paths := []int{now}
	for _, r := range routes {
		for _, hop := range r.MultiPath {
			paths = append(paths, hop.LinkIndex)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// subscribeRoutes sends at each change of a route until ctx is done. Once it is closed, changes go unnoticed.
func subscribeRoutes(ctx context.Context) (<-chan netlink.RouteUpdate, error) {
	c := make(chan netlink.RouteUpdate, 64)
	if err := netlink.RouteSubscribe(c, ctx.Done()); err != nil {
		return nil, fmt.Errorf("watch the routes: %w", err)
	}
	return c, nil
}
