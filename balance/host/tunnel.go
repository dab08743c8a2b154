package host

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// mainDefault is a default route of the main table.
type mainDefault struct {
	Route
	Metric int
	Tunnel bool // through a tunnel
}

// throughTunnels returns routes that take precedence over the balance: for each IP version, the default route of a VPN if main prefers it,
// in a table of its own.
func throughTunnels(p Plan, all []mainDefault) []Item {
	var items []Item
	for _, v6 := range []bool{false, true} {
		var best *mainDefault
		for i, d := range all {
			if d.IPv6 == v6 && (best == nil || d.Metric < best.Metric) {
				best = &all[i]
			}
		}
		if best == nil || !best.Tunnel || slices.Contains(p.Links, best.Device) || v6 && !p.IPv6 {
			continue
		}
		r := best.Route
		r.Table = p.TunnelTable
		items = append(items, r)
	}
	return items
}

// mainDefaults reads the default routes of the main table, without multipath ones.
func (k *stack) mainDefaults() ([]mainDefault, error) {
	var all []mainDefault
	for _, f := range []int{unix.AF_INET, unix.AF_INET6} {
		var routes []netlink.Route
		err := k.nl.RouteListFilteredIter(f, &netlink.Route{Table: mainTable}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if r.LinkIndex != 0 && isDefault(r) {
				routes = append(routes, r)
			}
			return true
		})
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return nil, fmt.Errorf("look for default routes: %w", err)
		}
		for _, r := range routes {
			l, err := k.nl.LinkByIndex(r.LinkIndex)
			if err != nil {
				continue // it has gone since
			}
			d := mainDefault{Metric: r.Priority, Tunnel: isTunnel(l), Route: Route{IPv6: f == unix.AF_INET6, Device: l.Attrs().Name}}
			if a, ok := netip.AddrFromSlice(r.Gw); ok {
				d.Gateway = a.Unmap()
			}
			if a, ok := netip.AddrFromSlice(r.Src); ok {
				d.Source = a.Unmap()
			}
			all = append(all, d)
		}
	}
	return all, nil
}

func isDefault(r netlink.Route) bool {
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0 && r.Dst.IP.IsUnspecified()
}

// isTunnel reports whether the interface carries no Ethernet, or a process is at its other end.
func isTunnel(l netlink.Link) bool {
	return l.Attrs().EncapType != "ether" || l.Type() == "tuntap" || l.Type() == "tun"
}

// tunnels applies the routes for the tunnels' defaults.
func (h *Host) tunnels(p Plan) error {
	if p.TunnelTable == 0 {
		return nil // not prepared yet
	}
	all, err := h.kernel.mainDefaults()
	if err != nil {
		return err
	}
	var have []Item
	for _, i := range h.journal.items {
		if r, is := i.(Route); is && r.Table == p.TunnelTable {
			have = append(have, i)
		}
	}
	return h.follow(difference(have, throughTunnels(p, all)))
}

// watch follows the default routes of main until done is closed.
func (h *Host) watch(updates chan netlink.RouteUpdate, done <-chan struct{}) {
	defer close(h.watched)
	for {
		select {
		case u, open := <-updates:
			if !open { // the buffer overflowed
				updates = h.subscribeAgain(done)
				if updates == nil {
					return
				}
			} else if u.Table != mainTable || !isDefault(u.Route) {
				continue
			}
			h.mu.Lock()
			h.watchErr = h.tunnels(h.plan)
			h.mu.Unlock()
		case <-done:
			for range updates { // until its reader has ended
			}
			return
		}
	}
}

func (h *Host) unwatch() {
	close(h.done)
	<-h.watched
}

// subscribeAgain returns nil if done, or on an error.
func (h *Host) subscribeAgain(done <-chan struct{}) chan netlink.RouteUpdate {
	select {
	case <-done:
		return nil
	default:
	}
	updates, err := subscribe(done)
	if err != nil {
		h.mu.Lock()
		h.watchErr = err
		h.mu.Unlock()
		return nil
	}
	return updates
}

func subscribe(done <-chan struct{}) (chan netlink.RouteUpdate, error) {
	updates := make(chan netlink.RouteUpdate)
	if err := netlink.RouteSubscribe(updates, done); err != nil {
		return nil, fmt.Errorf("follow the default routes: %w", err)
	}
	return updates, nil
}
