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
	// routeProtocol is who made a rule or a route, as `ip rule` and `ip route` show it. The numbers up to 99 are in nobody's use
	// (/etc/iproute2/rt_protos).
	routeProtocol = 98
	// rulePriority is behind the rule for the host's own addresses (0), and in front of those that administrators make.
	rulePriority = 98
)

// ErrInUse says that another process steers with the table.
var ErrInUse = errors.New("another relay steers with this table")

// steering has marked packets delivered here: a rule for each interface and family, and one route for each family. The rule is of the
// interface, so that it is not of the host's own packets, nor of the check of sources (rp_filter), whatever the mark means to them.
type steering struct {
	mark     uint32
	table    int
	families []int
	lock     int // a socket whose name nobody else can have
}

func openSteering(mark uint32, table int) (_ *steering, err error) {
	if table <= unix.RT_TABLE_LOCAL {
		return nil, fmt.Errorf("steer with table %d: it is the system's", table)
	}
	s := &steering{mark: mark, table: table, families: []int{unix.AF_INET}, lock: -1}
	if off, err := os.ReadFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6"); err == nil && strings.TrimSpace(string(off)) == "0" {
		s.families = append(s.families, unix.AF_INET6)
	}
	if s.lock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("own table %d: %w", table, err)
	}
	defer func() {
		if err != nil {
			unix.Close(s.lock)
		}
	}()
	// an abstract name: of the network namespace, and gone with the process
	err = unix.Bind(s.lock, &unix.SockaddrUnix{Name: fmt.Sprintf("@baton-relay-%d", table)})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %d", ErrInUse, table)
	}
	if err != nil {
		return nil, fmt.Errorf("own table %d: %w", table, err)
	}
	if err := s.removeAll(); err != nil { // an earlier process may have been killed
		return nil, err
	}
	for _, family := range s.families {
		if err := netlink.RouteReplace(s.route(family)); err != nil {
			return nil, errors.Join(fmt.Errorf("make the route that delivers steered packets: %w", err), s.removeAll())
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

// loopback is the number of lo, in every network namespace.
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
			err = fmt.Errorf("%w: the kernel has no rules (CONFIG_IP_MULTIPLE_TABLES, CONFIG_IPV6_MULTIPLE_TABLES)", err)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return errors.Join(fmt.Errorf("make the rule of steered packets: %w", err), s.remove(name))
		}
	}
	return nil
}

func (s *steering) remove(name string) error {
	var errs []error
	for _, family := range s.families {
		if err := netlink.RuleDel(s.rule(family, name)); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("remove the rule of steered packets: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes what a relay has made in the table, and refuses a table in which there is something else.
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
				return fmt.Errorf("steer with table %d: a rule of somebody else has it (%v): the relay needs one of its own", s.table, r)
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
				return fmt.Errorf("steer with table %d: a route of somebody else is in it (%v): the relay needs one of its own", s.table, r)
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

// ethernet returns an interface's name, and refuses one whose packets have no Ethernet header in front.
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
