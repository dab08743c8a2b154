package relay

import "baton/datapath"

// AttachOwnCgroup attaches to this process's cgroup (version 2); see AttachCgroup. If no cgroup file system is mounted, as in a separate
// mount namespace, it uses a private mount, which needs CAP_SYS_ADMIN.
func (r *Relay) AttachOwnCgroup() error {
	group, err := datapath.OwnCgroup()
	if err != nil {
		return err
	}
	var h datapath.Hierarchy
	defer h.Close()
	dir, err := h.Dir(group)
	if err != nil {
		return err
	}
	return r.AttachCgroup(dir)
}
