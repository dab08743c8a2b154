package forwarder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// hostPrefix is that of an attachment to the host's side of an interface.
const hostPrefix = "host_"

// pinName is what an attachment is called in the state.
func pinName(ifindex int, host bool) string {
	if host {
		return hostPrefix + strconv.Itoa(ifindex)
	}
	return datapath.LinkPrefix + strconv.Itoa(ifindex)
}

// attach puts a program at the ingress of an interface, or at the egress, where the host's packets come by; or in the place of the one that an
// earlier process left there.
func (f *Forwarder) attach(ifindex int, host bool, p *ebpf.Program) error {
	name := pinName(ifindex, host)
	path := filepath.Join(f.options.State, name)
	l, err := datapath.AdoptPinned(path, p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if l != nil {
		f.links[name] = l
		return nil
	}
	at := ebpf.AttachTCXIngress
	if host {
		at = ebpf.AttachTCXEgress
	}
	if l, err = datapath.AttachPinned(path, ifindex, p, at); err != nil {
		return err
	}
	f.links[name] = l
	return nil
}

// Attach makes an interface the port at a place of Ports, whose record is written: its flags say which side of the interface.
func (f *Forwarder) Attach(ifindex int, place uint32) error {
	if err := f.objects.PortOf.Put(uint32(ifindex), place); err != nil {
		return fmt.Errorf("attach to interface %d: %w", ifindex, err)
	}
	host := f.Ports[place].Flags&PortHost != 0
	if f.links[pinName(ifindex, host)] != nil {
		return nil
	}
	return f.attach(ifindex, host, f.objects.ForwarderIngress)
}

// Detach takes the program off an interface, which may have gone.
func (f *Forwarder) Detach(ifindex int) error {
	if err := f.objects.PortOf.Delete(uint32(ifindex)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("detach from interface %d: %w", ifindex, err)
	}
	var errs []error
	for _, name := range []string{pinName(ifindex, false), pinName(ifindex, true)} {
		if l := f.links[name]; l != nil {
			delete(f.links, name)
			errs = append(errs, l.Unpin(), l.Close())
		}
	}
	return errors.Join(errs...)
}

// DetachOthers takes what earlier processes attached off the interfaces that this one has not.
func (f *Forwarder) DetachOthers() error {
	list, err := os.ReadDir(f.options.State)
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	var errs []error
	for _, e := range list {
		name := e.Name()
		if f.links[name] == nil && (strings.HasPrefix(name, datapath.LinkPrefix) || strings.HasPrefix(name, hostPrefix)) {
			errs = append(errs, os.Remove(filepath.Join(f.options.State, name))) // the last reference to the link
		}
	}
	return errors.Join(errs...)
}
