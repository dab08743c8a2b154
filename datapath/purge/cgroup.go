package purge

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

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
		g = &datapath.Cgroup{
			Dir:   dir,
			Enter: func(id uint64) error { return p.objects.Groups.Put(id, uint8(1)) },
			Leave: func(id uint64) error { return p.objects.Groups.Delete(id) },
		}
		p.groups[group] = g
	}
	if fresh, err = g.Attach(p.objects.PurgeWatch, ebpf.AttachCGroupSockOps); err != nil {
		return false, fmt.Errorf("attach to the control group %s: %w", group, err)
	}
	return fresh, nil
}

// detachGroups detaches from all of them.
func (p *Purge) detachGroups() error {
	var errs []error
	for _, g := range p.groups {
		errs = append(errs, g.Detach())
	}
	p.groups = nil
	return errors.Join(append(errs, p.hierarchy.Close())...)
}
