package datapath

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Cgroup is a control group (version 2) that a program is attached to, or that was looked for.
type Cgroup struct {
	Dir string
	// Enter and Leave are called with the group's inode before it is attached to and after it is not any more. They may be nil.
	Enter, Leave func(id uint64) error

	id   uint64 // inode of Dir
	link link.Link
}

// Attach attaches to the group that there is now at its path. It may be called again and again: a group that was removed and made anew, as
// that of a service that is restarted, is another one. fresh says that it is attached now and was not before. While there is no such group,
// the error wraps os.ErrNotExist.
func (g *Cgroup) Attach(program *ebpf.Program, at ebpf.AttachType) (fresh bool, err error) {
	fd, err := unix.Open(g.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	var now unix.Stat_t
	if err == nil {
		defer unix.Close(fd)
		err = unix.Fstat(fd, &now)
	}
	if g.link != nil && (err != nil || now.Ino != g.id) {
		err = errors.Join(err, g.Detach())
	}
	if err != nil || g.link != nil {
		return false, err
	}
	if g.Enter != nil {
		if err := g.Enter(now.Ino); err != nil {
			return false, err
		}
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: program, Attach: at})
	if err != nil {
		return false, errors.Join(err, g.left(now.Ino))
	}
	g.id, g.link = now.Ino, l
	return true, nil
}

// Detach takes the program off the group, which may have gone.
func (g *Cgroup) Detach() error {
	if g.link == nil {
		return nil
	}
	err := errors.Join(Detach(g.link), g.left(g.id))
	g.id, g.link = 0, nil
	return err
}

func (g *Cgroup) left(id uint64) error {
	if g.Leave == nil {
		return nil
	}
	return g.Leave(id)
}
