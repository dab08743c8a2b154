package vips

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Addresses are the VIPs that the router has added to this host, so that neighbours find them and sockets can bind to them. They
// are on the tap and vanish with it; an address that the host already has is left alone. VIPs that differ only in their port
// share one.
type Addresses struct {
	Tap int // its ifindex

	mu   sync.Mutex
	held map[netip.Addr]*heldAddress
}

type heldAddress struct {
	on    *netlink.Addr
	users int
}

// Add assigns a VIP's address to the tap unless the host has it.
func (a *Addresses) Add(vip netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.held[vip]; h != nil {
		h.users++
		return nil
	}
	routes, err := netlink.RouteGet(vip.AsSlice())
	if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
		return nil
	}
	dev, err := netlink.LinkByIndex(a.Tap)
	if err != nil {
		return fmt.Errorf("add the VIP's address %v: %w", vip, err)
	}
	on := &netlink.Addr{
		IPNet: &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(vip.BitLen(), vip.BitLen())},
		Flags: unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE,
	}
	if err := netlink.AddrAdd(dev, on); err != nil {
		return fmt.Errorf("add the VIP's address %v: %w", vip, err)
	}
	if a.held == nil {
		a.held = make(map[netip.Addr]*heldAddress)
	}
	a.held[vip] = &heldAddress{on: on, users: 1}
	return nil
}

// Remove removes the address with the last VIP that needs it.
func (a *Addresses) Remove(vip netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.held[vip]
	if h == nil {
		return nil
	}
	if h.users--; h.users > 0 {
		return nil
	}
	delete(a.held, vip)
	dev, err := netlink.LinkByIndex(a.Tap)
	var gone netlink.LinkNotFoundError
	if errors.As(err, &gone) {
		return nil
	}
	if err == nil {
		err = netlink.AddrDel(dev, h.on)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EADDRNOTAVAIL) { // the tap is gone
		return fmt.Errorf("remove the VIP's address %v: %w", vip, err)
	}
	return nil
}
