package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"baton/balance/links"
)

// protocol marks our routes and rules, as the numbers in rt_protos do for routing daemons.
const protocol = 66

// stack makes and undoes items. Both can be repeated.
type stack struct {
	nl      *netlink.Handle
	bridges map[string]Bridge // as this process made them
}

func openStack() (*stack, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &stack{nl: nl, bridges: map[string]Bridge{}}, nil
}

func (k *stack) close() { k.nl.Close() }

// make makes an item in place of the one with its identity. With keep it only restores one that has gone, so that an existing one causes no
// notifications.
func (k *stack) make(item Item, keep bool) error {
	switch i := item.(type) {
	case Device:
		return k.makeDevice(i)
	case Address:
		return k.makeAddress(i, keep)
	case Neighbour:
		return k.makeNeighbour(i, keep)
	case Route:
		return k.makeRoute(i, keep)
	case Rule:
		return there(k.nl.RuleAdd(ruleOf(i)))
	case Offload:
		return k.setOffloads(i, false)
	case Hush:
		return makeHush(i, keep)
	case Bridge:
		return k.makeBridge(i)
	}
	return fmt.Errorf("%T is not made", item)
}

// undo reports whether the item existed.
func (k *stack) undo(item Item) (bool, error) {
	var err error
	switch i := item.(type) {
	case Device:
		return k.undoDevice(i)
	case Address:
		return k.undoAddress(i)
	case Neighbour:
		var n *netlink.Neigh
		if n, err = k.neighbour(i); err == nil {
			err = k.nl.NeighDel(n)
		}
	case Route:
		var r *netlink.Route
		if r, err = k.route(i); err == nil {
			err = k.nl.RouteDel(r)
		}
	case Rule:
		err = k.nl.RuleDel(ruleOf(i))
	case Offload:
		err = k.setOffloads(i, true)
	case Hush:
		return undoHush(i)
	case Bridge:
		return k.undoBridge(i)
	default:
		err = fmt.Errorf("%T is not undone", item)
	}
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

// there ignores the error that an item exists already.
func there(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// gone reports whether an error means that there is nothing to undo, or nothing to make it on.
func gone(err error) bool {
	var link netlink.LinkNotFoundError
	return errors.As(err, &link) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) ||
		errors.Is(err, unix.EADDRNOTAVAIL)
}

// free refuses to replace what belongs to somebody else.
func (k *stack) free(item Item) error {
	switch i := item.(type) {
	case Device:
		there, err := k.nl.LinkByName(i.Name)
		if gone(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for the interface %s: %w", i.Name, err)
		}
		if there.Attrs().Alias != i.alias() {
			return fmt.Errorf("the interface %s exists and is not ours (choose another internal.interface)", i.Name)
		}
	case Address:
		return k.freeAddress(i)
	case Bridge:
		return k.freeBridge(i)
	}
	return nil
}

// freeAddress refuses an address of another interface: 192.0.0.2 may be in use for DS-Lite (RFC 6333).
func (k *stack) freeAddress(a Address) error {
	f := unix.AF_INET
	if a.Prefix.Addr().Is6() {
		f = unix.AF_INET6
	}
	all, err := k.nl.AddrList(nil, f)
	if err != nil {
		return fmt.Errorf("look for the address %s: %w", a.Prefix.Addr(), err)
	}
	for _, other := range all {
		if !other.IP.Equal(a.Prefix.Addr().AsSlice()) {
			continue
		}
		l, err := k.nl.LinkByIndex(other.LinkIndex)
		if err == nil && l.Attrs().Name != a.Device {
			return fmt.Errorf("%s is an address of %s (choose another internal.ipv4 or internal.ipv6)", a.Prefix.Addr(), l.Attrs().Name)
		}
	}
	return nil
}

// ours reports whether the device exists and belongs to this balance.
func (k *stack) ours(d Device) (bool, error) {
	there, err := k.nl.LinkByName(d.Name)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the interface %s: %w", d.Name, err)
	}
	return there.Attrs().Alias == d.alias(), nil
}

// unused refuses tables that contain routes, and priorities that have rules.
func (k *stack) unused(plan []Item) error {
	tables, priorities := map[int]bool{}, map[int]bool{}
	least, most := 0, 0
	for _, item := range plan {
		switch i := item.(type) {
		case Route:
			tables[i.Table] = true
		case Rule:
			priorities[i.Priority] = true
			if i.Goto != 0 && i.Incoming == loopback {
				least, most = i.Goto, i.Goto+lastPlace
			}
		}
	}
	for _, f := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := k.nl.RuleList(f)
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("look for others' rules: %w", err)
		}
		for _, r := range rules {
			if r.Priority >= least && r.Priority <= most {
				return fmt.Errorf("a rule with priority %d exists and is not ours (internal.priority needs %d to %d)", r.Priority, least, most)
			}
		}
		taken := 0
		all := netlink.Route{} // of all tables
		err = k.nl.RouteListFilteredIter(f, &all, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if tables[r.Table] {
				taken = r.Table
			}
			return taken == 0
		})
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("look for others' routes: %w", err)
		}
		if taken != 0 {
			return fmt.Errorf("table %d has routes that are not ours (choose another internal.table)", taken)
		}
	}
	return nil
}

// rules counts the rules with our protocol number.
func (k *stack) rules() (n int, err error) {
	for _, f := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := k.nl.RuleList(f)
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return 0, fmt.Errorf("look for rules: %w", err)
		}
		for _, r := range rules {
			if r.Protocol == protocol {
				n++
			}
		}
	}
	return n, nil
}

func (d Device) alias() string { return "baton balance " + d.Owner }

func (k *stack) makeDevice(d Device) error {
	there, err := k.nl.LinkByName(d.Name)
	if gone(err) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = d.Name
		attrs.HardwareAddr = hardware(d.MAC)
		err = k.nl.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: d.Peer, PeerHardwareAddr: hardware(d.PeerMAC)})
		if err == nil {
			there, err = k.nl.LinkByName(d.Name)
		}
	}
	if err != nil {
		return err
	}
	if there.Type() != "veth" || there.Attrs().HardwareAddr.String() != hardware(d.MAC).String() {
		return fmt.Errorf("it exists and is not ours")
	}
	if there.Attrs().Alias == d.alias() {
		return nil
	}
	return k.nl.LinkSetAlias(there, d.alias())
}

func hardware(m links.MAC) net.HardwareAddr { return slices.Clone(m[:]) }

func (k *stack) undoDevice(d Device) (bool, error) {
	there, err := k.nl.LinkByName(d.Name)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if there.Type() != "veth" || there.Attrs().HardwareAddr.String() != hardware(d.MAC).String() {
		return false, nil // somebody else has the name now
	}
	if err := k.nl.LinkDel(there); err != nil && !gone(err) {
		return false, err
	}
	return true, nil
}

// settle sets up the device itself. No journal records that, because it goes with the device.
func (k *stack) settle(p Plan) error {
	for _, name := range []string{Peer(p.Device), p.Device} {
		l, err := k.nl.LinkByName(name)
		if err != nil {
			return fmt.Errorf("look for %s: %w", name, err)
		}
		if err := setSysctls(name, p.IPv6 && name == p.Device); err != nil {
			return err
		}
		if l.Attrs().MTU != p.MTU {
			if err := k.nl.LinkSetMTU(l, p.MTU); err != nil {
				return fmt.Errorf("set the MTU of %s to %d: %w", name, p.MTU, err)
			}
		}
		if l.Attrs().Flags&net.FlagUp == 0 {
			if err := k.nl.LinkSetUp(l); err != nil {
				return fmt.Errorf("set %s up: %w", name, err)
			}
		}
	}
	if slices.ContainsFunc(p.Items, func(i Item) bool { _, is := i.(Bridge); return is }) {
		return wholePackets(p.Device)
	}
	return nil
}

// setSysctls restricts the interface to its assigned IPv6 addresses, or disables IPv6. It does nothing on a kernel without IPv6.
func setSysctls(name string, v6 bool) error {
	dir := filepath.Join("/proc/sys/net/ipv6/conf", name)
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	values := [][2]string{{"disable_ipv6", "1"}}
	if v6 {
		const none = "1" // IN6_ADDR_GEN_MODE_NONE of linux/if_link.h
		values = [][2]string{{"accept_ra", "0"}, {"autoconf", "0"}, {"addr_gen_mode", none}, {"disable_ipv6", "0"}}
	}
	for _, v := range values {
		path := filepath.Join(dir, v[0])
		if now, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(now)) == v[1] {
			continue
		}
		if err := os.WriteFile(path, []byte(v[1]), 0); err != nil {
			return fmt.Errorf("set net.ipv6.conf.%s.%s to %s: %w", name, v[0], v[1], err)
		}
	}
	return nil
}

const (
	ifaNoDAD         = 0x02  // IFA_F_NODAD of linux/if_addr.h
	ifaNoPrefixRoute = 0x200 // IFA_F_NOPREFIXROUTE: no route in the main table
)

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func (k *stack) makeAddress(a Address, keep bool) error {
	l, err := k.nl.LinkByName(a.Device)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: ipNet(a.Prefix), Flags: ifaNoPrefixRoute}
	if a.Prefix.Addr().Is6() {
		addr.Flags |= ifaNoDAD
	}
	if keep {
		return there(k.nl.AddrAdd(l, addr))
	}
	return k.nl.AddrReplace(l, addr)
}

func (k *stack) undoAddress(a Address) (bool, error) {
	l, err := k.nl.LinkByName(a.Device)
	if err == nil {
		err = k.nl.AddrDel(l, &netlink.Addr{IPNet: ipNet(a.Prefix)})
	}
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

func (k *stack) makeNeighbour(n Neighbour, keep bool) error {
	neighbour, err := k.neighbour(n)
	if err != nil {
		return err
	}
	if keep {
		return there(k.nl.NeighAdd(neighbour))
	}
	return k.nl.NeighSet(neighbour)
}

func (k *stack) neighbour(n Neighbour) (*netlink.Neigh, error) {
	l, err := k.nl.LinkByName(n.Device)
	if err != nil {
		return nil, err
	}
	return &netlink.Neigh{
		LinkIndex: l.Attrs().Index, IP: n.Address.AsSlice(), HardwareAddr: hardware(n.MAC), State: netlink.NUD_PERMANENT,
	}, nil
}

func (k *stack) makeRoute(r Route, keep bool) error {
	route, err := k.route(r)
	switch {
	case err != nil:
	case keep:
		err = there(k.nl.RouteAdd(route))
	default:
		err = k.nl.RouteReplace(route)
	}
	if gone(err) || errors.Is(err, unix.ENETDOWN) {
		return nil // a link has gone: another plan will follow
	}
	return err
}

func (k *stack) route(r Route) (*netlink.Route, error) {
	l, err := k.nl.LinkByName(r.Device)
	if err != nil {
		return nil, err
	}
	route := &netlink.Route{LinkIndex: l.Attrs().Index, Table: r.Table, Protocol: protocol}
	switch {
	case r.To.IsValid():
		route.Dst = ipNet(r.To)
	case r.IPv6:
		route.Dst = ipNet(netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	default:
		route.Dst = ipNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	}
	if r.Gateway.IsValid() {
		route.Gw = r.Gateway.AsSlice()
		route.Flags = int(netlink.FLAG_ONLINK) // also for a gateway outside of the link's network
	} else if !r.IPv6 {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	return route, nil
}

func ruleOf(r Rule) *netlink.Rule {
	n := netlink.NewRule()
	n.Family = unix.AF_INET
	if r.IPv6 {
		n.Family = unix.AF_INET6
	}
	n.Priority, n.Invert, n.Protocol, n.Table = r.Priority, r.Not, protocol, r.Table
	n.IifName, n.OifName = r.Incoming, r.Outgoing
	if r.From.IsValid() {
		n.Src = ipNet(r.From)
	}
	if r.To.IsValid() {
		n.Dst = ipNet(r.To)
	}
	if r.OfUsers {
		n.UIDRange = netlink.NewRuleUIDRange(r.Users.First, r.Users.Last)
	}
	if r.Mask != 0 {
		mask := r.Mask
		n.Mark, n.Mask = r.Mark, &mask
	}
	if r.Suppress {
		n.SuppressPrefixlen = 0
	}
	if r.Goto != 0 {
		n.Goto = r.Goto
	}
	return n
}
