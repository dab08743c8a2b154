package router

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"baton/datapath"
)

func (r *Router) linkPath(ifindex int) string {
	return filepath.Join(r.options.State, datapath.LinkPrefix+strconv.Itoa(ifindex))
}

// Attach attaches the program to an interface's ingress, where it stays until Detach or Remove.
func (r *Router) Attach(ifindex int) error {
	if r.links[ifindex] != nil {
		return nil
	}
	l, err := datapath.AttachPinned(r.linkPath(ifindex), ifindex, r.programs.RouterIngress, ebpf.AttachTCXIngress)
	if err != nil {
		return err
	}
	r.links[ifindex] = l
	return nil
}

// Detach detaches the program from an interface.
func (r *Router) Detach(ifindex int) error {
	l := r.links[ifindex]
	if l == nil {
		return nil
	}
	delete(r.links, ifindex)
	return errors.Join(l.Unpin(), l.Close())
}

// Attached lists the interfaces that the program is attached to.
func (r *Router) Attached() []int {
	var all []int
	for ifindex := range r.links {
		all = append(all, ifindex)
	}
	return all
}

// adoptLinks replaces the program on each interface by this version's. The link of an interface that is gone goes too.
func (r *Router) adoptLinks() error {
	entries, err := os.ReadDir(r.options.State)
	if err != nil {
		return fmt.Errorf("adopt the attachments: %w", err)
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), datapath.LinkPrefix)
		if !ok {
			continue
		}
		path := filepath.Join(r.options.State, e.Name())
		ifindex, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("adopt the attachment %s: not ours", path)
		}
		l, err := datapath.AdoptPinned(path, r.programs.RouterIngress)
		if err != nil {
			return err
		}
		if l == nil {
			continue
		}
		r.links[ifindex] = l
	}
	return nil
}

// AttachReplay attaches the program that replays packets to the tap. It is detached when the process ends.
func (r *Router) AttachReplay(ifindex int) error {
	l, err := link.AttachTCX(link.TCXOptions{
		Interface: ifindex,
		Program:   r.programs.RouterReplay,
		Attach:    ebpf.AttachTCXIngress,
	})
	if err != nil {
		return fmt.Errorf("attach to the tap: %w", err)
	}
	r.replay = l
	return nil
}
