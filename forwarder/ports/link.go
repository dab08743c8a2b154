package ports

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"baton/packet"
)

// read looks up an interface by name: nil without error if there is none.
func (p *Ports) read(name string) (netlink.Link, error) {
	link, err := p.handle.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read interface %s: %w", name, err)
	}
	if link.Attrs().Name != name { // an alternative name, whose changes are not notified
		return nil, nil
	}
	return link, nil
}

// refresh updates a port from its interface, and reports whether it changed. Except in Open, Ports.mu is held.
func (p *Ports) refresh(pt *port) (changed bool, err error) {
	link, err := p.read(pt.name)
	if err != nil {
		return false, err
	}
	if link != nil && link.Attrs().EncapType != "ether" {
		err = fmt.Errorf("interface %s is not Ethernet (%s)", pt.name, link.Attrs().EncapType)
		link = nil
	}
	if link != nil && link.Attrs().Index != pt.index {
		if link, err = p.claim(pt, link); err != nil {
			return false, err
		}
	}
	return p.see(pt, link), err
}

// claim prepares an interface that is new to the port, and reads it again.
func (p *Ports) claim(pt *port, link netlink.Link) (netlink.Link, error) {
	pt.found, pt.since = link.Attrs().RawFlags, time.Now()
	err := p.setUp(link, !pt.down)
	if err == nil && !p.o.Own && pt.found&unix.IFF_PROMISC == 0 {
		err = p.handle.SetPromiscOn(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) { // gone meanwhile
		return nil, fmt.Errorf("set up interface %s: %w", pt.name, err)
	}
	again, err := p.read(pt.name)
	if err != nil || again == nil || again.Attrs().Index != link.Attrs().Index {
		return nil, err // the kernel will notify us of an interface that takes the name
	}
	return again, nil
}

// see updates the description of a port. A change increases the serial number.
func (p *Ports) see(pt *port, link netlink.Link) (changed bool) {
	var mac packet.MAC
	var f features
	index := 0
	if link != nil {
		a := link.Attrs()
		index = a.Index
		mac = p.mac(pt, a)
		if a.RawFlags&unix.IFF_UP != 0 {
			pt.down = false // or somebody else has set it up
		}
		f = readFeatures(p.ethtool, a.Name)
	}
	if index == 0 && pt.index != 0 {
		pt.since = time.Now()
	}
	pt.index = index
	e := pt.describe(link, mac, f)
	was := pt.seen
	if was.Port == e.Port && was.Ifindex == e.Ifindex && was.Up == e.Up {
		return false
	}
	p.serial++
	e.Serial = p.serial
	pt.seen = e
	return true
}

// mac of a local port is the MAC of the host's end.
func (p *Ports) mac(pt *port, a *netlink.LinkAttrs) (mac packet.MAC) {
	copy(mac[:], a.HardwareAddr)
	if pt.host == "" {
		return mac
	}
	if host, err := p.read(pt.host); err == nil && host != nil {
		copy(mac[:], host.Attrs().HardwareAddr)
	}
	return mac
}

func (p *Ports) setUp(link netlink.Link, up bool) error {
	switch {
	case (link.Attrs().RawFlags&unix.IFF_UP != 0) == up:
		return nil
	case up:
		return p.handle.LinkSetUp(link)
	}
	return p.handle.LinkSetDown(link)
}

// restore restores the original flags of an interface, except those that somebody else has changed since.
func (p *Ports) restore(pt *port) error {
	if pt.index == 0 {
		return nil
	}
	link, err := p.handle.LinkByIndex(pt.index)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore interface %s: %w", pt.name, err)
	}
	flags := link.Attrs().RawFlags
	if !p.o.Own && pt.found&unix.IFF_PROMISC == 0 && flags&unix.IFF_PROMISC != 0 {
		err = p.handle.SetPromiscOff(link)
	}
	if (flags&unix.IFF_UP != 0) == !pt.down {
		err = errors.Join(err, p.setUp(link, pt.found&unix.IFF_UP != 0))
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("restore interface %s: %w", pt.name, err)
	}
	return nil
}
