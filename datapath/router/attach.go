package router

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Attach attaches the program to an interface's ingress, where it stays until Detach or Remove.
func (r *Router) Attach(ifindex int) error { return r.links.Attach(ifindex) }

// Detach detaches the program from an interface.
func (r *Router) Detach(ifindex int) error { return r.links.Detach(ifindex) }

// Attached lists the interfaces that the program is attached to.
func (r *Router) Attached() []int { return r.links.Attached() }

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
