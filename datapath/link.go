package datapath

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// LinkPrefix is that of the names of pinned attachments to interfaces; the interface's number follows.
const LinkPrefix = "link_"

// AttachPinned puts a program on an interface (tcx), behind those that are there, and pins the attachment: it stays until that is removed.
func AttachPinned(path string, ifindex int, program *ebpf.Program, at ebpf.AttachType) (link.Link, error) {
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: program, Attach: at})
	if err != nil {
		return nil, fmt.Errorf("attach to interface %d: %w", ifindex, err)
	}
	if err := l.Pin(path); err != nil {
		l.Close()
		return nil, fmt.Errorf("pin the attachment to interface %d: %w", ifindex, err)
	}
	return l, nil
}

// AdoptPinned has a pinned attachment run this program. The link is nil where its interface has gone, whose number may be another's now: then
// nothing is pinned there any more. While nothing is, the error wraps os.ErrNotExist.
func AdoptPinned(path string, program *ebpf.Program) (link.Link, error) {
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return nil, fmt.Errorf("adopt the attachment %s: %w", path, err)
	}
	if err := l.Update(program); err != nil {
		l.Close()
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("forget the attachment %s: %w", path, err)
		}
		return nil, nil
	}
	return l, nil
}

// Detach ends an attachment though another thread's table of descriptors may have the link, too.
func Detach(l link.Link) error {
	if l == nil {
		return nil
	}
	err := l.Detach()
	if errors.Is(err, unix.ENOLINK) || errors.Is(err, unix.ENODEV) { // its interface or control group has gone
		err = nil
	}
	return errors.Join(err, l.Close())
}

// DetachPinned ends a pinned attachment and removes its pin, and returns when no packet runs into the program any more. The removal of a pin alone is
// not enough: the kernel then detaches when it gets to it, on a busy machine seconds later.
func DetachPinned(path string) error {
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil { // no attachment, or gone: nothing runs
		l = nil
	}
	return errors.Join(os.Remove(path), Detach(l))
}
