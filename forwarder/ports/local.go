package ports

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// portEnd is the name of the port's end of a local interface. Names that agree in 12 bytes share one, and the second is refused.
func portEnd(host string) string {
	const prefix = "of-"
	return prefix + host[:min(len(host), unix.IFNAMSIZ-1-len(prefix))]
}

// makeLocal makes a veth pair, or finds one left by an earlier process.
func (p *Ports) makeLocal(host, end string) error {
	one, err := p.read(host)
	if err != nil {
		return err
	}
	other, err := p.read(end)
	if err != nil {
		return err
	}
	if paired(one, other) {
		return nil
	}
	if one != nil {
		return fmt.Errorf("interface %s already exists", host)
	}
	if other != nil {
		return fmt.Errorf("interface %s already exists", end)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = end
	if err := p.handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: host}); err != nil {
		return fmt.Errorf("make interface %s: %w", host, err)
	}
	if err := p.configureLocal(host, end); err != nil {
		p.local = host
		return errors.Join(err, p.removeLocal())
	}
	return nil
}

func paired(one, other netlink.Link) bool {
	return one != nil && other != nil && one.Type() == "veth" && one.Attrs().ParentIndex == other.Attrs().Index
}

// configureLocal sets up the host's end, and keeps the host from using IPv6 on the other.
func (p *Ports) configureLocal(host, end string) error {
	other, err := p.handle.LinkByName(end)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", end, err)
	}
	const none = 1                                  // IN6_ADDR_GEN_MODE_NONE of linux/if_link.h
	_ = p.handle.LinkSetIP6AddrGenMode(other, none) // a kernel without IPv6
	one, err := p.handle.LinkByName(host)
	if err == nil {
		err = p.handle.LinkSetUp(one)
	}
	if err != nil {
		return fmt.Errorf("set up interface %s: %w", host, err)
	}
	return nil
}

func (p *Ports) removeLocal() error {
	if p.local == "" {
		return nil
	}
	link, err := p.read(p.local)
	if err == nil && link != nil {
		err = p.handle.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove interface %s: %w", p.local, err)
	}
	return nil
}

// RemoveLocal removes a local interface that an earlier process has left in the calling thread's network namespace. Other interfaces of that
// name are kept.
func RemoveLocal(host string) (err error) {
	p := &Ports{local: host}
	if p.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer p.handle.Close()
	one, err := p.read(host)
	if err != nil {
		return err
	}
	other, err := p.read(portEnd(host))
	if err != nil || !paired(one, other) {
		return err
	}
	return p.removeLocal()
}
