package anycast

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"baton/anycast/config"
)

// The service's addresses have a limited lifetime, which is renewed: after a kill they expire by themselves. A successor recognizes them by
// the lifetime and renews them.
const (
	addressLifetime = 10 * time.Minute
	addressRenewal  = time.Minute
)

// addresses are the service addresses that this process has added to an interface. A nil *addresses has none.
type addresses struct {
	link    netlink.Link
	own     []netlink.Addr
	renewed time.Time
}

// addAddresses adds addresses to an interface. Permanent ones that are already there are left alone.
func addAddresses(cfg *config.Addresses) (_ *addresses, err error) {
	if cfg == nil {
		return nil, nil
	}
	link, err := netlink.LinkByName(cfg.Interface)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", cfg.Interface, err)
	}
	there, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", cfg.Interface, err)
	}
	a := &addresses{link: link}
	for _, p := range cfg.Addresses {
		wanted, err := netlink.ParseAddr(p.String())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("address %s: %w", p, err), a.close())
		}
		if forGood(there, wanted) {
			continue
		}
		a.own = append(a.own, *wanted)
	}
	if err := a.put(time.Now()); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// forGood reports whether an address exists without a limited lifetime.
func forGood(there []netlink.Addr, wanted *netlink.Addr) bool {
	for i := range there {
		if there[i].IP.Equal(wanted.IP) {
			return there[i].ValidLft == 0 || uint32(there[i].ValidLft) == ^uint32(0)
		}
	}
	return false
}

// put adds the addresses, or renews them.
func (a *addresses) put(now time.Time) error {
	a.renewed = now
	for i := range a.own {
		address := a.own[i]
		address.ValidLft, address.PreferedLft = int(addressLifetime.Seconds()), int(addressLifetime.Seconds())
		if address.IP.To4() == nil {
			address.Flags |= flagNoDAD // other sites have an anycast address, too
		}
		if err := netlink.AddrReplace(a.link, &address); err != nil {
			return fmt.Errorf("put %s on %s: %w", address.IPNet, a.link.Attrs().Name, err)
		}
	}
	return nil
}

// flagNoDAD is IFA_F_NODAD of rtnetlink(7).
const flagNoDAD = 0x02

// renew extends the lifetimes when due. Failures are retried the next time.
func (a *addresses) renew(now time.Time) error {
	if a == nil || now.Sub(a.renewed) < addressRenewal {
		return nil
	}
	return a.put(now)
}

// close removes the addresses.
func (a *addresses) close() error {
	if a == nil {
		return nil
	}
	var errs []error
	for i := range a.own {
		if err := netlink.AddrDel(a.link, &a.own[i]); err != nil {
			errs = append(errs, fmt.Errorf("take %s off %s: %w", a.own[i].IPNet, a.link.Attrs().Name, err))
		}
	}
	a.own = nil
	return errors.Join(errs...)
}

// Cleanup takes away what a process that was killed has left: the service's addresses, before their lifetime ends. Those that are there for
// good are not the process's. It says what it has removed.
func Cleanup(cfg *config.Config) (removed []string, err error) {
	if cfg.Site == nil || cfg.Site.Addresses == nil {
		return nil, nil
	}
	link, err := netlink.LinkByName(cfg.Site.Addresses.Interface)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", cfg.Site.Addresses.Interface, err)
	}
	there, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", link.Attrs().Name, err)
	}
	a := &addresses{link: link}
	for _, p := range cfg.Site.Addresses.Addresses {
		left, err := netlink.ParseAddr(p.String())
		if err != nil {
			return nil, fmt.Errorf("address %s: %w", p, err)
		}
		if has(there, left) && !forGood(there, left) {
			a.own = append(a.own, *left)
			removed = append(removed, fmt.Sprintf("address %s of %s", left.IPNet, link.Attrs().Name))
		}
	}
	return removed, a.close()
}

func has(there []netlink.Addr, wanted *netlink.Addr) bool {
	return slices.ContainsFunc(there, func(a netlink.Addr) bool { return a.IP.Equal(wanted.IP) })
}
