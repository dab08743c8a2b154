package forwarder

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"baton/datapath"
	"baton/forwarder/config"
	"baton/forwarder/ports"
)

// Remove takes away what a forwarder that has ended has left: its attachments, and with them its flow entries, its devices, and that its
// ports are promiscuous; they stay up. With a state folder in the configuration, the next Run has the flow entries again.
func Remove(cfg *config.Config) error {
	loops := LoopDevices(cfg.Name)
	if err := datapath.RemoveForwarder(StatePath(cfg.Name), loops[0]); err != nil {
		return err
	}
	errs := []error{removeInterface(loops[1])}
	for _, p := range cfg.Ports {
		errs = append(errs, calm(p.Interface))
	}
	if cfg.Local != "" {
		errs = append(errs, ports.RemoveLocal(cfg.Local))
	}
	return errors.Join(errs...)
}

// chooseLoop returns the name of the loop device to make, and that of the one that a predecessor may have left. Where both are there, a start
// did not come to its end, and the older one is in use.
func chooseLoop(name string) (now, before string) {
	loops := LoopDevices(name)
	first, noFirst := net.InterfaceByName(loops[0])
	second, noSecond := net.InterfaceByName(loops[1])
	if noFirst != nil || noSecond == nil && first.Index > second.Index {
		return loops[0], loops[1]
	}
	return loops[1], loops[0]
}

// removeInterface removes an interface if it is there.
func removeInterface(name string) error {
	link, err := find(name)
	if link != nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	return nil
}

// calm ends that an interface, if it is there, takes frames that are for others.
func calm(name string) error {
	link, err := find(name)
	if link != nil && link.Attrs().Promisc != 0 {
		err = netlink.SetPromiscOff(link)
	}
	if err != nil {
		return fmt.Errorf("let go of interface %s: %w", name, err)
	}
	return nil
}

// find returns nil for an interface that is not there.
func find(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	return link, err
}
