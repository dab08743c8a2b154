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

// hostPrefix begins the pin name of an attachment to the host's side of an interface.
const hostPrefix = "host_"

// pinName is the name of an attachment's pin.
func pinName(ifindex int, host bool) string {
	if host {
		return hostPrefix + strconv.Itoa(ifindex)
	}
	return datapath.LinkPrefix + strconv.Itoa(ifindex)
}

// attach attaches a program to the ingress of an interface or, for the host's packets, to the egress, replacing that of an earlier process
// atomically.
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

// Attach makes an interface the port at an index of Ports. Its record must have been written: the flags say which side of the interface the
// port is.
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

// Detach detaches the program from an interface, which may be gone.
func (f *Forwarder) Detach(ifindex int) error {
	if err := f.objects.PortOf.Delete(uint32(ifindex)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("detach from interface %d: %w", ifindex, err)
	}
	var errs []error
	for _, name := range []string{pinName(ifindex, false), pinName(ifindex, true)} {
		if l := f.links[name]; l != nil {
			delete(f.links, name)
			errs = append(errs, l.Unpin(), datapath.Detach(l))
		}
	}
	return errors.Join(errs...)
}

// DetachOthers detaches earlier processes' programs from interfaces that this one has not attached to.
func (f *Forwarder) DetachOthers() error {
	return detachPinned(f.options.State, func(name string) bool { return f.links[name] != nil })
}

// detachPinned ends the attachments that are pinned in a folder, but those to keep.
func detachPinned(state string, keep func(name string) bool) error {
	list, err := os.ReadDir(state)
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	var errs []error
	for _, e := range list {
		name := e.Name()
		if !keep(name) && (strings.HasPrefix(name, datapath.LinkPrefix) || strings.HasPrefix(name, hostPrefix)) {
			errs = append(errs, datapath.DetachPinned(filepath.Join(state, name)))
		}
	}
	return errors.Join(errs...)
}
