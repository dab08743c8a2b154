package links

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ReadHost reads the input of Check, in the calling thread's network namespace.
func ReadHost(list []Link) (Host, error) {
	host := Host{Links: list}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Host{}, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	var all []netlink.Link
	err = whole(func() (err error) {
		all, err = h.LinkList()
		return err
	})
	if err != nil {
		return Host{}, fmt.Errorf("read interfaces: %w", err)
	}
	names := make(map[int]string)
	for _, link := range all {
		a := link.Attrs()
		names[a.Index] = a.Name
		if a.RawFlags&unix.IFF_LOOPBACK == 0 {
			host.Interfaces = append(host.Interfaces, a.Name)
		}
	}
	var addresses []netlink.Addr
	err = whole(func() (err error) {
		addresses, err = h.AddrList(nil, netlink.FAMILY_ALL)
		return err
	})
	if err != nil {
		return Host{}, fmt.Errorf("read addresses: %w", err)
	}
	for _, a := range addresses {
		if p, ok := prefixOf(a.IPNet); ok && !p.Addr().IsLoopback() {
			host.Networks = append(host.Networks, Network{names[a.LinkIndex], p})
		}
	}
	return host, nil
}
