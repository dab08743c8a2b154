package relay

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Remove removes the rules and routes that a killed relay has used for steering with a table, and lists them. The error is ErrInUse while a
// relay uses the table.
func Remove(table int) (removed []string, err error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		name := map[int]string{unix.AF_INET: "IPv4", unix.AF_INET6: "IPv6"}[family]
		rules, err := netlink.RuleList(family)
		if err != nil {
			return nil, fmt.Errorf("list the rules: %w", err)
		}
		for _, r := range rules {
			if r.Table == table && r.Protocol == routeProtocol {
				removed = append(removed, fmt.Sprintf("%s rule %d: from %s lookup %d", name, r.Priority, r.IifName, table))
			}
		}
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return nil, fmt.Errorf("list the routes of table %d: %w", table, err)
		}
		for _, r := range routes {
			if r.Protocol == routeProtocol {
				removed = append(removed, fmt.Sprintf("%s route of table %d", name, table))
			}
		}
	}
	if len(removed) == 0 {
		return nil, nil
	}
	s, err := openSteering(Mark, table) // closing removes everything in the table
	if err != nil {
		return nil, err
	}
	return removed, s.close()
}
