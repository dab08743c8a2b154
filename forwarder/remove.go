package forwarder

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/config"
	"baton/forwarder/ports"
)

// Remove removes what a forwarder that is not running has left in the kernel, and describes it: its attachments, and with them its flow
// entries; its devices; promiscuous mode of its ports, which stay up. If the configuration has a state folder, the next Run restores the flow
// entries.
func Remove(cfg *config.Config) ([]string, error) {
	if cfg.Datapaths != nil {
		return removeAll(cfg.Datapaths)
	}
	left := leftBy(cfg)
	if err := kernel.Remove(StatePath(cfg.Name), LoopDevices(cfg.Name)[0]); err != nil {
		return nil, err
	}
	errs := []error{removeLoops(cfg.Name, "")}
	for _, p := range cfg.Ports {
		if !cfg.NormalStack {
			errs = append(errs, endPromiscuous(p.Interface))
		}
	}
	if cfg.Local != "" {
		errs = append(errs, ports.RemoveLocal(cfg.Local))
	}
	return left, errors.Join(errs...)
}

func removeAll(list []*config.Config) (removed []string, err error) {
	for _, one := range list {
		left, failed := Remove(one)
		removed, err = append(removed, left...), errors.Join(err, failed)
	}
	return removed, err
}

// leftBy lists what a forwarder has left.
func leftBy(cfg *config.Config) (left []string) {
	if state := StatePath(cfg.Name); isThere(state) {
		left = append(left, "flow entries, programs and tables in "+state)
	}
	loops := LoopDevices(cfg.Name)
	for _, name := range append(loops[:], cfg.Local) {
		if link, err := find(name); name != "" && err == nil && link != nil {
			left = append(left, "interface "+name)
		}
	}
	for _, p := range cfg.Ports {
		if link, err := find(p.Interface); !cfg.NormalStack && err == nil && link != nil && link.Attrs().Promisc != 0 {
			left = append(left, "promiscuous mode of "+p.Interface)
		}
	}
	return left
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// chooseLoop returns an unused name for the loop device, so that a predecessor's tables can keep using theirs.
func chooseLoop(name string) string {
	loops := LoopDevices(name)
	for _, loop := range loops {
		if _, err := net.InterfaceByName(loop); err != nil {
			return loop
		}
	}
	return loops[len(loops)-1]
}

// removeLoops removes all loop devices except the one in use.
func removeLoops(name, inUse string) error {
	var errs []error
	for _, loop := range LoopDevices(name) {
		if loop != inUse {
			errs = append(errs, removeInterface(loop))
		}
	}
	return errors.Join(errs...)
}

// removeInterface removes an interface if it exists.
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

// endPromiscuous ends promiscuous mode of an interface, if it exists.
func endPromiscuous(name string) error {
	link, err := find(name)
	if link != nil && link.Attrs().Promisc != 0 {
		err = netlink.SetPromiscOff(link)
	}
	if err != nil {
		return fmt.Errorf("end promiscuous mode of interface %s: %w", name, err)
	}
	return nil
}

// find returns nil for an interface that does not exist.
func find(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	return link, err
}
