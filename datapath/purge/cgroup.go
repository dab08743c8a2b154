package purge

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// AttachCgroup watches the connections that the processes of a control group (version 2) and its descendants accept from now on; Arm
// adds existing ones. group is a path in the hierarchy, as in /proc/PID/cgroup: "/" is the whole host. Where no hierarchy is mounted,
// it mounts one that is not visible to others, which needs CAP_SYS_ADMIN.
//
// It is to be called repeatedly: a group that was removed and created again, as that of a restarted service, is another one. fresh
// says that it was attached by this call. While the group does not exist, the error wraps os.ErrNotExist.
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
