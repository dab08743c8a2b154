package legs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Netlink asks the host's routing tables.
type Netlink struct{}

// To finds the route that is taken now.
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
	paths, err := pathsTo(surrogate, r.LinkIndex)
	return Route{Source: source.Unmap(), Ifindex: r.LinkIndex, Paths: paths}, err
}

// pathsTo lists the interfaces that the route to a surrogate leads over: the one that is taken now, and where the route has several
// next hops the others.
func pathsTo(surrogate netip.Addr, now int) ([]int, error) {
	routes, err := netlink.RouteGetWithOptions(surrogate.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil {
		return nil, fmt.Errorf("find the paths to %v: %w", surrogate, err)
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

// changes sends whenever a route has changed, until ctx is done. When it closes, changes go unnoticed.
func changes(ctx context.Context) (<-chan netlink.RouteUpdate, error) {
	c := make(chan netlink.RouteUpdate, 64)
	if err := netlink.RouteSubscribe(c, ctx.Done()); err != nil {
		return nil, fmt.Errorf("watch the routes: %w", err)
	}
	return c, nil
}
