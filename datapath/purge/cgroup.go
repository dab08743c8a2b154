package purge

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// watched is a control group that the program is attached to, or that was looked for.
type watched struct {
	dir  string
	id   uint64 // inode of dir
	link link.Link
}

// AttachCgroup has the connections watched that the processes of a control group (version 2) and of those below it accept from now on;
// of those that are there, Arm has it done. group is its path in the hierarchy, as in /proc/PID/cgroup: "/" is the whole host. Where no
// hierarchy is mounted, it is looked at by a mount that nobody sees, which needs CAP_SYS_ADMIN.
//
// It may be called again and again: a group that was removed and made anew, as that of a service that is restarted, is another one. fresh
// tells that it is attached now and was not before. While there is no such group, the error wraps os.ErrNotExist.
func (p *Purge) AttachCgroup(group string) (fresh bool, err error) {
	g := p.groups[group]
	if g == nil {
		if len(p.groups) == MaxCgroups {
			return false, fmt.Errorf("attach to the control group %s: there are %d already", group, len(p.groups))
		}
		dir, err := p.hierarchy.Dir(group)
		if err != nil {
			return false, err
		}
		g = &watched{dir: dir}
		p.groups[group] = g
	}
	if fresh, err = p.attach(g); err != nil {
		return false, fmt.Errorf("attach to the control group %s: %w", group, err)
	}
	return fresh, nil
}

// attach has g be the group that there is now at its path.
func (p *Purge) attach(g *watched) (fresh bool, err error) {
	fd, err := unix.Open(g.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	var at unix.Stat_t
	if err == nil {
		defer unix.Close(fd)
		err = unix.Fstat(fd, &at)
	}
	if g.link != nil && (err != nil || at.Ino != g.id) {
		err = errors.Join(err, p.forget(g))
	}
	if err != nil || g.link != nil {
		return false, err
	}
	if err := p.objects.Groups.Put(at.Ino, uint8(1)); err != nil {
		return false, err
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: p.objects.PurgeWatch, Attach: ebpf.AttachCGroupSockOps})
	if err != nil {
		return false, errors.Join(err, p.objects.Groups.Delete(at.Ino))
	}
	g.id, g.link = at.Ino, l
	return true, nil
}

// forget detaches from a group that is gone.
func (p *Purge) forget(g *watched) error {
	err := errors.Join(datapath.Detach(g.link), p.objects.Groups.Delete(g.id))
	g.id, g.link = 0, nil
	return err
}

// detachGroups detaches from all of them.
func (p *Purge) detachGroups() error {
	var errs []error
	for _, g := range p.groups {
		errs = append(errs, datapath.Detach(g.link))
	}
	p.groups = nil
	return errors.Join(append(errs, p.hierarchy.Close())...)
}
