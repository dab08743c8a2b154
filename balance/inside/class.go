package inside

import (
	"fmt"
	"net/netip"
	"os/user"
	"strconv"

	"baton/balance/config"
	"baton/balance/links"
)

// Classes are those of the applications that a configuration's rules distinguish, from 1 on in their order, behind that of all others. Their
// gateways are as given by class: see the methods of config.Inside.
func Classes(all []config.Application, gateway4, gateway6 func(class int) netip.Addr, mac func(class int) links.MAC) ([]Class, error) {
	classes := make([]Class, 0, 1+len(all))
	for k := range 1 + len(all) {
		c := Class{IPv4: gateway4(k), IPv6: gateway6(k), MAC: mac(k)}
		if !c.IPv4.IsValid() || !c.IPv6.IsValid() {
			return nil, fmt.Errorf("the inside has no room for the gateways of %d applications (shorter prefixes of inside.ipv4 and inside.ipv6)", len(all))
		}
		if k > 0 {
			if err := c.of(all[k-1]); err != nil {
				return nil, err
			}
			if c.Group != "" && k > MaxGroups {
				return nil, fmt.Errorf("the control group %s is application %d: %d at most", c.Group, k, MaxGroups)
			}
		}
		classes = append(classes, c)
	}
	return classes, nil
}

func (c *Class) of(a config.Application) error {
	if a.User == "" {
		c.Group = a.Cgroup
		return nil
	}
	number, err := strconv.ParseUint(a.User, 10, 32)
	if err != nil {
		u, err := user.Lookup(a.User)
		if err != nil {
			return fmt.Errorf("look for the user %s: %w", a.User, err)
		}
		if number, err = strconv.ParseUint(u.Uid, 10, 32); err != nil {
			return fmt.Errorf("look for the user %s: its number is %q", a.User, u.Uid)
		}
	}
	c.Users = &Users{uint32(number), uint32(number)}
	return nil
}
