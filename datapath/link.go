package datapath

import (
	"errors"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// LinkPrefix is that of the names of pinned attachments to interfaces; the interface's number follows.
const LinkPrefix = "link_"

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
