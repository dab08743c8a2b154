package relay

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// routeProtocol marks our rules and routes, as `ip rule` and `ip route` show them. The numbers up to 99 are unused
	// (/etc/iproute2/rt_protos).
	routeProtocol = 98
	// rulePriority is after the rule for local addresses (0), and before those of administrators.
	rulePriority = 98
)

// ErrInUse means that another process uses the table for steering.
var ErrInUse = errors.New("another relay uses this routing table for steering")

// steering delivers marked packets locally, by a rule per interface and family, and one route per family. The rule names the interface, so
// that it matches neither the host's own packets nor the source check (rp_filter).
type steering struct {
	mark     uint32
	table    int
	families []int
	lock     int // a socket that locks the table by its name
}

func openSteering(mark uint32, table int) (_ *steering, err error) {
	if table <= unix.RT_TABLE_LOCAL {
		return nil, fmt.Errorf("steer with table %d: it belongs to the system", table)
	}
	s := &steering{mark: mark, table: table, families: []int{unix.AF_INET}, lock: -1}
	if off, err := os.ReadFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6"); err == nil && strings.TrimSpace(string(off)) == "0" {
		s.families = append(s.families, unix.AF_INET6)
	}
	if s.lock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("lock table %d: %w", table, err)
	}
	defer func() {
		if err != nil {
			unix.Close(s.lock)
		}
	}()
	// an abstract name: per network namespace, released with the process
	err = unix.Bind(s.lock, &unix.SockaddrUnix{Name: fmt.Sprintf("@baton-relay-%d", table)})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %d", ErrInUse, table)
	}
	if err != nil {
		return nil, fmt.Errorf("lock table %d: %w", table, err)
	}
	if err := s.removeAll(); err != nil { // an earlier process may have been killed
		return nil, err
	}
	for _, family := range s.families {
		if err := netlink.RouteReplace(s.route(family)); err != nil {
			return nil, errors.Join(fmt.Errorf("add the route for steered packets: %w", err), s.removeAll())
		}
	}
	return s, nil
}

func (s *steering) route(family int) *netlink.Route {
	all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	if family == unix.AF_INET6 {
		all = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &netlink.Route{
		Family: family, Table: s.table, Type: unix.RTN_LOCAL, Dst: all, LinkIndex: loopback, Scope: unix.RT_SCOPE_HOST, Protocol: routeProtocol,
	}
}

// loopback is the index of lo in every network namespace.
const loopback = 1

func (s *steering) rule(family int, name string) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Table, r.Priority, r.Protocol = family, s.table, rulePriority, routeProtocol
	r.Mark, r.IifName = s.mark, name
	return r
}

// add steers packets that come in by an interface.
func (s *steering) add(name string) error {
	for _, family := range s.families {
		err := netlink.RuleAdd(s.rule(family, name))
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			err = fmt.Errorf("%w: the kernel lacks policy routing (CONFIG_IP_MULTIPLE_TABLES, CONFIG_IPV6_MULTIPLE_TABLES)", err)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return errors.Join(fmt.Errorf("add the rule for steered packets: %w", err), s.remove(name))
		}
	}
	return nil
}

func (s *steering) remove(name string) error {
	var errs []error
	for _, family := range s.families {
		if err := netlink.RuleDel(s.rule(family, name)); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("remove the rule for steered packets: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a relay's rules and routes from the table, and fails if it contains others.
func (s *steering) removeAll() error {
	for _, family := range s.families {
		rules, err := netlink.RuleList(family)
		if err != nil {
			return fmt.Errorf("list the rules: %w", err)
		}
		for _, r := range rules {
			if r.Table != s.table {
				continue
			}
			if r.Protocol != routeProtocol {
				return fmt.Errorf("steer with table %d: another program's rule uses it (%v): the relay needs its own table", s.table, r)
			}
			if err := netlink.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove the rule of an earlier process: %w", err)
			}
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: s.table}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("list the routes of table %d: %w", s.table, err)
		}
		for _, r := range routes {
			if r.Protocol != routeProtocol {
				return fmt.Errorf("steer with table %d: it contains another program's route (%v): the relay needs its own table", s.table, r)
			}
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove the route of an earlier process: %w", err)
			}
		}
	}
	return nil
}

func (s *steering) close() error {
	return errors.Join(s.removeAll(), unix.Close(s.lock))
}

// ethernet returns an interface's name, and fails if its packets lack an Ethernet header.
func ethernet(ifindex int) (name string, isLoopback bool, err error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return "", false, err
	}
	a := l.Attrs()
	switch a.EncapType {
	case "ether":
		return a.Name, false, nil
	case "loopback":
		return a.Name, true, nil
	}
	return "", false, fmt.Errorf("%s is of type %s: its packets have no Ethernet header", a.Name, a.EncapType)
}
